"""The official MCP client, ``agtp mcp-bridge``, AGTP over mutual TLS, a host, a server on the official SDK."""

from __future__ import annotations

import json
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError

from agtphost.config import load
from agtphost.identity.keys import SigningKey
from tests import forking
from tests.system.bridging import FIXTURE, fixture, http_bridge, stdio
from tests.system.hosting import BIN, Host, agtp, running, sample
from tests.system.trail import database, stored, verified

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]

ERAS = ("legacy", "2026-07-28")
AUDIT_ID = "agtp/audit-id"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample's own server, the fixture in both eras, and one that ``demo`` may not use."""
    servers = (
        fixture("modern", 'isolation = "shared"')
        + fixture("handshake", 'protocol = "2025-11-25"', 'isolation = "per-session"')
        + fixture("closed", 'scopes = ["mcp:closed:execute"]')
    )
    with running(sample(tmp_path_factory.mktemp("bridge"), append=servers)) as host:
        yield host


async def sampled(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """The client's model."""
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text="from the model"), model="m"
    )


async def elicited(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """The person at the client."""
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b", "name": "Ada"})


async def roots(context: ClientRequestContext) -> types.ListRootsResult:
    """The client's directories."""
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/work")])  # type: ignore[arg-type]


def client(host: Host, era: str, *words: str, **options: Any) -> Client:
    """The official client over stdio, which can answer everything."""
    answering = {"sampling_callback": sampled, "elicitation_callback": elicited, "list_roots_callback": roots}
    return Client(stdio(host, *words), mode=era, **{**answering, **options})  # type: ignore[arg-type]


def said(result: types.CallToolResult) -> str:
    """The texts of a tool's answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def audit_id(result: types.Result) -> str:
    """The Audit-ID that an answer carries."""
    assert result.meta is not None, result
    found = dict(result.meta)[AUDIT_ID]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("era", ERAS)
def test_arguments_at_fault_are_the_tools_answer(era: str, host: Host) -> None:
    """MCP 2025-11-25, SEP-1303: ``isError`` with the field at fault; an unknown tool is told in the same form."""

    async def story() -> None:
        async with client(host, era) as mcp:
            wrong = await mcp.call_tool("files__read_file", {"path": 5})
            assert wrong.is_error and "422 invalid-input" in said(wrong) and '"path": "/path"' in said(wrong)
            assert audit_id(wrong) in said(wrong)
            unknown = await mcp.call_tool("files__no_such_tool", {})
            assert unknown.is_error and "422 unknown-tool" in said(unknown) and "close_matches" in said(unknown)

    anyio.run(story)


@pytest.mark.parametrize("era", ERAS)
def test_everything_of_the_host_is_there_with_its_record(era: str, host: Host) -> None:
    """Tools, resources, templates, prompts and completions, each answer with the Audit-ID of a stored record."""

    async def story() -> list[str]:
        async with client(host, era) as mcp:
            tools = await mcp.list_tools()
            names = {tool.name for tool in tools.tools}
            assert {"files__read_file", "modern__test_simple_text", "handshake__test_simple_text"} <= names
            assert not {name for name in names if name.startswith("closed__")}, "nobody is shown what he may not call"
            called = await mcp.call_tool("files__read_file", {"path": "welcome.txt"})
            assert "Welcome" in said(called)
            prompts = await mcp.list_prompts()
            assert "modern__test_prompt_with_arguments" in {prompt.name for prompt in prompts.prompts}
            prompt = await mcp.get_prompt("modern__test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
            assert "arg1='a'" in prompt.model_dump_json()
            resources = await mcp.list_resources()
            assert "test://static-text" in {str(each.uri) for each in resources.resources}
            templates = await mcp.list_resource_templates()
            assert "test://template/{id}/data" in {each.uri_template for each in templates.resource_templates}
            completed = await mcp.complete(
                types.PromptReference(type="ref/prompt", name="modern__test_prompt_with_arguments"),
                {"name": "arg1", "value": "par"},
            )
            assert completed.completion.values == ["paris", "park", "party"]
            return [audit_id(each) for each in (tools, called, prompts, prompt, resources, templates, completed)]

    audit_ids = anyio.run(story)
    assert len(set(audit_ids)) == len(audit_ids)
    records = stored(database(host))
    assert set(audit_ids) <= {record.audit_id for record in records}
    assert verified(host, records).faults == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("upstream", ["modern", "handshake"])
def test_a_server_can_ask_the_client(era: str, upstream: str, host: Host) -> None:
    """AGTP-275: sampling, elicitation and roots, in every combination of eras on the two sides of the host."""

    async def story() -> None:
        async with client(host, era, "--server", upstream) as mcp:
            assert "from the model" in said(await mcp.call_tool("test_sampling", {"prompt": "?"}))
            assert "ada" in said(await mcp.call_tool("test_elicitation", {"message": "who?"}))
            assert "file:///srv/work" in said(await mcp.call_tool("test_input_required_result_list_roots", {}))
            assert "Hello, Ada" in said(await mcp.call_tool("test_input_required_result_elicitation", {}))

    anyio.run(story)


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


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("upstream", ["modern", "handshake"])
def test_progress_and_log_messages_arrive_in_order_before_the_answer(era: str, upstream: str, host: Host) -> None:
    """Each step as the server reports it; log messages from the level on that was asked for."""
    steps: list[tuple[float, float | None]] = []
    logged: list[object] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async def story() -> None:
        options: dict[str, Any] = {"logging_callback": log}
        if era != "legacy":
            options["log_level"] = "info"
        async with client(host, era, "--server", upstream, **options) as mcp:
            await mcp.call_tool("test_tool_with_progress", {}, progress_callback=step)
            assert steps == [(0, 100), (50, 100), (100, 100)]
            await mcp.call_tool("test_tool_with_logging", {})
            expected = ["Tool execution started", "Tool processing data", "Tool execution completed"]
            assert logged == expected
            if era == "legacy":
                await mcp.set_logging_level("error")
                await mcp.call_tool("test_tool_with_logging", {})
                assert logged == expected

    anyio.run(story)


async def cancel_a_call(mcp: Client) -> None:
    """Cancel a call that is under way, by its own report."""
    begun = anyio.Event()

    async def step(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async def wait() -> None:
        await mcp.call_tool("wait_for_long", {}, progress_callback=step)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        with anyio.fail_after(10):
            await begun.wait()
        tasks.cancel_scope.cancel()


async def cancelled_calls(mcp: Client) -> int:
    """How many calls were cancelled at the server, as it says itself."""
    return said(await mcp.call_tool("what_was_cancelled", {})).count("wait_for_long")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("upstream", ["modern", "handshake"])
def test_a_cancelled_call_is_cancelled_at_the_server(era: str, upstream: str, host: Host) -> None:
    """notifications/cancelled of a client reaches the server behind the host, and other calls go on."""

    async def story() -> None:
        async with client(host, era, "--server", upstream) as mcp:
            before = await cancelled_calls(mcp)
            await cancel_a_call(mcp)
            with anyio.fail_after(10):
                while await cancelled_calls(mcp) == before:  # noqa: ASYNC110
                    await anyio.sleep(0.1)

    since = time.monotonic()
    anyio.run(story)
    assert time.monotonic() - since < 25


def test_a_client_that_leaves_lets_its_calls_go(host: Host) -> None:
    """A client cancels and closes stdin at once: the bridge tells the host before it ends."""

    async def leave() -> None:
        async with client(host, "legacy", "--server", "modern") as mcp:
            await cancel_a_call(mcp)

    async def cancelled() -> int:
        async with client(host, "legacy", "--server", "modern") as mcp:
            return await cancelled_calls(mcp)

    before = anyio.run(cancelled)
    anyio.run(leave)
    assert anyio.run(cancelled) == before + 1


def test_refusals_say_why_and_what_to_do(host: Host) -> None:
    """A scope that is missing, and an unknown tool: status, reason, remedy, Audit-ID."""

    async def story() -> list[tuple[str, dict[str, Any]]]:
        async with client(host, "legacy") as mcp:
            with pytest.raises(MCPError) as refused:
                await mcp.call_tool("closed__test_simple_text", {})
            unknown = await mcp.call_tool("files__no_such_tool", {})
        assert refused.value.code == -32010
        assert unknown.is_error and unknown.meta is not None
        said = str(unknown.content[0].text)  # type: ignore[union-attr]
        return [(refused.value.message, refused.value.data["agtp"]), (said, unknown.meta["agtp/refusal"])]

    told = anyio.run(story)
    assert [(fact["status"], fact["reason"]) for _, fact in told] == [(455, "scope-required"), (422, "unknown-tool")]
    stored_ids = {record.audit_id for record in stored(database(host))}
    for message, fact in told:
        assert fact["remedy"] and fact["audit_id"] in stored_ids
        assert fact["audit_id"] in message and fact["remedy"] in message


def test_without_a_certificate_only_what_is_open_to_anyone_is_there(host: Host) -> None:
    """The host decides by who calls: a name that nothing proves sees no hosted tool, and may call none."""

    async def story() -> None:
        async with client(host, "legacy", "--no-cert") as mcp:
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


def test_changes_are_told_in_both_eras(host: Host) -> None:
    """A tool that appears at a server behind the host, and a resource that changes there."""
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(type(message).__name__)

    async def until(name: str) -> None:
        with anyio.fail_after(10):
            while name not in heard:  # noqa: ASYNC110
                await anyio.sleep(0.05)

    async def handshake() -> None:
        async with client(host, "legacy", "--server", "modern", message_handler=hear) as mcp:
            await mcp.subscribe_resource("test://watched-resource")
            await mcp.call_tool("test_trigger_tool_change", {})
            await until("ToolListChangedNotification")
            await mcp.call_tool("touch_watched_resource", {})
            await until("ResourceUpdatedNotification")
            heard.clear()
            await mcp.unsubscribe_resource("test://watched-resource")
            await mcp.call_tool("touch_watched_resource", {})
            await anyio.sleep(0.5)
            assert "ResourceUpdatedNotification" not in heard

    async def modern() -> None:
        async with (
            client(host, "2026-07-28", "--server", "modern") as mcp,
            mcp.listen(tools_list_changed=True, resource_subscriptions=["test://watched-resource"]) as subscription,
        ):
            await mcp.call_tool("test_trigger_tool_change", {})
            await mcp.call_tool("touch_watched_resource", {})
            kinds = set()
            with anyio.fail_after(10):
                async for event in subscription:
                    kinds.add(type(event).__name__)
                    if {"ToolsListChanged", "ResourceUpdated"} <= kinds:
                        break

    anyio.run(handshake)
    anyio.run(modern)


def test_the_bridge_outlives_its_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A host that is killed and started again: the client waits, and hears that the lists may have changed."""
    config = sample(tmp_path_factory.mktemp("away"))
    first = Host(config).wait()
    second: list[Host] = []
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(type(message).__name__)

    async def story() -> None:
        async with client(first, "legacy", message_handler=hear) as mcp:
            assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))
            await anyio.to_thread.run_sync(first.kill)
            second.append(Host(config))
            since = time.monotonic()
            assert "Welcome" in said(await mcp.call_tool("files__read_file", {"path": "welcome.txt"}))
            assert time.monotonic() - since < 20
            with anyio.fail_after(20):
                while "ToolListChangedNotification" not in heard:  # noqa: ASYNC110
                    await anyio.sleep(0.1)

    try:
        anyio.run(story)
    finally:
        first.kill()
        for host in second:
            assert host.wait().stop() == 0


