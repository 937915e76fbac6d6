"""An open MCP client hears that its agent's rights changed, at the front and at the bridge, in each era."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

from tests.system.bridging import stdio
from tests.system.fronting import front, token_of, write_tokens
from tests.system.hosting import Host, free_port, running, sample
from tests.system.mcp_sessions import PATIENCE, audit_id
from tests.system.reload_host import reload

pytestmark = pytest.mark.slow

CLIENTS = {"clerk": "clerk", "other": "demo"}
READ, LIST = "files__read_file", "files__list_files"


class Listener:
    """An open client, which counts the announcements that it has not waited for yet."""

    def __init__(self, name: str, mcp: Client) -> None:
        self.name = name
        self.mcp = mcp
        self.heard = 0
        self._news = anyio.Event()

    def note(self) -> None:
        """Note an announcement of changed tools."""
        self.heard += 1
        self._news.set()

    async def tools_after_announcement(self, wanted: Callable[[set[str]], bool]) -> None:
        """Wait for an announcement after which the list of tools is as wanted."""
        found: set[str] = set()
        try:
            with anyio.fail_after(PATIENCE):
                while True:
                    while not self.heard:
                        await self._news.wait()
                        self._news = anyio.Event()
                    self.heard = 0
                    found = {tool.name for tool in (await self.mcp.list_tools()).tools}
                    if wanted(found):
                        return
        except TimeoutError:
            raise AssertionError(f"{self.name} heard of no such change; its last list: {sorted(found)}") from None

    async def refusal_after_announcement(self, said: str) -> None:
        """Wait for an announcement after which the list of tools is refused, because the agent was stopped."""
        try:
            with anyio.fail_after(PATIENCE):
                while not self.heard:
                    await self._news.wait()
                    self._news = anyio.Event()
        except TimeoutError:
            raise AssertionError(f"{self.name} did not hear that its agent was stopped") from None
        self.heard = 0
        with pytest.raises(MCPError, match=said):
            await self.mcp.list_tools()


def first_error(errors: BaseException) -> BaseException:
    """Return the error that ended nested task groups."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors


@asynccontextmanager
async def listening(name: str, where: Any, era: str) -> AsyncIterator[Listener]:
    """An official client that hears of changes."""
    async with AsyncExitStack() as stack:
        made: list[Listener] = []

        async def hear(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification) and made:
                made[0].note()

        mcp = await stack.enter_async_context(Client(where, mode=era, message_handler=hear))
        made.append(Listener(f"{name} {era}", mcp))
        assert {READ, LIST} <= {tool.name for tool in (await mcp.list_tools()).tools}
        if era != "legacy":
            subscription = await stack.enter_async_context(mcp.listen(tools_list_changed=True))
            tasks = await stack.enter_async_context(anyio.create_task_group())

            async def follow() -> None:
                with suppress(SubscriptionLost):  # The front ends the streams of a revoked agent.
                    async for _ in subscription:
                        made[0].note()

            tasks.start_soon(follow)
            stack.callback(tasks.cancel_scope.cancel)
        yield made[0]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with a front, whose client ``clerk`` is an agent made by an operator."""
    port = free_port()
    config = sample(tmp_path_factory.mktemp("rights"), eager=True)
    scopes = ("mcp:tools:execute", "mcp:resources:read", "documents:query")
    words = [word for scope in scopes for word in ("--scope", scope)]
    with running(config) as first:
        made = first.agtp("agent", "new", "clerk", *words, "--owner", "Somebody")
        assert made.returncode == 0, made.stdout + made.stderr
    write_tokens(config.parent, CLIENTS)
    text = config.read_text().replace('name = "files"', 'name = "files"\nmin_assurance = "gateway"', 1)
    config.write_text(text + front(port, CLIENTS))
    with running(config) as host:
        host.front = f"http://127.0.0.1:{port}/mcp"  # type: ignore[attr-defined]
        yield host


def at_front(host: Host, client: str) -> Any:
    """A way to the front with a client's token."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token_of(client)}"}, timeout=60)
    return streamable_http_client(host.front, http_client=http)  # type: ignore[attr-defined]


async def rule(host: Host, *words: str) -> None:
    """Run a command of an operator."""
    done = await anyio.to_thread.run_sync(partial(host.agtp, "agent", *words))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_open_bridge_hears_of_a_suspension_and_of_its_end(host: Host) -> None:
    """
    In each era; the host keeps the refusal of the next subscription back until the agent is reinstated.

    All sessions of the agent ended, so the bridge and the front go on in others.
    """

    async def story() -> None:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(listening("bridge", stdio(host, "--as", "clerk"), era))
                for era in ("legacy", "2026-07-28")
            ]
            for _ in range(2):
                await rule(host, "deactivate", "clerk", "--reason", "a drill")
                for client in clients:
                    await client.refusal_after_announcement("503|suspended")
                await rule(host, "reinstate", "clerk")
                for client in clients:
                    await client.tools_after_announcement(lambda tools: {LIST, READ} <= tools)
                    assert audit_id(await client.mcp.call_tool(READ, {"path": "welcome.txt"}))
                for era in ("legacy", "2026-07-28"):
                    async with listening("front", at_front(host, "clerk"), era) as client:
                        assert audit_id(await client.mcp.call_tool(READ, {"path": "welcome.txt"}))

    try:
        anyio.run(story)
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


def test_open_clients_hear_of_each_change_of_rights(host: Host) -> None:
    """After limit, allow, ungrant, a scope and a reload each client of the agent hears, and no other client."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            clients = []
            for era in ("legacy", "2026-07-28"):
                for name, where in (("front", at_front(host, "clerk")), ("bridge", stdio(host, "--as", "clerk"))):
                    clients.append(await stack.enter_async_context(listening(name, where, era)))
            other = await stack.enter_async_context(listening("other", at_front(host, "other"), "legacy"))

            async def each(wanted: Callable[[set[str]], bool]) -> None:
                for client in clients:
                    await client.tools_after_announcement(wanted)

            await rule(host, "limit", "clerk", "files.list_files", "--yes")
            await each(lambda tools: LIST in tools and READ not in tools)
            await rule(host, "allow", "clerk", "files.read_file")
            await each(lambda tools: {LIST, READ} <= tools and "query_library" not in tools)
            await rule(host, "ungrant", "clerk", "--all")
            await each(lambda tools: {LIST, READ, "query_library"} <= tools and "book_room" not in tools)
            await rule(host, "allow", "clerk", "booking:room")
            await each(lambda tools: "book_room" in tools)
            text = host.config.read_text()
            await anyio.Path(host.config).write_text(
                text + '\n[[grant]]\nagent = "clerk"\nallow = ["files.read_file"]\n'
            )
            assert (await anyio.to_thread.run_sync(reload, host))["audit_id"]
            await each(lambda tools: READ in tools and LIST not in tools)
            assert other.heard <= 1, "only the reload may concern an agent whose rights are as before"
            other.heard = 0
            await rule(host, "limit", "demo", "files.read_file", "--yes")
            await other.tools_after_announcement(lambda tools: LIST not in tools)
            assert audit_id(await clients[0].mcp.call_tool(READ, {"path": "welcome.txt"}))
            await rule(host, "revoke", "clerk", "--reason", "key-compromise")
            for client in clients:
                if client.name.startswith("bridge"):
                    await client.refusal_after_announcement("410|retired")

    try:
        anyio.run(story)
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
