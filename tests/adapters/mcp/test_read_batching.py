"""What of a process is read together, and what is written together; and that nobody waits for long, or in vain."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.read_batching import DELAY_DIVISOR, LEAST_CALLS, LONGEST_DELAY, MOST_SKIPPED, ReadBatcher
from agtphost.adapters.mcp.stdio import PIECE, QUEUED_OCTETS, READ, StdioLink
from agtphost.upstream.failures import UpstreamBusy
from agtphost.upstream.log import UpstreamLog

QUICK = 0.012
"""Seconds that a call takes here."""

REST = QUICK / DELAY_DIVISOR


class Process(Clock):
    """A reactor whose one process is two pipes: what it is asked goes into one, and the test answers into the other."""

    pid = 1

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.writing = os.pipe()
        self.input, self.asking = os.pipe()
        for each in (self.reading, self.input, self.asking):
            os.set_blocking(each, False)
        self.pipes: dict[int, Any] = {0: Input(self.asking), 1: self}
        self.pending = b""
        """What the pipe did not take."""

        self.read = True
        """Whether the reactor reads its output."""

        self.peer = JsonRpcPeer(self, self._link, lambda method, params: None, lambda lost: None)
        self.done: list[Any] = []

    def _link(self, receiver: Any) -> StdioLink:
        self.link = StdioLink(self, receiver, ("x",), {}, None, UpstreamLog(self, "s"))
        return self.link

    def close(self) -> None:
        for each in (self.reading, self.writing, self.input, self.asking):
            os.close(each)

    # The reactor and the transport

    def fileno(self) -> int:
        return self.reading

    def spawnProcess(self, *_: object, **__: object) -> Process:
        return self

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def unregisterProducer(self) -> None: ...

    def write(self, octets: bytes) -> None:
        self.pending += octets

    def closeChildFD(self, number: int) -> None: ...

    def signalProcess(self, name: str) -> None: ...

    def startReading(self) -> None:
        self.read = True

    def stopReading(self) -> None:
        self.read = False

    resumeProducing, pauseProducing = startReading, stopReading

    # The test

    def ask(self, count: int, padding: int = 0) -> None:
        for _ in range(count):
            self.peer.request("tools/call", {"x": "x" * padding}, 60.0).addBoth(self.done.append)

    def asked(self) -> list[int]:
        """Whose requests lie in its input."""
        try:
            return [json.loads(line)["id"] for line in os.read(self.input, 1 << 20).splitlines()]
        except BlockingIOError:
            return []

    def taken(self) -> bytes:
        """All that it is sent, which it reads as fast as it comes."""
        found = b""
        while True:
            try:
                found += os.read(self.input, 1 << 20)
            except BlockingIOError:
                if not self.pending:
                    return found
                found, self.pending = found + self.pending, b""
                self.link.resumeProducing()

    def answer(self, *call_ids: int, padding: int = 0) -> None:
        """Write answers, and let the reactor read them if it does."""
        for call_id in call_ids:
            line = json.dumps({"jsonrpc": "2.0", "id": call_id, "result": call_id}).encode()
            os.write(self.writing, line + b" " * padding + b"\n")
        self.turn()

    def turn(self) -> None:
        while self.read:
            try:
                octets = os.read(self.reading, READ)
            except BlockingIOError:
                return
            self.link.outReceived(octets)


class Input:
    """The process's standard input."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number


@pytest.fixture
def process() -> Iterator[Process]:
    """One whose calls have taken so long, with eight of them under way."""
    process = Process()
    try:
        process.ask(1)
        process.advance(QUICK)
        process.answer(1)
        process.ask(8)
        process.advance(QUICK)
        yield process
    finally:
        process.close()


def test_answers_that_come_one_by_one_are_read_together(process: Process) -> None:
    """The first at once; what comes in half the time that calls take, when it is over."""
    process.answer(2)
    assert process.done == [1, 2] and not process.read
    process.advance(REST / 2)
    process.answer(3)
    process.answer(4)
    assert process.done == [1, 2]
    process.advance(REST / 2)
    assert process.done == [1, 2, 3, 4] and not process.read, "and the next ones gather again"


def test_where_none_comes_the_next_is_read_at_once(process: Process) -> None:
    """Nothing gathers then for a while, which is longer each time."""
    gathered = []
    for call_id in range(2, 6):
        process.answer(call_id)
        assert process.done[-1] == call_id
        gathered.append(not process.read)
        process.advance(QUICK)
        assert process.read
    assert gathered == [True, False, True, False]


def test_few_calls_wait_for_nothing(process: Process) -> None:
    """As soon as fewer are left."""
    process.answer(*range(2, 10 - LEAST_CALLS + 1))
    assert process.read and process.peer.in_flight == LEAST_CALLS - 1


