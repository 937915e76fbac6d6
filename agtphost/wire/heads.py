"""
Heads of messages, and a cache of the heads that one connection has sent before.

A client on one connection mostly sends the same head again, apart from the identifiers of each call. A head
whose octets are those of an earlier one is what that one was. One that differs in fields of :data:`PER_CALL` alone
takes those from the new octets and everything else from the earlier one. From the second of them on they have one
:attr:`agtphost.wire.headers.Headers.common`, by which layers above find what they worked out for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from agtphost.wire import grammar
from agtphost.wire.headers import Common, Headers

S = TypeVar("S")

MOST_HEADS: Final = 4
"""Heads kept of one connection, of different first lines."""

MOST_OCTETS: Final = 1024
"""Of a head that is kept; a longer one is read anew: connections that only wait shall not hold much."""

PER_CALL: Final = frozenset(
    {"content-length", "idempotency-key", "request-id", "session-id", "task-id", "traceparent", "tracestate"}
)
"""Fields that name one call, or say how long it is: all else of a head tends to be the same for the next."""


@dataclass(slots=True)
class Head(Generic[S]):
    """Everything of a message before its body."""

    start: S
    """The parts of the first line."""

    line: bytes
    """The first line as received, CRLF included."""

    headers: Headers
    """All fields."""

    length: int
    """Octets of the body that follows."""


_NONE: Final[tuple[bytes, list[str], Any]] = b"", [], None


class Heads:
    """The latest heads of one connection, each by its first line: its octets, its lines, and what they say."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[bytes, list[str], Head[Any]]] = {}

    def begins(self, buffer: bytearray) -> Head[Any] | None:
        """
        Remove a head from the front of ``buffer`` and return it, if the same octets were read as a head before.

        :return: None where it is another one, or not all there.
        """
        head: Head[Any] | None
        octets, _, head = self._kept.get(bytes(buffer[: buffer.find(b"\n", 0, MOST_OCTETS) + 1]), _NONE)
        if head is None or not buffer.startswith(octets):
            return None
        del buffer[: len(octets)]
        return _common(head)

    def similar(self, line: bytes, lines: list[str]) -> tuple[Head[Any], Headers] | None:
        """
        Return an earlier head that differs from this one in :data:`PER_CALL` alone, and the fields of this one.

        :param line: the first line, CRLF included.
        :param lines: of the whole head, of octets that lines may hold.
        """
        head: Head[Any] | None
        _, before, head = self._kept.get(line, _NONE)
        if head is None or len(before) != len(lines) or head.headers.repeated_names:
            return None
        known = head.headers
        fields: list[tuple[str, str]] = []
        index: dict[str, str] = {}
        for number, each in enumerate(lines):
            if each == before[number]:
                continue
            name, colon, value = each.partition(":")
            key = grammar.field_key(name)
            if not colon or key not in PER_CALL or name != known.fields[number - 1][0]:
                return None
            if not fields:
                fields, index = list(known.fields), dict(known.by_name)
            index[key] = value = value.strip(" \t")
            fields[number - 1] = name, value
        headers = Headers.from_index(fields, index)
        headers.common = _common(head).headers.common
        return head, headers

    def keep(self, octets: bytes, lines: list[str], head: Head[Any]) -> None:
        """
        Remember a head that was read.

        :param octets: all of it, the blank line included.
        :param lines: of it, as for :meth:`similar`.
        """
        if len(octets) > MOST_OCTETS:
            return
        kept = self._kept
        if len(kept) >= MOST_HEADS and head.line not in kept:
            del kept[next(iter(kept))]
        kept[head.line] = octets, lines, head


def _common(head: Head[Any]) -> Head[Any]:
    """Return a head that was read again, with a place for the values that all its repetitions have in common."""
    headers = head.headers
    if headers.common is None:
        headers.common = Common()
    return head
