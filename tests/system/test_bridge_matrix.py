"""Everything that the bridge relays, over stdio and HTTP, to clients of both eras: one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.rows import each_row
from tests.system.bridging import fixture, http_bridge, stdio
from tests.system.hosting import Host, running, sample
from tests.system.mcp_sessions import ERAS, PATIENCE, TRANSPORTS, Session, Sessions, audit_id, connected, said
from tests.system.trail import database, stored, verified

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

AUDIT_IDS: list[str] = []
"""Of the answers that clients got."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample's own server, the fixture in both eras, and one that ``demo`` may not use."""
    servers = (
        fixture("modern")
        + fixture("handshake", 'protocol = "2025-11-25"', 'isolation = "per-session"')
        + fixture("closed", 'scopes = ["mcp:closed:execute"]')
    )
    with running(sample(tmp_path_factory.mktemp("matrix"), append=servers, eager=True)) as host:
        yield host


@pytest.fixture(scope="module")
def sessions(host: Host) -> Iterator[Sessions]:
    """For all features."""
    with ExitStack() as stack:
        yield Sessions(host, stack)


async def tools(session: Session) -> None:
    """Hosted tools and endpoints, listed and called; nobody is shown what he may not call."""
    listed = await session.mcp.list_tools()
    names = {tool.name for tool in listed.tools}
    assert {"files__list_files", f"{session.upstream}__test_simple_text", "query_library", "book_room"} <= names
    assert not {name for name in names if name.startswith("closed__")}
    called = await session.mcp.call_tool("files__list_files", {})
    assert "welcome.txt" in said(called)
    AUDIT_IDS.extend(map(audit_id, (listed, called)))


async def endpoints(session: Session) -> None:
    """AGIS-068: an endpoint of the host's own is called as METHOD on its path; refusals are answers with the reason."""
    book = await session.mcp.call_tool("query_library", {"isbn": "9780141439518"})
    assert not book.is_error and book.structured_content is not None
    assert book.structured_content["title"] == "Pride and Prejudice"
    unknown = await session.mcp.call_tool("query_library", {"isbn": "0000000000"})
    assert unknown.is_error and "422 book_unknown" in said(unknown) and audit_id(unknown) in said(unknown)
    wrong = await session.mcp.call_tool("book_room", {"room": "garden"})
    assert wrong.is_error and "arrival" in said(wrong) and "422 invalid-input" in said(wrong)
    AUDIT_IDS.extend(map(audit_id, (book, unknown, wrong)))


async def resources(session: Session) -> None:
    """Resources, templates and their content, of the sample and of the fixture."""
    listed = await session.mcp.list_resources()
    assert {"folder:///", "test://static-text"} <= {str(each.uri) for each in listed.resources}
    templates = await session.mcp.list_resource_templates()
    assert {"folder:///{name}", "test://template/{id}/data"} <= {
        each.uri_template for each in templates.resource_templates
    }
    read = await session.mcp.read_resource("folder:///welcome.txt")
    assert isinstance(read.contents[0], types.TextResourceContents) and "Welcome" in read.contents[0].text
    AUDIT_IDS.extend(map(audit_id, (listed, templates, read)))


async def prompts(session: Session) -> None:
    """Prompts with arguments, and completions of them."""
    listed = await session.mcp.list_prompts()
    of_the_fixture = f"{session.upstream}__test_prompt_with_arguments"
    assert {"files__summarize_file", of_the_fixture} <= {prompt.name for prompt in listed.prompts}
    prompt = await session.mcp.get_prompt("files__summarize_file", {"path": "welcome.txt"})
    assert "welcome.txt" in prompt.messages[0].model_dump_json()
    two = await session.mcp.get_prompt(of_the_fixture, {"arg1": "a", "arg2": "b"})
    assert "arg1='a'" in two.model_dump_json()
    completed = await session.mcp.complete(
        types.PromptReference(type="ref/prompt", name=of_the_fixture), {"name": "arg1", "value": "par"}
    )
    assert completed.completion.values == ["paris", "park", "party"]
    AUDIT_IDS.extend(map(audit_id, (listed, prompt, two, completed)))


async def progress(session: Session) -> None:
    """Every report, in order, before the answer."""
    await session.call("test_tool_with_progress", progress_callback=session.told.step)
    assert session.told.steps == [(0, 100), (50, 100), (100, 100)]


