"""Answers that take long are kept open, however many there are, by one timer."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.mcp.stream import PING, EventStreamAnswer, Heartbeats


class Asked:
    """A request, as far as a stream asks it for something."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.responseHeaders = self
        self.on_disconnect: Any = None

    def put(self, name: str, value: str) -> None:
        """No test looks at fields."""

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def unregisterProducer(self) -> None: ...

    def write(self, octets: bytes) -> None:
        self.written.append(octets)

    def end_stream(self, octets: bytes) -> None:
        self.written.append(octets + b"<end>")

    @property
    def pings(self) -> int:
        return self.written.count(b": ping\r\n\r\n")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_silent_stream_is_kept_open_from_its_own_beginning(clock: Clock) -> None:
    beats = Heartbeats(clock)
    first, second = Asked(), Asked()
    EventStreamAnswer(first, beats).begin()  # type: ignore[arg-type]
    clock.advance(PING / 3)
    EventStreamAnswer(second, beats).begin()  # type: ignore[arg-type]
    clock.advance(PING * 2 / 3)
    assert (first.pings, second.pings) == (1, 0)
    clock.advance(PING / 3)
    assert (first.pings, second.pings) == (1, 1)
    clock.pump([PING / 3] * 6)
    assert (first.pings, second.pings) == (3, 3)
    assert len(clock.getDelayedCalls()) == 1


def test_an_answer_that_has_not_begun_becomes_a_stream(clock: Clock) -> None:
    beats, asked = Heartbeats(clock), Asked()
    stream = EventStreamAnswer(asked, beats)  # type: ignore[arg-type]
    beats.add(stream)
    clock.advance(PING)
    assert stream.has_begun
    assert asked.pings == 0
    clock.advance(PING)
    assert asked.pings == 1


def test_what_has_ended_is_left_alone(clock: Clock) -> None:
    """A stream that its last message or its client's leaving ended, and an answer in one piece."""
    beats = Heartbeats(clock)
    finished, left, whole = Asked(), Asked(), Asked()
    stream = EventStreamAnswer(finished, beats)  # type: ignore[arg-type]
    stream.begin()
    stream.finish(b"{}", "1")
    EventStreamAnswer(left, beats).begin()  # type: ignore[arg-type]
    left.on_disconnect()
    answer = EventStreamAnswer(whole, beats)  # type: ignore[arg-type]
    beats.add(answer)
    whole.answer = lambda status, fields, octets: whole.write(octets)  # type: ignore[attr-defined]
    answer.answer(200, b"{}")
    clock.pump([PING] * 3)
    assert finished.written == [b"", b"event: message\r\nid: 1\r\ndata: {}\r\n\r\n<end>"]
    assert (left.written, whole.written) == ([b""], [b"{}"])
    assert not clock.getDelayedCalls()
