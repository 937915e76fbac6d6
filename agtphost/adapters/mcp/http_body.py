"""A bounded reader of the answer to one HTTP request: one JSON text, or an event stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss

from agtphost.adapters.mcp.framing import MAX_MESSAGE, EventStream, MessageTooLong, TooManyLines


class Answer(Protocol):
    """
    Reads a response body: one JSON text, or an event stream.

    :param stream: whether it is an event stream.
    :param take: takes each complete text as it arrives.
    :param ended: takes None at the orderly end, or one sentence.
    :param limit: octets of one text.
    :param errors: whether events of type ``error`` are taken too.
    """

    def __init__(
        self,
        stream: bool,
        take: Callable[[bytes], None],
        ended: Callable[[str | None], None],
        limit: int = MAX_MESSAGE,
        *,
        errors: bool = False,
    ) -> None:
        self.stream = stream
        """Whether it is an event stream."""

        self._events = EventStream(limit, errors=errors) if stream else None
        self.lost = False
        """Whether the connection ended in the middle."""

        self.too_long = False
        """Whether it was given up because a text is longer than its limit."""

        self._parts: list[bytes] = []
        self._held = 0
        self._unread: deque[bytes] = deque()
        self._paused = False
        self._over: Failure | None = None
        self._take = take
        self._ended: Callable[[str | None], None] | None = ended
        self._limit = limit

    def dataReceived(self, data: bytes) -> None:
        if self._ended is None:
            return
        if self._events is None:
            self._held += len(data)
            self._parts.append(data)
            if self._held > self._limit:
                self.too_long = True
                self.abandon(f"the answer is longer than {self._limit} octets")
            return
        try:
            events = self._events.feed(data)
        except MessageTooLong as error:
            self.too_long = not isinstance(error, TooManyLines)
            self.abandon(str(error))
            return
        self._unread.extend(events)
        self._hand_over()

    def _hand_over(self) -> None:
        """Have events taken until there are no more, or whoever takes them wants a pause."""
        unread = self._unread
        while unread and not self._paused and self._ended is not None:
            self._take(unread.popleft())

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._ended is None:
            return
        if self._unread:
            self._over = reason
            return
        if not isinstance(reason.value, (ResponseDone, PotentialDataLoss)):
            self.lost = True
            self._end("the connection was lost in the middle of the answer")
            return
        if self._events is None and self._held:
            self._take(b"".join(self._parts))
        self._end(None)

    @property
    def last_id(self) -> str:
        """The id of the last event; empty where none had one."""
        return "" if self._events is None else self._events.last_id

    @property
    def retry(self) -> float | None:
        """Seconds to wait before the stream is resumed; None where the server did not say."""
        return None if self._events is None else self._events.retry

    def abandon(self, reason: str) -> None:
        """Stop reading and close the connection."""
        transport: Any = self.transport
        self._end(reason)
        if transport is not None:
            transport.loseConnection()

    def pause(self) -> None:
        """Stop reading for now."""
        transport: Any = self.transport
        self._paused = True
        if self._ended is not None and self._over is None and transport is not None:
            transport.pauseProducing()

    def resume(self) -> None:
        """Read on."""
        transport: Any = self.transport
        self._paused = False
        self._hand_over()
        if self._paused or self._ended is None:
            return
        if self._over is not None:
            self.connectionLost(self._over)
        elif transport is not None:
            transport.resumeProducing()

    def _end(self, reason: str | None) -> None:
        ended, self._ended = self._ended, None
        self._parts = []
        self._unread.clear()
        if ended is not None:
            ended(reason)