async def logging(session: Session) -> None:
    """Every message of the level on that was asked for, in order, before the answer."""
    expected = ["Tool execution started", "Tool processing data", "Tool execution completed"]
    await session.call("test_tool_with_logging")
    assert session.told.logged == expected
    if session.era == "legacy":
        await session.mcp.set_logging_level("error")
        await session.call("test_tool_with_logging")
        assert session.told.logged == expected
        await session.mcp.set_logging_level("info")


async def cancellation(session: Session) -> None:
    """A call that is cancelled at the client is cancelled at the server, and other calls go on."""
    before = await session.cancelled_calls()
    await session.cancel_a_call()
    with anyio.fail_after(PATIENCE):
        while await session.cancelled_calls() == before:
            continue


async def sampling(session: Session) -> None:
    """A server asks the model at the client."""
    assert "from the model" in said(await session.call("test_sampling", {"prompt": "?"}))


async def elicitation(session: Session) -> None:
    """A server asks the person at the client."""
    assert "ada" in said(await session.call("test_elicitation", {"message": "who?"}))
    assert "Hello, Ada" in said(await session.call("test_input_required_result_elicitation"))


async def directories(session: Session) -> None:
    """A server asks for the client's roots."""
    assert "file:///srv/work" in said(await session.call("test_input_required_result_list_roots"))


async def changes(session: Session) -> None:
    """Lists that change, and a resource that is watched; one that is watched no more is not told of."""
    mcp, told = session.mcp, session.told
    # Several servers have it; one of them has the address that it gave itself.
    watched = "test://watched-resource"
    among = f"agtp-mcp:{session.upstream}:{watched}"
    watched = among if among in {str(each.uri) for each in (await mcp.list_resources()).resources} else watched
    if session.era == "legacy":
        await mcp.subscribe_resource(watched)
        await session.call("test_trigger_tool_change")
        await session.call("touch_watched_resource")
        await told.until("ToolListChangedNotification", "ResourceUpdatedNotification")
        await mcp.unsubscribe_resource(watched)
        told.forget()
        await session.call("touch_watched_resource")
        # The server tells of this afterwards.
        await session.call("test_trigger_tool_change")
        await told.until("ToolListChangedNotification")
        assert "ResourceUpdatedNotification" not in told.changes
        return
    async with mcp.listen(tools_list_changed=True, resource_subscriptions=[watched]) as subscription:
        await session.call("test_trigger_tool_change")
        await session.call("touch_watched_resource")
        await until_heard(subscription, {"ToolsListChanged", "ResourceUpdated"})


async def until_heard(subscription: Any, wanted: set[str]) -> None:
    """Wait for changes on a stream of 2026-07-28."""
    kinds: set[str] = set()
    with anyio.fail_after(PATIENCE):
        async for event in subscription:
            kinds.add(type(event).__name__)
            if wanted <= kinds:
                return


async def refusals(session: Session) -> None:
    """
    Status, reason, remedy and Audit-ID of the host, for models and for programs: no such tool, a scope that is missing.

    MCP 2025-11-25, SEP-1303: arguments at fault are the tool's answer, with the field.
    """
    unknown = await session.mcp.call_tool("files__no_such_tool", {})
    assert unknown.is_error and unknown.meta is not None and "close_matches" in said(unknown)
    facts = unknown.meta["agtp/refusal"]
    assert (facts["status"], facts["reason"]) == (422, "unknown-tool")
    assert facts["remedy"] in said(unknown) and facts["audit_id"] in said(unknown)
    wrong = await session.mcp.call_tool("files__read_file", {"path": 5})
    assert wrong.is_error and "422 invalid-input" in said(wrong) and '"path": "/path"' in said(wrong)
    assert audit_id(wrong) in said(wrong)
    with pytest.raises(MCPError) as refused:
        await session.mcp.call_tool("closed__test_simple_text", {})
    error = refused.value
    scope = error.data["agtp"]
    assert (error.code, scope["status"], scope["reason"]) == (-32010, 455, "scope-required")
    assert scope["remedy"] in error.message and scope["audit_id"] in error.message
    AUDIT_IDS.extend((facts["audit_id"], audit_id(wrong), scope["audit_id"]))