def test_a_host_that_stays_away_is_said_to(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The error is the bridge's own: it has no Audit-ID, names the host and says what to check."""
    config = sample(tmp_path_factory.mktemp("gone"))
    with running(config) as host:
        port = host.port

    async def story() -> MCPError:
        async with client(host, "legacy") as mcp:
            with pytest.raises(MCPError) as failed:
                await mcp.list_tools()
            return failed.value

    error = anyio.run(story)
    assert error.code == -32011
    assert str(port) in error.message
    assert error.data["agtp"]["remedy"]
    assert "audit_id" not in error.data["agtp"]


def test_an_answer_whose_record_does_not_verify_is_passed_on_to_nobody(host: Host, tmp_path: Path) -> None:
    """With another key than the host's at hand the client gets an error; --no-verify is the control."""
    deployment = tmp_path / "deployment"
    shutil.copytree(host.config.parent, deployment)
    public = load(deployment / "host.toml", {}).audit.key.with_suffix(".pub")
    assert public.is_file() and deployment in public.parents
    public.write_text(SigningKey.generate().public.text + "\n")

    def started(*words: str) -> StdioServerParameters:
        command, *args = forking.agtp("mcp-bridge", *words)
        return StdioServerParameters(command=command, args=args, cwd=deployment)

    async def story() -> MCPError:
        async with Client(started("--no-verify"), mode="legacy") as mcp:
            assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))
        async with Client(started(), mode="legacy") as mcp:
            with pytest.raises(MCPError) as failed:
                await mcp.call_tool("files__list_files", {})
            return failed.value

    error = anyio.run(story)
    assert error.code == -32011
    assert "does not verify" in error.message


