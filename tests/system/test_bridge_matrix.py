"""Everything that the bridge relays, over stdio and HTTP, to clients of both eras: one table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client

from tests.system.bridging import HttpBridge, fixture, http_bridge, stdio
from tests.system.hosting import Host, running, sample
from tests.system.test_bridge import audit_id, cancel_a_call, cancelled_calls, elicited, roots, said, sampled
from tests.system.trail import database, stored, verified

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = ("legacy", "2026-07-28")
TRANSPORTS = ("stdio", "http")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample and the fixture server; ``librarian.txt`` and others are in the sample's folder."""
    with running(sample(tmp_path_factory.mktemp("matrix"), append=fixture("modern"))) as host:
        yield host


@pytest.fixture(scope="module")
def bridge(host: Host) -> Iterator[HttpBridge]:
    """One bridge over HTTP for all clients."""
    with http_bridge(host) as bridge:
        yield bridge


class Told:
    """What a client was told besides answers."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Before the next feature."""
        self.logged: list[object] = []
        self.steps: list[tuple[float, float | None]] = []
        self.changes: list[str] = []

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """A log message."""
        self.logged.append(params.data)

    async def step(self, progress: float, total: float | None, message: str | None) -> None:
        """A report of progress."""
        self.steps.append((progress, total))

    async def hear(self, message: object) -> None:
        """Any notification."""
        self.changes.append(type(message).__name__)

    async def until(self, name: str, seconds: float = 10) -> None:
        """Wait for a notification of the handshake era."""
        with anyio.fail_after(seconds):
            while name not in self.changes:  # noqa: ASYNC110
                await anyio.sleep(0.05)


@asynccontextmanager
async def connected(host: Host, era: str, url: str | None) -> AsyncIterator[tuple[Client, Told]]:
    """The official client; over stdio without a URL."""
    told = Told()
    options: dict[str, Any] = {
        "sampling_callback": sampled,
        "elicitation_callback": elicited,
        "list_roots_callback": roots,
        "logging_callback": told.log,
        "message_handler": told.hear,
    }
    if era != "legacy":
        options["log_level"] = "info"
    where: Any = stdio(host) if url is None else url
    async with Client(where, mode=era, **options) as client:
        yield client, told


async def tools(mcp: Client, told: Told, era: str) -> None:
    """Hosted tools and endpoints, listed and called; each answer has its record."""
    listed = await mcp.list_tools()
    assert {"files__list_files", "modern__test_simple_text", "query_library", "book_room"} <= {
        tool.name for tool in listed.tools
    }
    called = await mcp.call_tool("files__list_files", {})
    assert "welcome.txt" in said(called) and audit_id(called) != audit_id(listed)


async def endpoints(mcp: Client, told: Told, era: str) -> None:
    """AGIS-068: an endpoint of the host's own is called as METHOD on its path; refusals are answers with the reason."""
    book = await mcp.call_tool("query_library", {"isbn": "9780141439518"})
    assert not book.is_error and book.structured_content is not None
    assert book.structured_content["title"] == "Pride and Prejudice" and audit_id(book)
    unknown = await mcp.call_tool("query_library", {"isbn": "0000000000"})
    assert unknown.is_error and "422 book_unknown" in said(unknown) and audit_id(unknown) in said(unknown)
    wrong = await mcp.call_tool("book_room", {"room": "garden"})
    assert wrong.is_error and "arrival" in said(wrong) and "422 invalid-input" in said(wrong)


async def resources(mcp: Client, told: Told, era: str) -> None:
    """Resources, templates and their content, of the sample and of the fixture."""
    uris = {str(each.uri) for each in (await mcp.list_resources()).resources}
    assert {"folder:///", "test://static-text"} <= uris
    templates = {each.uri_template for each in (await mcp.list_resource_templates()).resource_templates}
    assert {"folder:///{name}", "test://template/{id}/data"} <= templates
    read = await mcp.read_resource("folder:///welcome.txt")
    assert isinstance(read.contents[0], types.TextResourceContents) and "Welcome" in read.contents[0].text


async def prompts(mcp: Client, told: Told, era: str) -> None:
    """Prompts with arguments, and completions of them."""
    names = {prompt.name for prompt in (await mcp.list_prompts()).prompts}
    assert {"files__summarize_file", "modern__test_prompt_with_arguments"} <= names
    prompt = await mcp.get_prompt("files__summarize_file", {"path": "welcome.txt"})
    assert "welcome.txt" in prompt.messages[0].model_dump_json()
    completed = await mcp.complete(
        types.PromptReference(type="ref/prompt", name="modern__test_prompt_with_arguments"),
        {"name": "arg1", "value": "par"},
    )
    assert completed.completion.values == ["paris", "park", "party"]


async def progress(mcp: Client, told: Told, era: str) -> None:
    """Every report, in order, before the answer."""
    await mcp.call_tool("modern__test_tool_with_progress", {}, progress_callback=told.step)
    assert told.steps == [(0, 100), (50, 100), (100, 100)]


async def logging(mcp: Client, told: Told, era: str) -> None:
    """Every message of the level on that was asked for."""
    await mcp.call_tool("modern__test_tool_with_logging", {})
    assert told.logged == ["Tool execution started", "Tool processing data", "Tool execution completed"]


async def cancellation(mcp: Client, told: Told, era: str) -> None:
    """A call that is cancelled at the client is cancelled at the server."""

    class Named:
        """The client, with the names of a bridge of all servers."""

        async def call_tool(self, name: str, arguments: dict[str, Any], **options: Any) -> types.CallToolResult:
            return await mcp.call_tool(f"modern__{name}", arguments, **options)

    named: Any = Named()
    before = await cancelled_calls(named)
    await cancel_a_call(named)
    with anyio.fail_after(10):
        while await cancelled_calls(named) == before:  # noqa: ASYNC110
            await anyio.sleep(0.1)


