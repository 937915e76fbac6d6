"""A host in place of an MCP session, for what takes a ``ClientSession``."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from agtphost.client import InvalidCall, aio
from agtphost.client.mcp import GovernedSession, governed_session
from agtphost.client.target import Target
from agtphost.vocabulary import jsontext
from tests.client.credentials import Credentials
from tests.client.scripted_host import Exchange, ScriptedHost, answer, refuse
from tests.system.bridging import stdio
from tests.system.hosting import Host, running, sample

METHODS = (
    *("initialize", "send_ping", "list_tools", "call_tool", "list_resources", "list_resource_templates"),
    *("read_resource", "list_prompts", "get_prompt", "complete", "set_logging_level"),
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A real host with its sample MCP server."""
    with running(sample(tmp_path_factory.mktemp("host"))) as found:
        found.agtp_json("tools", "call", "files.list_files")  # The server starts with its first call.
        yield found


def apart(result: Any) -> dict[str, Any]:
    """A result without what differs from one call to the next, and between two who ask."""
    shown: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown.pop("_meta", None)
    return {name: value for name, value in shown.items() if name not in ("ttlMs", "cacheScope", "resultType")}


async def everything(session: Any) -> list[dict[str, Any]]:
    """What an agent framework asks for, and some more."""
    await session.initialize()
    await session.send_ping()
    return [
        apart(each)
        for each in (
            await session.list_tools(),
            await session.list_resources(),
            await session.list_resource_templates(),
            await session.list_prompts(),
            await session.read_resource("folder:///"),
            await session.get_prompt("files__summarize_file", {"path": "welcome.txt"}),
            await session.call_tool("files__read_file", {"path": "welcome.txt"}),
            await session.call_tool("files__read_file", {"path": "../secret"}),
            await session.call_tool("echo_text", {"text": "one two"}),
        )
    ]


def test_it_gives_what_a_session_with_the_bridge_gives(host: Host) -> None:
    """The official client at ``agtp mcp-bridge``, and this: the same answers, without a process between."""

    async def bridged(parameters: StdioServerParameters) -> list[dict[str, Any]]:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            return await everything(session)

    async def direct() -> list[dict[str, Any]]:
        async with governed_session(host.config, as_="demo") as session:
            return await everything(session)

    assert asyncio.run(direct()) == asyncio.run(bridged(stdio(host)))