# HTTP


def test_streamable_http_serves_both_eras(host: Host) -> None:
    """One process, many clients; a session each for those that shake hands."""

    async def story(url: str) -> None:
        for era in ERAS:
            async with Client(url, mode=era) as mcp:  # type: ignore[arg-type]
                assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))

    with http_bridge(host) as bridge:
        anyio.run(story, bridge.url)
        assert bridge.stop() == 0


HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_no_page_of_another_site_gets_in(host: Host) -> None:
    """Host and Origin have to be this very port of loopback; no answer has a CORS header; session ids are random."""
    with http_bridge(host) as bridge, httpx.Client(trust_env=False) as http:
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


def test_it_listens_on_loopback_alone(host: Host) -> None:
    """Other addresses of this machine do not answer."""
    with http_bridge(host) as bridge:
        port = urlsplit(bridge.url).port
        assert port is not None
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=2):
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


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_is_cancelled_over_http_is_cancelled_at_the_server(era: str, host: Host) -> None:
    """By notifications/cancelled, or since 2026-07-28 by closing the answer's stream."""

    async def story(url: str) -> None:
        async with Client(url, mode=era) as mcp:  # type: ignore[arg-type]
            before = await cancelled_calls(mcp)
            await cancel_a_call(mcp)
            with anyio.fail_after(10):
                while await cancelled_calls(mcp) == before:  # noqa: ASYNC110
                    await anyio.sleep(0.1)

    with http_bridge(host, "--server", "modern") as bridge:
        anyio.run(story, bridge.url)


