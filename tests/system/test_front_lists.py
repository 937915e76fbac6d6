"""Lists that a client of the MCP front reads again and again are summed up, as those of AGTP are."""

from __future__ import annotations

import json
from collections import Counter
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from agtphost.audit.list_reads import LISTS
from agtphost.identity.jws import parse_unverified
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import free_port, running, sample
from tests.system.trail import database, stored

STEPS = 4


def post(port: int, session: str, **message: Any) -> tuple[int, str]:
    """Send a message of MCP, and return status and Mcp-Session-Id of the answer."""
    headers = {
        "Authorization": f"Bearer {token_of('framework')}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
        **({"Mcp-Session-Id": session} if session else {}),
    }
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.getheader("Mcp-Session-Id") or ""


def test_lists_through_the_front_are_counted(tmp_path: Path) -> None:
    """Each list has one record, an event has the counts with the door, and each call has its record."""
    port, clients = free_port(), {"framework": "demo"}
    config = sample(tmp_path, append=front(port, clients), eager=True)
    write_tokens(config.parent, clients)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with running(config) as host:
        status, session = post(port, "", id=1, method="initialize", params=about)
        assert status == 200 and session
        post(port, session, method="notifications/initialized")
        for step in range(STEPS):
            for method in ("tools/list", "prompts/list", "resources/list"):
                assert post(port, session, id=step, method=method)[0] == 200
            call = {"name": "files__list_files", "arguments": {}}
            assert post(port, session, id=step, method="tools/call", params=call)[0] == 200
        host.stop()
        payloads = [parse_unverified(each.signed.decode()) for each in stored(database(host)) if each.format == "jws"]
    actions = Counter(str(each.get("extra", {}).get("action")) for each in payloads)
    assert {name: actions[f"mcp.{name}.list"] for name in ("tools", "prompts", "resources")} == dict.fromkeys(
        ("tools", "prompts", "resources"), 1
    )
    assert sum(each.get("extra", {}).get("mcp_tool") == "list_files" for each in payloads) == STEPS
    entries = [entry for each in payloads if each.get("event_type") == LISTS for entry in each["lists"]]
    counts = {entry["action"]: entry["count"] for entry in entries if "action" in entry}
    assert counts == dict.fromkeys(("mcp.tools.list", "mcp.prompts.list", "mcp.resources.list"), STEPS - 1)
    assert {entry["http"]["surface"] for entry in entries} == {"mcp"}