@pytest.mark.parametrize("name", METHODS)
def test_its_methods_take_what_those_of_the_sdk_take(name: str) -> None:
    """Whoever calls one with the parameters of ``ClientSession`` can call this."""
    theirs = inspect.signature(getattr(ClientSession, name)).parameters
    ours = inspect.signature(getattr(GovernedSession, name)).parameters
    rest = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in ours.values())
    assert {each for each in theirs if each not in ours and not rest} == set()
    positional = [each.name for each in theirs.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [each for each in ours if each in positional] == positional


def test_a_session_goes_on_after_its_agent_is_reinstated(host: Host) -> None:
    """The host ended the session of its calls; neither a framework nor a model could begin another one."""

    async def stop(*words: str) -> None:
        done = await asyncio.to_thread(host.agtp, "agent", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    async def main() -> list[bool]:
        async with governed_session(host.config, as_="demo") as session:
            answers = [await session.call_tool("files__list_files", {})]
            await stop("deactivate", "demo", "--reason", "a drill")
            answers.append(await session.call_tool("files__list_files", {}))
            await stop("reinstate", "demo")
            answers.append(await session.call_tool("files__list_files", {}))
            answers.append(await session.call_tool("echo_text", {"text": "one"}))
            return [answer.is_error for answer in answers]

    assert asyncio.run(main()) == [False, True, False, False]


def test_a_refusal_is_a_result_that_models_read(host: Host) -> None:
    """With what to do, and the Audit-ID of its record, which names the agent; so has a success one."""

    async def main() -> tuple[Any, Any, str | None]:
        async with governed_session(host.config, as_="demo") as session:
            assert session.get_server_capabilities() is None
            await session.initialize()
            assert session.get_server_capabilities() is not None
            refused = await session.call_tool("book_room", {})
            fine = await session.call_tool("files.list_files")  # By the host's own name.
            return refused, fine, session.host.agent_id

    refused, fine, agent = asyncio.run(main())
    assert refused.is_error and not fine.is_error
    assert "invalid-input" in refused.content[0].text and "Audit-ID" in refused.content[0].text
    for result in (refused, fine):
        audit_id = result.meta["agtp/audit-id"]
        assert agent in str(host.agtp_json("explain", audit_id))
        assert host.agtp("audit", "get", audit_id).returncode == 0  # Which verifies it.


def test_one_server_alone_has_its_own_names(host: Host) -> None:
    """As the bridge shows it with ``--server``."""

    async def main() -> tuple[list[str], str]:
        async with governed_session(host.config, server="files") as session:
            names = [tool.name for tool in (await session.list_tools()).tools]
            result = await session.call_tool("list_files")
            return names, str(result.content)

    names, listed = asyncio.run(main())
    assert "list_files" in names and not any("__" in name or "room" in name for name in names)
    assert "welcome.txt" in listed


# A host that says what the test says


@pytest.fixture
def at(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session with a scripted host."""

    def make(server: ScriptedHost, /, **options: Any) -> GovernedSession:
        target = Target(uri=server.uri, cacert=credentials.trust)
        client = aio.Client(**target.client_options())
        return GovernedSession(aio.Host(client, target, verify=False), **options)

    return make


def asked(exchange: Exchange) -> dict[str, Any]:
    found: dict[str, Any] = jsontext.decode(exchange.request.body)["parameters"]
    return found


def test_progress_is_told_on_the_way(credentials: Credentials, at: Any) -> None:
    """Progress of the tool, and that a person has to approve the call; each before the answer."""
    events = [
        {"type": "approval-required", "approval_id": "ap-1"},
        {"type": "progress", "progress": 1, "total": 2, "message": "half"},
        {"type": "log", "data": "not for it"},
    ]

    def script(exchange: Exchange) -> None:
        for number, event in enumerate(events):
            exchange.send(answer({"event": event}, 202, Continuation_Token=f"c{number}"), final=False)
        exchange.send(answer({"tool_response": {"content": [{"type": "text", "text": "done"}]}}))

    told: list[Any] = []

    async def note(*progress: Any) -> None:
        told.append(progress)

    async def main(server: ScriptedHost) -> Any:
        async with at(server, server="files") as session:
            return await session.call_tool("slow", {}, progress_callback=note)

    with ScriptedHost(credentials, script) as server:
        assert asyncio.run(main(server)).content[0].text == "done"
    assert told == [(0.0, None, "held for a person to approve: ap-1"), (1.0, 2, "half")]


def test_a_call_that_is_given_up_is_told_to_the_host(credentials: Credentials, at: Any) -> None:
    """By its Task-ID, before the session is closed."""

    def script(exchange: Exchange) -> None:
        if asked(exchange)["action"] == "mcp.requests.cancel":
            exchange.send(answer({}))
        else:
            exchange.quiet(5)

    async def main(server: ScriptedHost) -> None:
        async with at(server, server="files") as session:
            calling = asyncio.create_task(session.call_tool("slow"))
            while not server.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling

    with ScriptedHost(credentials, script) as server:
        asyncio.run(main(server))
        (call, farewell) = server.requests
    named = jsontext.decode(farewell.body)["parameters"]
    assert (named["action"], named["payload"]) == ("mcp.requests.cancel", {"task_id": call.headers.get("task-id")})


def test_a_held_call_says_that_it_is_held(credentials: Credentials, at: Any) -> None:
    """A model reads what to do."""
    held = refuse(202, "approval-required", approval_id="ap-1", expires_at="2026-12-01T00:00:00Z")

    async def main(server: ScriptedHost) -> Any:
        async with at(server) as session:
            return await session.call_tool("files.delete_note", {"name": "old"})

    with ScriptedHost(credentials, lambda exchange: exchange.send(held)) as server:
        result = asyncio.run(main(server))
    assert result.is_error and result.meta["agtp/approval"]["approval_id"] == "ap-1"
    assert "call again with the same arguments" in result.content[0].text


def test_a_host_that_is_away_is_an_error_of_the_sdk(credentials: Credentials, at: Any) -> None:
    """And so is a refusal of anything but a call."""

    async def main(server: ScriptedHost) -> list[int]:
        codes = []
        async with at(server) as session:
            for call in (session.call_tool("files.list_files"), session.list_prompts(), session.initialize()):
                with pytest.raises(MCPError) as failed:
                    await call
                codes.append(failed.value.error.code)
        return codes

    with ScriptedHost(credentials, lambda exchange: exchange.hang_up()) as server:
        assert asyncio.run(main(server)) == [-32011] * 3

    async def refused(server: ScriptedHost) -> tuple[int, Any]:
        async with at(server) as session:
            with pytest.raises(MCPError) as failed:
                await session.list_prompts()
        return failed.value.error.code, failed.value.error.data

    with ScriptedHost(credentials, lambda exchange: exchange.send(refuse(455, "scope-required"))) as server:
        code, data = asyncio.run(refused(server))
    assert (code, data["agtp"]["reason"]) == (-32010, "scope-required")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    """Without the SDK, and without a host."""
    with pytest.raises(InvalidCall, match="does not exist"):
        governed_session("none.toml")
    for name in [name for name in list(sys.modules) if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(InvalidCall, match=r"pip install 'agtphost\[mcp\]'"):
        governed_session(host.config)
