"""
Read the answers to HTTP requests with limits: one JSON text, or an event stream.

:class:`LineSplitter` cuts at newlines, :class:`EventStreamParser` cuts ``text/event-stream`` (WHATWG HTML,
"Interpreting an event stream"); neither does I/O. :class:`AnswerBody` reads a body from its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss

MAX_MESSAGE = 16 << 20
"""Octets of one message that callers get whole (docs/mcp.rst, "Sizes"). A longer one ends only its call."""

MAX_EVENT_ID = 1024
"""Octets of an event's id; longer ones are ignored."""

MAX_LINES = 65_536
"""Lines of data in one event, however short."""


class MessageTooLong(Exception):
    """The error that a message is longer than its limit; what follows cannot be framed any more."""


class TooManyLines(MessageTooLong):
    """The error that a message has more lines than any valid one."""


class LineSplitter:
    """
    A splitter that cuts octets at newlines.

    :param limit: octets one line may have.
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    @property
    def pending_octets(self) -> int:
        """Octets of the unfinished line."""
        return self._held

    def feed(self, octets: bytes) -> list[bytes]:
        """
        Take octets that arrived.

        :return: the lines they complete, without their newlines.
        :raises MessageTooLong: a line, finished or not, is over the limit.
        """
        first, *rest = octets.split(b"\n")
        if not rest:
            self._hold(first)
            return []
        self._hold(first)
        lines = [b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]]
        self._parts, self._held = [], 0
        tail = rest.pop()
        if max(map(len, rest), default=0) > self._limit:
            raise MessageTooLong(f"a line is longer than {self._limit} octets")
        lines += rest
        if tail:
            self._hold(tail)
        return lines

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            raise MessageTooLong(f"a line is longer than {self._limit} octets")
        self._parts.append(part)


class ErrorEvent(bytes):
    """The data of an event of type ``error``; that of a message is plain octets."""


class EventStreamParser:
    """
    A parser that cuts an event stream into the data of its ``message`` events.

    Comments and events of other types are skipped.

    :param limit: octets one event may have.
    :param errors: whether events of type ``error`` are read too, as :class:`ErrorEvent`.
    """

    def __init__(self, limit: int = MAX_MESSAGE, *, errors: bool = False) -> None:
        self.last_id = ""
        """The id of the last event that had one, from which the stream can be resumed."""

        self.retry: float | None = None
        """Seconds to wait before that; None: not given by the server."""

        self._limit = limit
        self._lines = LineSplitter(limit)
        self._data: list[bytes] = []
        self._size = 0
        self._type = b""
        self._errors = errors

    def feed(self, octets: bytes) -> list[bytes]:
        """
        Take octets that arrived; lines end with LF or CRLF.

        :return: the data of each completed message event.
        :raises MessageTooLong: an event is over the limit.
        """
        events = []
        for line in self._lines.feed(octets):
            if line.startswith(b":"):
                # Servers send comments to keep a stream open, some without end.
                continue
            event = self._line(line[:-1] if line.endswith(b"\r") else line)
            if event is not None:
                events.append(event)
        return events

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, kind = b"\n".join(self._data), self._type
            self._data, self._size, self._type = [], 0, b""
            if data and self._errors and kind == b"error":
                return ErrorEvent(data)
            return data if data and kind in (b"", b"message") else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self._limit:
                raise MessageTooLong(f"an event is longer than {self._limit} octets")
            if len(self._data) >= MAX_LINES:
                raise TooManyLines(f"an event is longer than {MAX_LINES} lines")
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and len(value) <= MAX_EVENT_ID and value.isascii() and b"\0" not in value:
            self.last_id = value.decode("ascii")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000
        return None


class AnswerBody(Protocol):
    """
    A reader of a response body: one JSON text, or an event stream.

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

        self.has_no_length = False
        """Whether it had no length and ended with its connection, so that it may be incomplete."""

        self._events = EventStreamParser(limit, errors=errors) if stream else None
        self.was_cut = False
        """Whether the connection ended in the middle."""

        self.too_long = False
        """Whether it was dropped because a text is longer than its limit."""

        self._parts: list[bytes] = []
        self._held = 0
        self._unread: deque[bytes] = deque()
        self._paused = False
        self._end_reason: Failure | None = None
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
                self.refuse()
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
        """Deliver events until none is left, or the taker pauses the reading."""
        unread = self._unread
        while unread and not self._paused and self._ended is not None:
            self._take(unread.popleft())

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._ended is None:
            return
        if self._unread:
            self._end_reason = reason
            return
        if not isinstance(reason.value, (ResponseDone, PotentialDataLoss)):
            self.was_cut = True
            self._end("the connection was lost in the middle of the answer")
            return
        self.has_no_length = isinstance(reason.value, PotentialDataLoss)
        if self._events is None and self._held:
            self._take(b"".join(self._parts))
        self._end(None)

    @property
    def last_id(self) -> str:
        """The id of the last event; empty where none had one."""
        return "" if self._events is None else self._events.last_id

    @property
    def retry(self) -> float | None:
        """Seconds to wait before the stream is resumed; None where the server gave none."""
        return None if self._events is None else self._events.retry

    def refuse(self) -> None:
        """Drop the body because it is longer than its limit."""
        self.too_long = True
        self.abandon(f"the answer is longer than {self._limit} octets")

    def abandon(self, reason: str) -> None:
        """Stop reading, report the reason, and close the connection."""
        self._end(reason)
        self.drop()

    def drop(self) -> None:
        """Stop reading and close the connection, without a report."""
        self._ended = None
        transport: Any = self.transport
        if transport is not None:
            transport.loseConnection()

    def pause(self) -> None:
        """Stop reading for now."""
        transport: Any = self.transport
        self._paused = True
        if self._ended is not None and self._end_reason is None and transport is not None:
            transport.pauseProducing()

    def resume(self) -> None:
        """Resume the reading after a pause."""
        transport: Any = self.transport
        self._paused = False
        self._hand_over()
        if self._paused or self._ended is None:
            return
        if self._end_reason is not None:
            self.connectionLost(self._end_reason)
        elif transport is not None:
            transport.resumeProducing()

    def _end(self, reason: str | None) -> None:
        ended, self._ended = self._ended, None
        self._parts = []
        self._unread.clear()
        if ended is not None:
            ended(reason)
