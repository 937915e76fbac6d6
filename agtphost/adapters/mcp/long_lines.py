"""
Skip lines over the size limit without keeping them, so that only the call of such a line ends.

The beginning and the end of such a line are kept, for a JSON-RPC answer has its id in one of the two: most servers
write it before the result, some after. The middle cannot name another call, for only members of the outermost object
count.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agtphost.upstream.bodies import MAX_MESSAGE

HEAD = 1024
TAIL = 256
"""Octets that are kept of a line's beginning and end."""

MOST_SKIPPED = 1 << 30
"""Octets of one line; a server that writes more without a newline answers no other call, and is ended."""

SMALL = 64 << 10
"""The largest refused text, in octets, that is parsed as a whole to find its call."""

_MEMBER = re.compile(rb'\s*"((?:[^"\\]|\\.)*+)"\s*:\s*')
_SCALAR = re.compile(rb'("(?:[^"\\]|\\.)*+"|-?[0-9]{1,16}|true|false|null)\s*,')
_LAST_ID = re.compile(rb',\s*"id"\s*:\s*([0-9]{1,16})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
"""A comma before the quotation mark cannot be inside a string here, where the mark would be escaped."""


class LongLine:
    """
    A line over the size limit.

    :param head: its first octets.
    :param limit: octets that a line may have.
    """

    __slots__ = ("_tail", "answers", "call_id", "ended", "head", "limit", "settled", "size", "told")

    def __init__(self, head: bytes, limit: int) -> None:
        self.head = head
        self.limit = limit
        self.size = 0
        self.answers, self.call_id = _read_beginning(head)
        """Whether it is the answer to a call, as far as its beginning shows, and to which."""

        self.ended = False
        self.settled = False
        """Whether it ended a call; set by the reader of lines."""

        self.told = False
        """Whether it was counted; set by the reader of lines."""

        self._tail = b""

    def skip(self, octets: bytes) -> None:
        """Skip some more octets of the line."""
        self.size += len(octets)
        self._tail = (self._tail + octets[-TAIL:])[-TAIL:]

    def end(self) -> None:
        """Mark the line as complete, and look for the call's id in its end."""
        self.ended = True
        found = _LAST_ID.search(self._tail) if self.answers and self.call_id is None else None
        if found is not None:
            self.call_id = int(found[1])


def _read_beginning(head: bytes) -> tuple[bool, int | None]:
    """Return whether a text begins like an answer, and the id that it names before its first long member."""
    answers, call_id = False, None
    at = len(head) - len(head.lstrip()) + 1
    if head[at - 1 : at] != b"{":
        return False, None
    while (member := _MEMBER.match(head, at)) is not None:
        name, at = member[1], member.end()
        if name == b"method":
            return False, None
        answers = answers or name in (b"result", b"error")
        value = _SCALAR.match(head, at)
        if value is None:
            break
        if name == b"id" and value[1].isdigit():
            call_id = int(value[1])
        at = value.end()
    return answers, call_id if answers else None


def answered_id(octets: bytes) -> int | None:
    """
    Return the call that a refused text answers, so that the call fails now and not at its deadline.

    :return: the id of a JSON-RPC answer; None for other texts.
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


def find_call_id(octets: bytes) -> int | None:
    """
    Return the call that a refused text of any length answers.

    :return: None where it is not an answer, or has no id.
    """
    if len(octets) <= SMALL:
        return answered_id(octets)
    line = LongLine(octets[:HEAD], len(octets))
    line.skip(octets)
    line.end()
    return line.call_id


class BoundedLines:
    """
    A splitter that cuts octets at newlines and skips lines over the limit.

    :param limit: octets that a line may have to be returned whole.
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self.long: LongLine | None = None
        """The line that is being skipped."""

    @property
    def has_begun(self) -> bool:
        """Whether a line has begun that has not ended."""
        return bool(self._held) or self.long is not None

    def feed(self, octets: bytes) -> list[bytes | LongLine]:
        """
        Take octets that arrived.

        :return: the lines they complete, without their newlines. A long line is returned twice: when it exceeds the
            limit and when it has ended.
        """
        found: list[bytes | LongLine] = []
        if not self._held and self.long is None and len(octets) <= self._limit:
            # The common case: all octets are short, whole lines, or the beginning of one.
            *lines, part = octets.split(b"\n")
            found.extend(lines)
            if part:
                self._hold(part, found)
            return found
        first, *rest = octets.split(b"\n")
        self._hold(first, found)
        for line in rest:
            self._complete(found)
            if line:
                self._hold(line, found)
        return found

    def _hold(self, part: bytes, found: list[bytes | LongLine]) -> None:
        if self.long is None:
            self._held += len(part)
            self._parts.append(part)
            if self._held <= self._limit:
                return
            part = b"".join(self._parts)
            self._parts, self._held = [], 0
            self.long = LongLine(part[:HEAD], self._limit)
            found.append(self.long)
        self.long.skip(part)

    def _complete(self, found: list[bytes | LongLine]) -> None:
        if self.long is not None:
            self.long.end()
            found.append(self.long)
            self.long = None
            return
        found.append(b"".join(self._parts) if len(self._parts) != 1 else self._parts[0])
        self._parts, self._held = [], 0
