"""The official MCP client, ``agtp mcp-bridge``, AGTP over mutual TLS, a host, a server on the official SDK."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from agtphost.config import load
from agtphost.identity.keys import SigningKey
from tests import forking
from tests.system.bridging import FIXTURE, HttpBridge, fixture, http_bridge, stdio
from tests.system.hosting import BIN, Host, agtp, free_port, running, sample
from tests.system.mcp_sessions import ERAS, connected, said

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample's own server, and the fixture."""
    with running(sample(tmp_path_factory.mktemp("bridge"), append=fixture("modern", 'isolation = "shared"'))) as host:
        yield host


@pytest.fixture(scope="module")
def bridge(host: Host) -> Iterator[HttpBridge]:
    """One bridge over HTTP."""
    with http_bridge(host) as bridge:
        yield bridge
        assert bridge.stop() == 0


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_answer_is_not_asked(era: str, host: Host) -> None:
    """A tool that needs a model ends with an error for a client that has none, and with a record."""

    async def story() -> MCPError | types.CallToolResult:
        async with Client(stdio(host, "--server", "modern"), mode=era) as mcp:
            try:
                return await mcp.call_tool("test_missing_capability", {})
            except MCPError as error:
                return error

    error = anyio.run(story)
    assert isinstance(error, MCPError)
    assert error.code == -32021
    assert error.data["requiredCapabilities"] == {"sampling": {}}
    assert error.data["agtp"]["audit_id"]


def test_a_client_that_leaves_lets_its_calls_go(host: Host) -> None:
    """A client cancels and closes stdin at once: the bridge tells the host before it ends."""

    async def story() -> None:
        async with connected(host, "legacy", "--server", "modern") as looking:
            before = await looking.cancelled_calls()
            async with connected(host, "legacy", "--server", "modern") as leaving:
                await leaving.cancel_a_call()
            assert await looking.cancelled_calls() == before + 1

    anyio.run(story)


def test_without_a_certificate_only_what_is_open_to_anyone_is_there(host: Host) -> None:
    """The host decides by who calls: a name that nothing proves sees no hosted tool, and may call none."""

    async def story() -> None:
        async with Client(stdio(host, "--no-cert"), mode="legacy") as mcp:
            try:
                listed = [tool.name for tool in (await mcp.list_tools()).tools]
            except MCPError as error:
                assert error.data["agtp"]["status"] in (401, 403)
                listed = []
            assert [name for name in listed if "__" in name] == []
            with pytest.raises(MCPError) as refused:
                await mcp.call_tool("files__list_files", {})
            assert refused.value.data["agtp"]["status"] in (401, 403, 455)

    anyio.run(story)


def started(folder: Path, *words: str) -> StdioServerParameters:
    """The bridge of a deployment."""
    command, *args = forking.agtp("mcp-bridge", *words)
    return StdioServerParameters(command=command, args=args, cwd=folder)


@dataclass(frozen=True)
class Away:
    """What a client is told of a host that stays away."""

    port: int
    told: Future[MCPError]


@pytest.fixture(scope="module", autouse=True)
def away(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Away]:
    """A client that asks for the tools of such a host, from the first test on: its bridge waits for 20 seconds."""
    deployment, port = tmp_path_factory.mktemp("away") / "deployment", free_port()
    shutil.copytree(host.config.parent, deployment)
    config = deployment / "host.toml"
    config.write_text(config.read_text().replace(f"port = {host.port}", f"port = {port}"))

    async def story() -> MCPError:
        async with Client(started(deployment), mode="legacy") as mcp:
            with pytest.raises(MCPError) as failed:
                await mcp.list_tools()
            return failed.value

    with ThreadPoolExecutor(1) as pool:
        yield Away(port, pool.submit(anyio.run, story))


def test_an_answer_whose_record_does_not_verify_is_passed_on_to_nobody(host: Host, tmp_path: Path) -> None:
    """With another key than the host's at hand the client gets an error; --no-verify is the control."""
    deployment = tmp_path / "deployment"
    shutil.copytree(host.config.parent, deployment)
    public = load(deployment / "host.toml", {}).audit.key.with_suffix(".pub")
    assert public.is_file() and deployment in public.parents
    public.write_text(SigningKey.generate().public.text + "\n")

    async def story() -> MCPError:
        async with Client(started(deployment, "--no-verify"), mode="legacy") as mcp:
            assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))
        async with Client(started(deployment), mode="legacy") as mcp:
            with pytest.raises(MCPError) as failed:
                await mcp.call_tool("files__list_files", {})
            return failed.value

    error = anyio.run(story)
    assert error.code == -32011
    assert "does not verify" in error.message


# HTTP


def test_streamable_http_serves_both_eras(bridge: HttpBridge) -> None:
    """One process, many clients; a session each for those that shake hands."""

    async def story(url: str) -> None:
        for era in ERAS:
            async with Client(url, mode=era) as mcp:  # type: ignore[arg-type]
                assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))

    anyio.run(story, bridge.url)


HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_no_page_of_another_site_gets_in(bridge: HttpBridge) -> None:
    """Host and Origin have to be this very port of loopback; no answer has a CORS header; session ids are random."""
    with httpx.Client(trust_env=False) as http:
        port = urlsplit(bridge.url).port
        refused = (
            {"Host": "evil.example.com"},
            {"Host": f"evil.example.com:{port}"},
            {"Host": "127.0.0.1:1"},
            {"Origin": "https://evil.example.com"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": "null"},
        )
        for headers in refused:
            answer = http.post(bridge.url, json=HANDSHAKE, headers={**ACCEPT, **headers})
            assert 400 <= answer.status_code < 500, (headers, answer.text)
            assert "mcp-session-id" not in answer.headers
        sessions = set()
        for headers in ({}, {"Origin": f"http://127.0.0.1:{port}"}, {"Host": f"localhost:{port}"}):
            answer = http.post(bridge.url, json=HANDSHAKE, headers={**ACCEPT, **headers})
            assert answer.status_code == 200, answer.text
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            sessions.add(answer.headers["mcp-session-id"])
        assert len(sessions) == 3
        assert all(re.fullmatch(r"[0-9a-f]{32}", session) for session in sessions)
        asked = http.options(bridge.url, headers={"Origin": "https://evil.example.com"})
        assert asked.status_code >= 400
        assert not [name for name in asked.headers if name.startswith("access-control-")]


def test_it_listens_on_loopback_alone(bridge: HttpBridge) -> None:
    """Other addresses of this machine do not answer."""
    port = urlsplit(bridge.url).port
    assert port is not None
    socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass


def test_a_token_keeps_other_users_of_the_machine_out(host: Host) -> None:
    """With --token-file every request needs it."""
    file = host.config.parent / "token.txt"
    file.write_text("a-token-of-some-length\n")
    with http_bridge(host, "--token-file", "token.txt") as bridge, httpx.Client(trust_env=False) as http:
        for given in (None, "Bearer a-token-of-some-lengt", "a-token-of-some-length", "Basic a-token-of-some-length"):
            headers = {} if given is None else {"Authorization": given}
            assert http.post(bridge.url, json=HANDSHAKE, headers={**ACCEPT, **headers}).status_code == 401
        allowed = {**ACCEPT, "Authorization": "Bearer a-token-of-some-length"}
        assert http.post(bridge.url, json=HANDSHAKE, headers=allowed).status_code == 200
    file.write_text("a-token-of-some-length\na-second-token-of-some-length\n")
    with http_bridge(host, "--token-file", "token.txt") as bridge, httpx.Client(trust_env=False) as http:
        second = {**ACCEPT, "Authorization": "Bearer a-second-token-of-some-length"}
        session = http.post(bridge.url, json=HANDSHAKE, headers=second).headers["mcp-session-id"]
        for headers, status in ((allowed, 404), (second, 200)):
            assert http.delete(bridge.url, headers={**headers, "Mcp-Session-Id": session}).status_code == status
    file.write_text("short")
    done = host.agtp("mcp-bridge", "--http", "0", "--token-file", "token.txt")
    assert done.returncode == 2 and "openssl rand" in done.stderr


def test_a_token_is_made_where_none_is_given(host: Host) -> None:
    """A wrong one is 401, the printed one 200; processes of the bridge's own user need none. --no-token makes none."""
    with http_bridge(host) as bridge, httpx.Client(trust_env=False) as http:
        (printed,) = (line for line in bridge.lines if "Authorization: Bearer " in line)
        token = printed.partition("Authorization: ")[2]
        for given, status in (("Bearer wrong", 401), ("", 401), (token[:-1], 401), (token, 200), (None, 200)):
            headers = {} if given is None else {"Authorization": given}
            assert http.post(bridge.url, json=HANDSHAKE, headers={**ACCEPT, **headers}).status_code == status, given
    with http_bridge(host, "--no-token") as bridge, httpx.Client(trust_env=False) as http:
        assert not [line for line in bridge.lines if "Bearer" in line]
        assert http.post(bridge.url, json=HANDSHAKE, headers=ACCEPT).status_code == 200
    for words in (("--no-token",), ("--http", "0", "--no-token", "--token-file", "host.toml")):
        done = host.agtp("mcp-bridge", *words)
        assert done.returncode == 2 and "--no-token" in done.stderr, done.stderr


# The command


CLIENTS = {"claude": "mcpServers", "vscode": "servers", "cursor": "mcpServers"}


def test_what_is_printed_for_pasting_starts_the_bridge(host: Host) -> None:
    """The command of the entry works as it stands there, from any directory, and is the same for every client."""
    commands = []
    for name, member in CLIENTS.items():
        done = host.agtp("mcp-bridge", "--as", "demo", "--server", "files", "--print-config", name)
        assert done.returncode == 0, done.stderr
        entry = json.loads(done.stdout)[member]["files"]
        commands.append([entry["command"], *entry["args"]])
        over_http = host.agtp_json("mcp-bridge", "--http", "8931", "--print-config", name)
        assert over_http["config"][member]["agtp"]["url"] == "http://127.0.0.1:8931/mcp"
        assert "mcp" in over_http["file"]
    command = commands[0]
    assert commands == [command] * len(CLIENTS)
    paths = [word for word in command if "/" in word and "://" not in word]
    assert len(paths) == 2 and all(Path(path).is_absolute() and Path(path).is_file() for path in paths)
    assert command[command.index("--config") + 1] == str(host.config), "whose keys check the records"

    # Of a host that is named by its address, everything else is named too.
    named = host.agtp("mcp-bridge", host.uri, "--as", "demo", "--config", "host.toml", "--print-config", "claude")
    arguments = json.loads(named.stdout)["mcpServers"]["agtp"]["args"]
    assert [word for word in arguments if word.startswith("--")] == ["--cert", "--key", "--cacert", "--config"]

    async def story() -> None:
        pasted = StdioServerParameters(command=command[0], args=command[1:], cwd="/")
        async with Client(pasted, mode="legacy") as mcp:
            assert "welcome.txt" in said(await mcp.call_tool("list_files", {}))

    anyio.run(story)


def test_mistakes_are_told_at_once(host: Host) -> None:
    """Exit status 2 and what to do, or 3 for a port that is taken."""
    wrong = (("--server", "Not A Name"), ("--token-file", "token.txt"), ("--http", "0", "--print-config", "claude"))
    for words in wrong:
        done = host.agtp("mcp-bridge", *words)
        assert done.returncode == 2, (words, done)
        assert len(done.stderr.splitlines()) == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = host.agtp("mcp-bridge", "--http", str(taken.getsockname()[1]))
        assert done.returncode == 3 and "Choose another port" in done.stderr
    assert "agtp mcp-bridge" in agtp("mcp-bridge", "--help").stdout
    assert BIN.is_dir() and FIXTURE.is_file()


def test_a_host_that_stays_away_is_said_to(away: Away) -> None:
    """The error is the bridge's own: it has no Audit-ID, names the host and says what to check."""
    error = away.told.result()
    assert error.code == -32011
    assert str(away.port) in error.message
    assert error.data["agtp"]["remedy"]
    assert "audit_id" not in error.data["agtp"]


@pytest.mark.parametrize("era", ERAS)
def test_two_tools_stand_for_all(era: str, host: Host) -> None:
    """``--search``: what is found is what the caller may call, and is called through the same gates into a record."""

    async def story() -> None:
        async with Client(stdio(host), mode=era) as plain:
            # Servers that are still starting are waited for by a list, and by no search.
            assert "modern__test_simple_text" in [tool.name for tool in (await plain.list_tools()).tools]
        async with Client(stdio(host, "--search"), mode=era) as mcp:
            assert [tool.name for tool in (await mcp.list_tools()).tools] == ["search_tools", "call_tool"]
            found = await mcp.call_tool("search_tools", {"query": "a simple text"})
            assert not found.is_error and found.structured_content is not None, found
            tools = {tool["name"]: tool for tool in found.structured_content["tools"]}
            assert "modern__test_simple_text" in tools and found.structured_content["engine"] == "bm25"
            assert tools["modern__test_simple_text"]["inputSchema"]["type"] == "object"
            assert json.loads(found.content[0].text) == found.structured_content
            assert found.meta is not None and found.meta["agtp/audit-id"]
            called = await mcp.call_tool("call_tool", {"name": "modern__test_simple_text", "arguments": {}})
            assert not called.is_error and called.meta is not None and called.meta["agtp/audit-id"], called
            # An endpoint of the host's own, by the name that the search gave it.
            found = await mcp.call_tool("search_tools", {"query": "look up a book of the library", "limit": 1})
            assert found.structured_content is not None
            (endpoint,) = found.structured_content["tools"]
            answer = await mcp.call_tool(
                "call_tool", {"name": endpoint["name"], "arguments": {"isbn": "9780141439518"}}
            )
            assert not answer.is_error and "Pride" in said(answer), (endpoint, answer)
            for wrong in ({"name": "call_tool"}, {}, {"name": "modern__test_simple_text", "arguments": []}):
                refused = await mcp.call_tool("call_tool", wrong)
                assert refused.is_error

    anyio.run(story)


def test_what_may_not_be_called_is_not_searched(host: Host) -> None:
    """A name that nothing proves finds no hosted tool among the two, and cannot call one by its name."""

    async def story() -> None:
        async with Client(stdio(host, "--search", "--no-cert"), mode="legacy") as mcp:
            found = await mcp.call_tool("search_tools", {"query": "a simple text", "limit": 25})
            names = [tool["name"] for tool in (found.structured_content or {}).get("tools", ())]
            assert [name for name in names if "__" in name] == []
            with pytest.raises(MCPError) as refused:
                await mcp.call_tool("call_tool", {"name": "modern__test_simple_text"})
            assert refused.value.data["agtp"]["status"] in (401, 403)

    anyio.run(story)
