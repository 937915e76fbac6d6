"""
Serve the bridge on stdin and stdout, for a desktop client that starts it, or a pipe of the shell.

Messages are lines. Both eras are served on one pair of pipes: a request with an envelope is an independent one of
2026-07-28; every other belongs to the conversation that ``initialize`` begins.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol, IReactorTime
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.mcp import messages
from agtphost.mcp.connection import MOST_RUNNING, NO_STREAM, ClientConnection
from agtphost.mcp.messages import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, McpFault, Message, RequestId
from agtphost.mcp.request_checks import check_envelope, is_enveloped
from agtphost.mcp.revisions import MODERN
from agtphost.mcp.server import Server

LAST_ANSWERS_SECONDS: Final = 20.0
"""Seconds to answer the requests that came before stdin was closed."""

LONGEST_LINE: Final = 64 << 20
"""Octets of a message; a longer one ends the conversation."""

MOST_WAITING: Final = 10_000
"""Requests that wait for their turn behind those in flight (:data:`~agtphost.mcp.connection.MOST_RUNNING`)."""

ENDLESS: Final = frozenset({"subscriptions/listen"})
"""Requests that are answered only when the client ends them."""


@implementer(IHalfCloseableProtocol)
class StdioClient(Protocol):
    """
    The protocol of the client at the other end; its requests are answered after it closes stdin.

    How long they may take then is :data:`LAST_ANSWERS_SECONDS`.

    :param server: answers the requests.
    """

    def __init__(self, server: Server, clock: IReactorTime) -> None:
        self._clock = clock
        self._handshake_connection = ClientConnection(server, self._write, tells_cancelled=False)
        self._stateless_connection = ClientConnection(server, self._write, MODERN, tells_cancelled=False)
        self._parts: list[bytes] = []
        self._length = 0
        self._unanswered: set[RequestId] = set()
        self._in_flight = 0  # those of the unanswered requests that run
        self._waiting: deque[tuple[ClientConnection, Message]] = deque()
        self._beginning = False  # so that an immediate answer does not begin the next request recursively
        self._closed = False  # whether stdin is closed
        self._patience: IDelayedCall | None = None
        self._has_ended = False
        self.done: Deferred[None] = Deferred()
        """Fires when the conversation is over."""

    # Input

    def dataReceived(self, data: bytes) -> None:
        """Collect octets until a line, which is a message, is complete."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join((*self._parts, line)).strip()
            self._parts, self._length = [], 0
            if whole and not self._has_ended:
                self._take(whole)
        if rest:
            self._parts.append(rest)
            self._length += len(rest)
        if self._length > LONGEST_LINE:
            self._send(
                messages.encode_error(None, McpFault(PARSE_ERROR, f"A message has at most {LONGEST_LINE} octets."))
            )
            self._end()

    def _take(self, octets: bytes) -> None:
        try:
            found = messages.read_any(octets, self._handshake_connection.revision)
        except McpFault as fault:
            self._send(messages.encode_error(None, fault))
            return
        for message in found:
            self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        if message.is_request:
            self._take_request(message)
        elif message.method:
            # A request is cancelled by its id, in either era, and also while it waits for its turn.
            self._handshake_connection.take_notification(message)
            if message.method == "notifications/cancelled":
                self._stateless_connection.take_notification(message)
                self._forget(message.params.get("requestId"))
        else:
            self._handshake_connection.take_answer(message)

    def _take_request(self, message: Message) -> None:
        number = message.id
        assert number is not None, "it is a request"
        taker = self._handshake_connection
        try:
            if number in self._unanswered:
                raise McpFault(INVALID_REQUEST, "A request with that id is in flight.")
            if is_enveloped(message):
                if self._handshake_connection.revision:
                    raise McpFault(
                        INVALID_REQUEST, "This conversation began with a handshake: requests have no envelope in it."
                    )
                check_envelope(message, None)
                taker = self._stateless_connection
            if len(self._waiting) >= MOST_WAITING:
                raise McpFault(INTERNAL_ERROR, f"At most {MOST_WAITING} requests wait for their turn.")
        except McpFault as fault:
            self._send(messages.encode_error(number, fault))
            return
        if message.method in ENDLESS:
            taker.request(message, NO_STREAM)
            return
        self._unanswered.add(number)
        self._waiting.append((taker, message))
        if not self._beginning:
            self._begin()

    def _begin(self) -> None:
        # One place fewer than a conversation has, so that an endless request always finds one.
        self._beginning = True
        while self._waiting and self._in_flight < MOST_RUNNING - 1 and not self._has_ended:
            taker, message = self._waiting.popleft()
            self._in_flight += 1
            taker.request(message, NO_STREAM).addBoth(self._finish_request, message)
        self._beginning = False

    def _finish_request(self, _: None, message: Message) -> None:
        self._in_flight -= 1
        self._settle(message.id)
        if not self._beginning:
            self._begin()

    def _forget(self, number: Any) -> None:
        kept = [(taker, message) for taker, message in self._waiting if message.id != number]
        if len(kept) < len(self._waiting):
            self._waiting = deque(kept)
            self._settle(number)

    def _settle(self, number: RequestId | None) -> None:
        if number is not None:
            self._unanswered.discard(number)
        if self._closed and not self._unanswered:
            self._end()

    def readConnectionLost(self) -> None:
        """Stop reading, since stdin was closed, and wait a limited time for the answers still to come."""
        self._closed = True
        if self._unanswered:
            self._patience = self._clock.callLater(LAST_ANSWERS_SECONDS, self._end)
        else:
            self._end()

    # Output

    def _write(self, _: str, octets: bytes, __: bool) -> None:
        self._send(octets)

    def _send(self, octets: bytes) -> None:
        if not self._has_ended and self.transport is not None:
            self.transport.write(octets + b"\n")

    # The end

    def writeConnectionLost(self) -> None:
        """End the conversation, since stdout was closed."""
        self._end()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """End the conversation, since both pipes are closed."""
        self._end()
        if not self.done.called:
            self.done.callback(None)

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._patience is not None and self._patience.active():
            self._patience.cancel()
        self._handshake_connection.end()
        self._stateless_connection.end()
        if self.transport is not None:
            self.transport.loseConnection()


async def serve(server: Server, reactor: Any) -> None:
    """Serve one client until it closes stdin."""
    from twisted.internet.stdio import StandardIO

    client = StdioClient(server, reactor)
    StandardIO(client, reactor=reactor)  # type: ignore[no-untyped-call]
    await client.done
