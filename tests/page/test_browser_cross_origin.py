"""Pages of listed origins in a real browser: they call the gateway and the MCP front, and pages elsewhere do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.browser import Browser
from tests.page.static_site import serving
from tests.system.gateways import TOKEN, with_gateway
from tests.system.hosting import Host, free_port, running

PAGES = {"/": "<p>A page of another origin.</p>"}
OPEN = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')

FETCH = """
const [address, options] = given, names = ["audit-id", "agtp-status", "server-id", "mcp-session-id", "retry-after"];
try {
  const answer = await fetch(address, options);
  const fields = Object.fromEntries(names.map((name) => [name, answer.headers.get(name)]));
  return {status: answer.status, fields, body: await answer.text()};
} catch (error) { return {failed: String(error)}; }
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, str, str, str, str]]:
    """The host, its gateway, its MCP front, and two sites of which the first is listed."""
    front = free_port()
    with serving(PAGES, policy="") as listed, serving(PAGES, policy="") as other:
        origins = f'origins = ["{listed}"]'
        more = f'\n[mcp.front]\nlisten = "tcp:{front}:interface=127.0.0.1"\n{origins}\n'
        folder = tmp_path_factory.mktemp("origins")
        config, port = with_gateway(folder, more=origins, append=more, edit=[OPEN])
        with running(config) as host:
            yield host, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{front}/mcp", listed, other


def asked(window: Browser, address: str, **options: Any) -> dict[str, Any]:
    """What ``fetch`` of the page makes of a request."""
    found: dict[str, Any] = window.run(FETCH, address, options)
    return found


def bearer(**fields: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **fields}


def test_a_page_of_a_listed_origin_calls_and_reads(window: Browser, places: tuple[Host, str, str, str, str]) -> None:
    """An endpoint, a method of AGTP, a tool, and a refusal: with the fields that clients need."""
    _, gateway, _, listed, _ = places
    window.open(f"{listed}/")
    text = json.dumps({"text": "from elsewhere"})
    for method, path, headers in (
        ("ECHO", "/text", bearer()),
        ("POST", "/text", bearer(**{"X-AGIS-Method": "ECHO", "X-AGIS-Grammar": "AGIS/1.0", "Task-ID": "page-1"})),
    ):
        answer = asked(window, gateway + path, method=method, headers=headers, body=text)
        assert answer["status"] == 200 and "from elsewhere" in answer["body"], answer
        assert len(answer["fields"]["audit-id"]) == 64 and answer["fields"]["server-id"] == "localhost"
    tool = asked(window, f"{gateway}/tools/files/list_files", method="POST", headers=bearer(), body="{}")
    assert tool["status"] == 200 and "welcome.txt" in tool["body"], tool
    refused = asked(window, f"{gateway}/text", method="ECHO", headers={"Content-Type": "application/json"}, body=text)
    assert refused["status"] == 401 and "agent-unauthenticated" in refused["body"]
    known = asked(window, f"{gateway}/.well-known/openapi.json", headers=bearer())
    assert known["status"] == 200 and "/tools/files/list_files" in known["body"]
    window.said()


def test_a_page_of_a_listed_origin_is_an_mcp_client(window: Browser, places: tuple[Host, str, str, str, str]) -> None:
    """It opens a session, reads the session's id, and lists the tools."""
    _, _, front, listed, _ = places
    window.open(f"{listed}/")
    accept = {"Accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    answer = asked(window, front, method="POST", headers=bearer(**accept), body=json.dumps(first))
    assert answer["status"] == 200 and answer["fields"]["mcp-session-id"], answer
    session = {
        "Mcp-Session-Id": answer["fields"]["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
        "Last-Event-ID": "none",
        "Mcp-Method": "tools/list",
        "Mcp-Param-Region": "x",
    }
    listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    tools = asked(window, front, method="POST", headers=bearer(**accept, **session), body=listing)
    assert tools["status"] == 200 and "files__list_files" in tools["body"], tools
    metadata = front.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    assert asked(window, metadata)["status"] == 200
    window.said()


def test_a_page_elsewhere_reads_nothing_and_calls_nothing(
    window: Browser, places: tuple[Host, str, str, str, str]
) -> None:
    """The browser keeps the answer from it, and no call of it has a record."""
    host, gateway, front, _, other = places
    window.open(f"{other}/")
    before = len(host.agtp_json("audit", "walk"))
    body = json.dumps({"text": "never"})
    for address, method in (
        (f"{gateway}/text", "ECHO"),
        (f"{gateway}/tools/files/list_files", "POST"),
        (front, "POST"),
    ):
        answer = asked(window, address, method=method, headers=bearer(), body=body)
        assert "failed" in answer, answer
        # Without a preflight: the request is sent, and refused.
        simple = asked(window, address, method="POST", headers={"Content-Type": "text/plain"}, body=body)
        assert "failed" in simple, simple
    assert "failed" in asked(window, f"{gateway}/.well-known/agis.json")
    later = host.agtp_json("audit", "walk")[before:]
    found = [(record["payload"].get("method"), record["payload"]["status"]) for record in later]
    # What was refused is on record as refused; the walk reads the host's methods.
    assert [each for each in found if each[0] not in (None, "DISCOVER", "INSPECT") and each[1] < 400] == []
    assert ("ECHO", 401) in found
    window.said()
