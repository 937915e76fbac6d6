"""The bridge on stdin and stdout: what a desktop client starts, and what a pipe of the shell feeds."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

LAST_WORDS: Final = 20.0
"""Seconds for the answers to what was asked before stdin was closed."""

ENDLESS: Final = frozenset({"subscriptions/listen"})
"""Requests that are answered only when somebody ends them."""


class Owed:
    """Requests that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[object] = set()
        self._none = anyio.Event()

    def note(self, item: Any) -> None:
        """Something came in."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method not in ENDLESS:
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._gone((message.params or {}).get("requestId"))

    def answered(self, item: SessionMessage) -> None:
        """Something went out."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._gone(item.message.id)

    def _gone(self, request: object) -> None:
        self._ids.discard(request)
        if not self._ids:
            self._none.set()

    async def settled(self) -> None:
        """Nothing more comes in: wait for what is owed, but not for ever."""
        self._none = anyio.Event()
        if self._ids:
            with anyio.move_on_after(LAST_WORDS):
                await self._none.wait()


class _Stream:
    """One direction of the connection; ends with the other side of it."""

    def __init__(self, stream: Any, owed: Owed) -> None:
        self._stream = stream
        self._owed = owed

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(kind, error, trace)
        return ended


class Incoming(_Stream):
    """What the client sends; its end is told once nothing is owed any more."""

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._owed.settled()
            raise
        self._owed.note(item)
        return item

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class Outgoing(_Stream):
    """What the client gets."""

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        self._owed.answered(item)


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes stdin; what it asked before is answered (:data:`LAST_WORDS`)."""
    owed = Owed()
    async with stdio_server() as (incoming, outgoing):
        await server.run(Incoming(incoming, owed), Outgoing(outgoing, owed), server.create_initialization_options())