Feature = Callable[[Session], Awaitable[None]]
FEATURES: tuple[Feature, ...] = (
    tools, endpoints, resources, prompts, progress, logging, cancellation, sampling, elicitation, directories, changes,
    refusals,
)  # fmt: skip
OF_EITHER_SERVER: tuple[Feature, ...] = (progress, logging, cancellation, sampling, elicitation, directories)


@each_row("transport", TRANSPORTS)
@each_row("era", ERAS)
@each_row("feature", FEATURES, ids=lambda feature: feature.__name__)
def test_everything_is_relayed(feature: Feature, era: str, transport: str, sessions: Sessions) -> None:
    """AGTP-275: each feature of MCP, on each way to the bridge, in each era."""
    sessions.play(feature, era, transport, "modern")


@each_row("era", ERAS)
@each_row("feature", OF_EITHER_SERVER, ids=lambda feature: feature.__name__)
def test_a_server_that_shakes_hands_is_relayed_as_well(feature: Feature, era: str, sessions: Sessions) -> None:
    """AGTP-275: questions, reports and cancellation in every combination of eras on the two sides of the host."""
    sessions.play(feature, era, "stdio", "handshake")


def test_all_of_it_is_recorded(host: Host) -> None:
    """Each answer has the Audit-ID of a record of its own, and the records of the table's calls verify."""
    records = stored(database(host))
    assert verified(host, records).faults == []
    assert AUDIT_IDS and len(set(AUDIT_IDS)) == len(AUDIT_IDS)
    assert set(AUDIT_IDS) <= {record.audit_id for record in records}


def test_an_endpoint_without_its_scope_is_not_shown_and_says_which_it_needs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whoever calls it all the same is told the scope; the sample's demo, who has it, is the control."""
    config = sample(tmp_path_factory.mktemp("scoped"))
    with running(config) as host:
        made = host.agtp("agent", "new", "reader", "--scope", "mcp:tools:execute", "--owner", "Somebody")
        assert made.returncode == 0, made.stderr
    with running(config) as host:

        async def story() -> None:
            async with Client(stdio(host, "--as", "reader"), mode="legacy") as mcp:
                assert "query_library" not in {tool.name for tool in (await mcp.list_tools()).tools}
                refused = await mcp.call_tool("query_library", {"isbn": "9780141439518"})
                assert refused.is_error and "scope-required" in said(refused) and "documents:query" in said(refused)
            async with Client(stdio(host, "--no-endpoints"), mode="legacy") as mcp:
                assert "query_library" not in {tool.name for tool in (await mcp.list_tools()).tools}
            async with Client(stdio(host), mode="legacy") as mcp:
                (tool,) = [tool for tool in (await mcp.list_tools()).tools if tool.name == "query_library"]
                assert tool.meta is not None and tool.meta["agtp/required-scopes"] == ["documents:query"]

        anyio.run(story)


@pytest.mark.release
def test_clients_outlive_the_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    """
    kill -9 in the middle of sessions over both transports, of both eras.

    Each client's next call waits for the host, and it hears of changed lists.
    """
    config = sample(tmp_path_factory.mktemp("killed"))
    first = Host(config).wait()
    second: list[Host] = []

    async def goes_on(session: Session) -> None:
        assert "Welcome" in said(await session.mcp.call_tool("files__read_file", {"path": "welcome.txt"}))

    async def story(url: str) -> None:
        async with AsyncExitStack() as stack:
            sessions = {}
            for era in ERAS:
                for transport in TRANSPORTS:
                    opening = connected(first, era, url=url if transport == "http" else "")
                    session = await stack.enter_async_context(opening)
                    assert "welcome.txt" in said(await session.mcp.call_tool("files__list_files", {}))
                    listening = session.mcp.listen(tools_list_changed=True, prompts_list_changed=True)
                    sessions[session] = None if era == "legacy" else await stack.enter_async_context(listening)
            await anyio.to_thread.run_sync(first.kill)
            second.append(Host(config))
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(goes_on, session)
            for session, subscription in sessions.items():
                if subscription is None:
                    await session.told.until("ToolListChangedNotification", "ResourceListChangedNotification")
                else:
                    await until_heard(subscription, {"ToolsListChanged", "PromptsListChanged"})

    try:
        with http_bridge(first) as bridge:
            anyio.run(story, bridge.url)
    finally:
        first.kill()
        for host in second:
            assert host.wait().stop() == 0