# The command


@pytest.mark.parametrize(
    ("name", "member"), [("claude", "mcpServers"), ("vscode", "servers"), ("cursor", "mcpServers")]
)
def test_what_is_printed_for_pasting_starts_the_bridge(name: str, member: str, host: Host) -> None:
    """The command of the entry works as it stands there, from any directory."""
    done = host.agtp("mcp-bridge", "--as", "demo", "--server", "files", "--print-config", name)
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)[member]["files"]
    paths = [word for word in (entry["command"], *entry["args"]) if "/" in word and "://" not in word]
    assert len(paths) == 5 and all(Path(path).is_absolute() and Path(path).is_file() for path in paths)
    assert entry["args"][entry["args"].index("--config") + 1] == str(host.config), "whose keys check the records"

    async def story() -> None:
        started = StdioServerParameters(command=entry["command"], args=entry["args"], cwd="/")
        async with Client(started, mode="legacy") as mcp:
            assert "welcome.txt" in said(await mcp.call_tool("list_files", {}))

    anyio.run(story)
    over_http = host.agtp_json("mcp-bridge", "--http", "8931", "--print-config", name)
    assert over_http["config"][member]["agtp"]["url"] == "http://127.0.0.1:8931/mcp"
    assert "mcp" in over_http["file"]


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