def test_quick_answers_wait_for_nothing(process: Process) -> None:
    """One that takes no time says what a quick one takes, and a slow one says nothing."""
    process.ask(1)
    process.answer(10)
    assert process.read and process.peer.quick_seconds == 0.0
    process.advance(30.0)
    process.peer.quick_seconds = 0.001
    process.answer(2)
    assert process.peer.quick_seconds < 0.0013


def test_long_answers_wait_for_nothing(process: Process) -> None:
    """Neither one that fills a reading, nor one whose end is still to come: the pipe holds only so much."""
    process.answer(2, padding=READ)
    assert process.read
    os.write(process.writing, b'{"jsonrpc": "2.0", ')
    process.turn()
    os.write(process.writing, b'"id": 3, "result": 3}\n')
    process.turn()
    assert process.done == [1, 2, 3] and process.read


def test_a_link_that_ends_meanwhile_leaves_no_timer(process: Process) -> None:
    """And reads nothing more."""
    process.answer(2)
    assert not process.read
    process.link.abort("the test ends it")
    assert len(process.done) == 9 and process.peer.in_flight == 0
    process.advance(REST)
    assert not process.read
    assert not [each for each in process.getDelayedCalls() if "Gathering" in str(each)]


def test_what_was_written_before_an_exit_is_read_at_once(process: Process) -> None:
    """The process has ended while answers gathered: its calls have milliseconds left."""

    class Reason:
        value = type("Ended", (), {"exitCode": 3, "signal": None})()

    process.answer(2)
    process.answer(3)
    assert process.done == [1, 2]
    process.link.processExited(Reason())  # type: ignore[arg-type]
    process.turn()
    assert process.done == [1, 2, 3] and process.read


def test_requests_of_one_turn_are_written_at_once(process: Process) -> None:
    """In order, at its end; one that no other is in flight with does not wait for that."""
    process.asked()
    process.ask(2)
    process.answer(*range(2, 10))
    process.ask(1)
    assert process.asked() == []
    process.advance(0)
    assert process.asked() == [10, 11, 12]
    process.answer(10, 11, 12)
    process.ask(1)
    assert process.asked() == [13]


def test_what_the_pipe_does_not_take_follows_in_order(process: Process) -> None:
    """Long requests and short ones of one turn, beyond what it holds."""
    process.asked()
    process.ask(3, padding=PIECE)
    process.ask(2)
    process.advance(0)
    assert process.pending
    assert [json.loads(line)["id"] for line in process.taken().splitlines()] == [10, 11, 12, 13, 14]


def test_what_one_turn_sends_is_bounded(process: Process) -> None:
    """As what waits for a server that does not read: what is too much is refused, and nothing of it is sent."""
    process.asked()
    for _ in range(12):
        process.ask(1, padding=QUEUED_OCTETS // 10)
    assert process.pending and [type(getattr(each, "value", each)) for each in process.done] == [
        int,
        UpstreamBusy,
        UpstreamBusy,
    ]
    assert [json.loads(line)["id"] for line in process.taken().splitlines()] == list(range(10, 20))


def test_what_was_sent_before_the_end_is_written(process: Process) -> None:
    """The host ends the process in the turn in which it asked."""
    process.asked()
    process.ask(2)
    process.link.close()
    assert process.asked() == [10, 11]
    process.link.processEnded(None)  # type: ignore[arg-type]


def test_gathering_is_bounded() -> None:
    """In time, and in how often nothing gathers after it was in vain."""
    clock = Clock()
    over: list[float] = []
    gathering = ReadBatcher(clock, lambda: over.append(clock.seconds()))
    assert (
        gathering.begin_delay(LEAST_CALLS, 3600.0)
        and gathering.begin_delay(LEAST_CALLS, 3600.0)
        and gathering.is_delaying
    )
    clock.advance(LONGEST_DELAY)
    assert over == [LONGEST_DELAY] and not gathering.is_delaying
    for _ in range(20):
        gathering.note_result(False)
    assert [gathering.begin_delay(LEAST_CALLS, 3600.0) for _ in range(MOST_SKIPPED + 1)] == [False] * MOST_SKIPPED + [
        True
    ]
    gathering.note_result(True)
    gathering.stop()
    assert gathering.begin_delay(LEAST_CALLS, 3600.0), "begins anew where something came"


def test_a_lone_call_is_written_in_its_turn_beside_a_subscription() -> None:
    """What lasts is no call that others share a write with; the second call of a turn is, and goes with its end."""
    process = Process()
    try:
        process.peer.request("subscriptions/listen", {}, None)
        process.advance(0)
        process.asked()
        process.ask(2)
        assert (process.asked(), process.peer.timed_calls) == ([2], 2)
        process.advance(0)
        assert process.asked() == [3]
        process.answer(2, 3)
        assert (process.peer.in_flight, process.peer.timed_calls) == (1, 0)
        process.ask(1)
        assert process.asked() == [4]
        process.advance(60.0)
        assert (process.peer.in_flight, process.peer.timed_calls) == (1, 0), "it was not answered in time"
    finally:
        process.close()
