"""The official MCP client before ``agtp mcp-bridge``: sessions that a module's tests share, and what each is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.session import ClientRequestContext

from tests.system.bridging import http_bridge, stdio
from tests.system.hosting import Host

ERAS = ("legacy", "2026-07-28")
TRANSPORTS = ("stdio", "http")
PATIENCE = 30.0
"""Seconds for what another process tells; it takes a moment where the machine is not busy."""


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


def said(result: types.CallToolResult) -> str:
    """The texts of a tool's answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def audit_id(result: types.Result) -> str:
    """The Audit-ID that an answer carries."""
    assert result.meta is not None, result
    found = dict(result.meta)["agtp/audit-id"]
    assert isinstance(found, str)
    return found


class Told:
    """What a client was told besides answers."""

    def __init__(self) -> None:
        self._news = anyio.Event()
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
        self._news.set()

    async def until(self, *names: str) -> None:
        """Wait for notifications of the handshake era."""
        with anyio.fail_after(PATIENCE):
            while not set(names) <= set(self.changes):
                self._news = anyio.Event()
                await self._news.wait()


class Session:
    """
    One session of a client.

    :param upstream: the server whose tools it calls by their own names, at a bridge of all servers.
    """

    def __init__(self, mcp: Client, told: Told, era: str, upstream: str = "") -> None:
        self.mcp = mcp
        self.told = told
        self.era = era
        self.upstream = upstream

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> types.CallToolResult:
        """A tool of the server."""
        name = f"{self.upstream}__{tool}" if self.upstream else tool
        return await self.mcp.call_tool(name, arguments or {}, **options)

    async def cancel_a_call(self) -> None:
        """Cancel a call that is under way, by its own report."""
        begun = anyio.Event()

        async def step(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def wait() -> None:
            await self.call("wait_for_long", progress_callback=step)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            with anyio.fail_after(PATIENCE):
                await begun.wait()
            tasks.cancel_scope.cancel()

    async def cancelled_calls(self) -> int:
        """How many calls were cancelled at the server, as it says itself."""
        return said(await self.call("what_was_cancelled")).count("wait_for_long")


@asynccontextmanager
async def connected(host: Host, era: str, *words: str, url: str = "") -> AsyncIterator[Session]:
    """The official client, which can answer everything; over stdio without a URL."""
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
    where: Any = url or stdio(host, *words)
    async with Client(where, mode=era, **options) as client:
        yield Session(client, told, era)


class Sessions:
    """One session for each era and way to a bridge, in an event loop of their own; opened when first wanted."""

    def __init__(self, host: Host, stack: ExitStack) -> None:
        self._host = host
        self._stack = stack
        self._portal = stack.enter_context(start_blocking_portal())
        self._url = ""
        self._open: dict[tuple[str, str], Session] = {}

    def play(self, story: Callable[[Session], Awaitable[None]], era: str, transport: str, upstream: str) -> None:
        """Tell one story in its session."""
        if (era, transport) not in self._open:
            if transport == "http" and not self._url:
                self._url = self._stack.enter_context(http_bridge(self._host)).url
            opening = connected(self._host, era, url=self._url if transport == "http" else "")
            entered = self._stack.enter_context(self._portal.wrap_async_context_manager(opening))
            self._open[era, transport] = entered
        shared = self._open[era, transport]
        shared.told.forget()
        self._portal.call(story, Session(shared.mcp, shared.told, era, upstream))
