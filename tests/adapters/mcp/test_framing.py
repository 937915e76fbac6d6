"""Octets into messages, however they are cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from agtphost.adapters.mcp.long_lines import BoundedLines, LongLine, answered_id, find_call_id
from agtphost.adapters.mcp.stdio import READ, StdioLink
from agtphost.upstream.bodies import EventStreamParser, LineSplitter, MessageTooLong
from agtphost.upstream.log import UpstreamLog
from tests.rows import each_row


def fed(reader: LineSplitter | EventStreamParser, octets: bytes, size: int) -> list[bytes]:
    """What comes out when the octets arrive ``size`` at a time."""
    found: list[bytes] = []
    for start in range(0, len(octets), size):
        found += reader.feed(octets[start : start + size])
    return found


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b), max_size=8), st.integers(1, 50))
def test_lines_come_out_as_they_went_in(lines: list[bytes], size: int) -> None:
    """Any lines, cut anywhere, are the same lines, and an unfinished one is held back."""
    octets = b"".join(line + b"\n" for line in lines) + b"rest"
    reader = LineSplitter()
    assert fed(reader, octets, size) == lines
    assert reader.pending_octets == 4


@given(st.lists(st.binary(max_size=24).filter(lambda b: b"\n" not in b), max_size=8), st.integers(1, 50))
def test_lines_of_a_process_come_out_as_they_went_in(lines: list[bytes], size: int) -> None:
    """However they are cut; one beyond the bound comes out twice, when that is known and when it has ended."""
    reader, found = BoundedLines(12), list[bytes | LongLine]()
    octets = b"".join(line + b"\n" for line in lines) + b"rest"
    for start in range(0, len(octets), size):
        found += reader.feed(octets[start : start + size])
    expected = [each for line in lines for each in ([line] if len(line) <= 12 else [line[:12]] * 2)]
    assert [each if isinstance(each, bytes) else each.head[:12] for each in found] == expected
    assert reader.feed(b"\n") == [b"rest"] and reader.long is None


class Played(Clock):
    """A reactor whose one process is a pipe that the test writes to, and the receiver of what is read of it."""

    pid, in_flight, timed_calls, only_call, quick_seconds = 1, 1, 1, None, 0.0

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.pipes = {1: self}
        self.messages: list[Any] = []

    def fileno(self) -> int:
        return self.reading

    def spawnProcess(self, *_: object, **__: object) -> Played:
        return self

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def take_message(self, message: Any, within: int | None = None, octets: bytes = b"") -> bool:
        self.messages.append(message)
        return True


@contextmanager
def played() -> Iterator[tuple[Played, StdioLink]]:
    """A link to it."""
    process = Played()
    try:
        yield process, StdioLink(process, process, ("x",), {}, None, UpstreamLog(process, "s"))  # type: ignore[arg-type]
    finally:
        os.close(process.reading)
        os.close(process.writing)


def test_a_long_answer_is_read_in_one_turn() -> None:
    """As far as the pipe holds it; what is cut goes on with what comes next."""
    with played() as (process, link):
        first, second = ({"id": number, "result": "x" * size} for number, size in ((1, 50_000), (2, 20)))
        octets = json.dumps(first).encode() + b"\n" + json.dumps(second).encode()
        os.write(process.writing, octets)
        link.outReceived(os.read(process.reading, READ))
        assert process.messages == [first]
        link.outReceived(b"\n")
        assert process.messages == [first, second]


@each_row("ended", [False, True])
def test_a_full_reading_may_be_the_last(ended: bool) -> None:
    """Nothing more is in the pipe, or it has ended: what was read is read."""
    with played() as (process, link):
        line = b'{"id":1}' + b" " * (READ - 9) + b"\n"
        if ended:
            process.pipes.clear()
        link.outReceived(line)
        assert process.messages == [{"id": 1}]


@each_row("size", [1, 7, 64, 1000])
def test_a_line_over_the_limit_is_refused(size: int) -> None:
    """T-MC: a line may have exactly its limit; one octet more is refused, finished or not."""
    assert fed(LineSplitter(100), b"x" * 100 + b"\n", size) == [b"x" * 100]
    for end in (b"", b"\n", b"\nmore\n"):
        with pytest.raises(MessageTooLong):
            fed(LineSplitter(100), b"ok\n" + b"x" * 101 + end, size)


@each_row("size", [1, 2, 3, 1000])
def test_events_come_out_of_a_stream(size: int) -> None:
    """
    Message events are cut out; comments, other types, ids and empty events are skipped; LF and CRLF both
    end lines.
    """
    stream = (
        b": ping\r\n\r\nevent: message\r\ndata: one\r\n\r\ndata: two\ndata:  lines\nid: 7\n\n"
        b"event: other\ndata: no\n\nid: 8\ndata:\n\nretry: 5\n\ndata:three\n\ndata: unfinished\n"
    )
    assert fed(EventStreamParser(), stream, size) == [b"one", b"two\n lines", b"three"]


def test_an_event_over_the_limit_is_refused() -> None:
    """An event of many short lines has the same limit as one of a long line."""
    with pytest.raises(MessageTooLong):
        fed(EventStreamParser(100), b"data: 0123456789\n" * 11, 5)
    with pytest.raises(MessageTooLong):
        fed(EventStreamParser(100), b"data: " + b"x" * 200, 5)


@each_row(
    ("octets", "expected"),
    [
        (b'{"id": 7, "result": NaN}', 7),
        (b'{"id": 7, "result": 1e999}', 7),
        (b'{"id": 7, "id": 8, "result": {}}', 8),
        (b'{"id": "7", "result": NaN}', None),
        (b'{"id": 7, "method": "x", "params": NaN}', None),
        (b"[" * 100_000, None),
        (b'{"id": ' + b"9" * 5000 + b"}", None),
        (b"\xff\xfe", None),
        (b"nothing", None),
    ],
)
def test_the_call_of_a_refused_answer_is_found(octets: bytes, expected: int | None) -> None:
    """A text that the strict decoder refuses still fails its own call at once, and no other."""
    assert answered_id(octets) == expected


@each_row(
    ("octets", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":[%s]}', 7),
        (b'{"jsonrpc":"2.0","result":[%s],"id":8}', 8),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":[%s]}', None),
        (b"[%s]", None),
    ],
)
def test_whose_a_refused_text_is(octets: bytes, expected: int | None) -> None:
    """However long it is: by its beginning and its end."""
    assert find_call_id(octets % b"NaN") == expected
    assert find_call_id(octets % (b"[]," * 2_000_000 + b"NaN")) == expected