async def sampling(mcp: Client, told: Told, era: str) -> None:
    """A server asks the model at the client."""
    assert "from the model" in said(await mcp.call_tool("modern__test_sampling", {"prompt": "?"}))


async def elicitation(mcp: Client, told: Told, era: str) -> None:
    """A server asks the person at the client."""
    assert "ada" in said(await mcp.call_tool("modern__test_elicitation", {"message": "who?"}))


async def directories(mcp: Client, told: Told, era: str) -> None:
    """A server asks for the client's roots."""
    assert "file:///srv/work" in said(await mcp.call_tool("modern__test_input_required_result_list_roots", {}))


async def changes(mcp: Client, told: Told, era: str) -> None:
    """Lists that change, and a resource that is watched."""
    watched = "test://watched-resource"
    if era == "legacy":
        await mcp.subscribe_resource(watched)
        await mcp.call_tool("modern__test_trigger_tool_change", {})
        await mcp.call_tool("modern__touch_watched_resource", {})
        await told.until("ToolListChangedNotification")
        await told.until("ResourceUpdatedNotification")
        return
    async with mcp.listen(tools_list_changed=True, resource_subscriptions=[watched]) as subscription:
        await mcp.call_tool("modern__test_trigger_tool_change", {})
        await mcp.call_tool("modern__touch_watched_resource", {})
        await until_heard(subscription, {"ToolsListChanged", "ResourceUpdated"})


async def until_heard(subscription: Any, wanted: set[str], seconds: float = 10) -> None:
    """Wait for changes on a stream of 2026-07-28."""
    kinds: set[str] = set()
    with anyio.fail_after(seconds):
        async for event in subscription:
            kinds.add(type(event).__name__)
            if wanted <= kinds:
                return


async def refusals(mcp: Client, told: Told, era: str) -> None:
    """Status, reason and remedy of the host, for models and for programs."""
    unknown = await mcp.call_tool("files__no_such_tool", {})
    assert unknown.is_error and unknown.meta is not None
    facts, said = unknown.meta["agtp/refusal"], str(unknown.content)
    assert (facts["status"], facts["reason"]) == (422, "unknown-tool")
    assert facts["remedy"] in said and facts["audit_id"] in said


class Sessions:
    """One session for each era and way to the bridge, in an event loop of their own; opened when first wanted."""

    def __init__(self, host: Host, stack: ExitStack) -> None:
        self._host = host
        self._stack = stack
        self._portal = stack.enter_context(start_blocking_portal())
        self._open: dict[tuple[str, str], tuple[Client, Told]] = {}

    def relay(self, feature: Feature, era: str, transport: str, bridge: HttpBridge) -> None:
        """Play one feature in its session."""
        if (era, transport) not in self._open:
            session = connected(self._host, era, bridge.url if transport == "http" else None)
            entered = self._stack.enter_context(self._portal.wrap_async_context_manager(session))
            self._open[era, transport] = entered
        mcp, told = self._open[era, transport]
        told.forget()
        self._portal.call(feature, mcp, told, era)


@pytest.fixture(scope="module")
def sessions(host: Host, bridge: HttpBridge) -> Iterator[Sessions]:
    """For all features."""
    with ExitStack() as stack:
        yield Sessions(host, stack)


Feature = Callable[[Client, Told, str], Awaitable[None]]
FEATURES: tuple[Feature, ...] = (
    tools, endpoints, resources, prompts, progress, logging, cancellation, sampling, elicitation, directories, changes,
    refusals,
)  # fmt: skip


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.__name__)
def test_everything_is_relayed(
    feature: Feature, era: str, transport: str, sessions: Sessions, bridge: HttpBridge
) -> None:
    """AGTP-275: each feature of MCP, on each way to the bridge, in each era."""
    sessions.relay(feature, era, transport, bridge)


def test_all_of_it_is_recorded(host: Host) -> None:
    """The records of the table's calls verify."""
    assert verified(host, stored(database(host))).faults == []


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


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
def test_a_client_outlives_the_host(era: str, transport: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """kill -9 in the middle of a session: the client's next call waits for the host, and it hears of changed lists."""
    config = sample(tmp_path_factory.mktemp("killed"))
    first = Host(config).wait()
    second: list[Host] = []

    async def kill_and_start() -> None:
        await anyio.to_thread.run_sync(first.kill)
        second.append(Host(config))

    async def story(url: str | None) -> None:
        async with connected(first, era, url) as (mcp, told):
            assert "welcome.txt" in said(await mcp.call_tool("files__list_files", {}))
            if era == "legacy":
                await kill_and_start()
                assert "Welcome" in said(await mcp.call_tool("files__read_file", {"path": "welcome.txt"}))
                await told.until("ToolListChangedNotification", 25)
                await told.until("ResourceListChangedNotification", 5)
                return
            async with mcp.listen(tools_list_changed=True, prompts_list_changed=True) as subscription:
                await kill_and_start()
                assert "Welcome" in said(await mcp.call_tool("files__read_file", {"path": "welcome.txt"}))
                await until_heard(subscription, {"ToolsListChanged", "PromptsListChanged"}, 25)

    try:
        with ExitStack() as stack:
            url = stack.enter_context(http_bridge(first)).url if transport == "http" else None
            anyio.run(story, url)
    finally:
        first.kill()
        for host in second:
            assert host.wait().stop() == 0
