"""
Answers up to 16 MiB come through, and longer ones fail alone.

A server on the official SDK over stdio, and over HTTP as a stream and as JSON; behind the host, and behind host and
bridge. The sizes are those of docs/mcp.rst.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError

from agtphost.client.sync import Client
from tests import forking
from tests.programmes import length
from tests.rows import each_row
from tests.system import sized_server
from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host, running, sample
from tests.system.trail import keys

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FILE = str(Path(sized_server.__file__))
FITS = (16 << 20) - 1024
TOO_LONG = 17 << 20
CARRIERS = ("stdio", "stream", "json")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The same server three times."""
    command = json.dumps(forking.mcp_server(FILE, "stdio"))
    servers = f'\n[[mcp.server]]\nname = "stdio"\ncommand = {command}\n'
    with ExitStack() as stack:
        for name, words in (("stream", ("http",)), ("json", ("http", "json"))):
            process = stack.enter_context(subprocess.Popen(forking.mcp_server(FILE, *words), stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            port = int(process.stdout.readline())
            servers += f'\n[[mcp.server]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}/mcp"\n'
        with running(sample(tmp_path_factory.mktemp("large"), append=servers)) as host:
            yield host


@pytest.mark.release
@pytest.mark.programme
@each_row(
    ("carrier", "streaming"),
    length(
        [("stdio", False), ("stream", True), ("json", False)],
        [(carrier, streaming) for carrier in CARRIERS for streaming in (False, True)],
    ),
)
def test_through_the_host(host: Host, carrier: str, streaming: bool) -> None:
    """The text as the server has it, with a record that verifies; a longer one is 500, and the next is answered."""
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key", timeout=120) as client:
        for octets, status in ((FITS, 200), (TOO_LONG, 500), (100, 200)):
            payload = {"tool": f"{carrier}.text", "arguments": {"octets": octets}}
            body = {
                "action": "mcp.tools.call",
                "payload_type": "application/vnd.mcp.tools+json",
                "payload": payload,
            }
            seen: list[object] = []
            stream = seen.append if streaming else None
            reply = client.call(host.uri, "EXECUTE", input=body, stream=stream)
            assert reply.status == status, reply.body[:500]
            assert reply.verify(keys(host)).ok
            if status == 200:
                assert reply.result["tool_response"]["content"][0]["text"] == sized_server.text(octets)
            else:
                assert reply.reason == "upstream-answer-too-long"


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize(
    ("over", "mode", "carriers"),
    [
        ("stdio", "legacy", length(("stdio",), CARRIERS)),
        ("stdio", "2026-07-28", ("stream",)),
        ("http", "2026-07-28", ("json",)),
    ],
)
def test_through_host_and_bridge(host: Host, over: str, mode: str, carriers: Sequence[str]) -> None:
    """The same, for an MCP client of either era; the bridge is told by the host, whoever told that."""

    async def story(where: object) -> None:
        async with McpClient(where, mode=mode) as mcp:  # type: ignore[arg-type]
            for carrier in carriers:
                found = await mcp.call_tool(f"{carrier}__text", {"octets": FITS})
                assert found.content[0].text == sized_server.text(FITS)  # type: ignore[union-attr]
                with pytest.raises(MCPError, match="upstream-answer-too-long"):
                    await mcp.call_tool(f"{carrier}__text", {"octets": TOO_LONG})
                found = await mcp.call_tool(f"{carrier}__text", {"octets": 100})
                assert found.content[0].text == sized_server.text(100)  # type: ignore[union-attr]

    if over == "stdio":
        anyio.run(story, stdio(host))
        return
    with http_bridge(host) as bridge:
        anyio.run(story, bridge.url)
        assert bridge.stop() == 0


def test_as_an_event_of_the_bridge(host: Host) -> None:
    """Clients of 2025-11-25 over HTTP get an event; the official Python client takes 1 MiB there, from anybody."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}
    with http_bridge(host) as bridge, httpx.Client(headers=headers, timeout=120) as plain:

        def post(method: str, params: object, **more: object) -> httpx.Response:
            return plain.post(bridge.url, json={"jsonrpc": "2.0", "method": method, "params": params, **more})

        plain.headers["Mcp-Session-Id"] = post("initialize", client, id=1).headers["Mcp-Session-Id"]
        post("notifications/initialized", {})
        answer = post("tools/call", {"name": "stdio__text", "arguments": {"octets": FITS}}, id=2)
        events = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: {")]
        result = json.loads(events[-1])["result"]
        assert result["content"][0]["text"] == sized_server.text(FITS)
