"""
Octets into messages, for both transports; no I/O here.

:class:`Lines` cuts at newlines, :class:`EventStream` cuts ``text/event-stream``
(WHATWG HTML, "Interpreting an event stream"). The lines of stdio are those of :mod:`.long_lines`.
"""

from __future__ import annotations

import json
from typing import Any

MAX_MESSAGE = 16 << 20
"""Octets in one message: what callers get whole (docs/mcp.rst, "Sizes"). Beyond it, only its call ends."""

MAX_EVENT_ID = 1024
"""Octets of an event's id; longer ones are not remembered."""

MAX_LINES = 65_536
"""Lines of data in one event, however short."""


class MessageTooLong(Exception):
    """A message is longer than its limit; what follows cannot be framed any more."""


class TooManyLines(MessageTooLong):
    """A message has more lines than any that means something, however short they are."""


class Lines:
    """
    Cuts octets at newlines.

    :param limit: octets one line may have.
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    @property
    def held(self) -> int:
        """Octets of the unfinished line."""
        return self._held

    def feed(self, octets: bytes) -> list[bytes]:
        """
        Take what arrived.

        :return: the lines it completed, without their newlines.
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


class EventStream:
    """
    Cuts an event stream into the data of its ``message`` events.

    Comments and events of other types are skipped.

    :param limit: octets one event may have.
    :param errors: whether events of type ``error`` are read too, as :class:`ErrorEvent`.
    """

    def __init__(self, limit: int = MAX_MESSAGE, *, errors: bool = False) -> None:
        self.last_id = ""
        """Of the last event that had one: from where the stream can be resumed."""

        self.retry: float | None = None
        """Seconds to wait before that, where the server said."""

        self._limit = limit
        self._lines = Lines(limit)
        self._data: list[bytes] = []
        self._size = 0
        self._type = b""
        self._errors = errors

    def feed(self, octets: bytes) -> list[bytes]:
        """
        Take what arrived; lines end with LF or CRLF.

        :return: the data of each completed message event.
        :raises MessageTooLong: an event is over the limit.
        """
        events = []
        for line in self._lines.feed(octets):
            if line.startswith(b":"):
                # A comment: servers send them to keep a stream open, some without end.
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


def answered_id(octets: bytes) -> int | None:
    """
    Whose answer a refused text is, so that its call fails now and not at its deadline.

    :return: the id of a JSON-RPC answer; None where it is none.
    """
    try:
        text = octets.decode("utf-8-sig", "replace")
        message: Any = json.loads(text, parse_int=_small_integer, parse_float=lambda _: None, strict=False)
    except (ValueError, RecursionError):
        return None
    if type(message) is not dict or "method" in message:
        return None
    call_id = message.get("id")
    return call_id if type(call_id) is int else None


def _small_integer(text: str) -> int | None:
    return int(text) if len(text) < 17 else None
