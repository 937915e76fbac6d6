"""CallQueue at a shared upstream: who is next, who waits, and who is sent away."""

from __future__ import annotations

import random

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.upstream.failures import UpstreamBusy, UpstreamLost, UpstreamTimeout
from agtphost.upstream.queue import CallQueue, may_await_start
from tests.rows import each_row


class Calls:
    """Calls of several callers, in the order in which they got their turns."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self.clock = Clock()
        self.turns = CallQueue(self.clock, at_once, waiting)
        self.at_work: list[str | None] = []
        self.failed: list[tuple[str | None, type[Exception]]] = []
        self.waiting: list[Deferred[None]] = []

    def call(self, caller: str | None) -> None:
        if self.turns.take(caller):
            self.at_work.append(caller)
            return
        try:
            turn = self.turns.wait(60.0, caller)
        except UpstreamBusy:
            self.failed.append((caller, UpstreamBusy))
            return
        self.waiting.append(turn)
        turn.addCallbacks(
            lambda _: self.at_work.append(caller),
            lambda failure: self.failed.append((caller, failure.type)),
        )

    def end(self, caller: str | None) -> None:
        self.at_work.remove(caller)
        self.turns.give_back(caller)


def test_one_caller_leaves_a_quarter_of_the_turns() -> None:
    """A hundred calls of one caller take twelve turns of sixteen; three others start at once, and the host itself."""
    calls = Calls(16, 100)
    for _ in range(100):
        calls.call("hog")
    assert calls.at_work == ["hog"] * 12
    for caller in ("a", "b", "c", None):
        calls.call(caller)
    assert calls.at_work[12:] == ["a", "b", "c", None]
    calls.call("d")
    calls.end("a")
    assert calls.at_work[-1] == "d"


@each_row(("at_once", "share"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6), (16, 12)])
def test_the_share_of_a_caller(at_once: int, share: int) -> None:
    """Three quarters, and one at least is left, but where there is one turn only."""
    calls = Calls(at_once, 100)
    for _ in range(50):
        calls.call("hog")
    assert len(calls.at_work) == share


def test_turns_go_round_among_those_that_wait() -> None:
    """With one turn: whoever waits is next in a round, however many calls the first one had waiting before."""
    calls = Calls(1, 100)
    for caller in ("hog",) * 20 + ("a", "a", "b"):
        calls.call(caller)
    order = []
    for _ in range(6):
        (caller,) = calls.at_work
        order.append(caller)
        calls.end(caller)
    assert order == ["hog", "hog", "a", "b", "hog", "a"]


def test_a_full_room_has_a_place_for_whoever_has_less_in_it() -> None:
    """The latest call of whoever has most waiting goes; who has as much as the most is refused itself."""
    calls = Calls(1, 6)
    for _ in range(7):
        calls.call("hog")
    calls.call("hog")
    assert calls.failed == [("hog", UpstreamBusy)]
    for _ in range(4):
        calls.call("a")
    assert calls.failed[1:] == [("hog", UpstreamBusy)] * 3 + [("a", UpstreamBusy)]
    assert calls.turns.waiting == 6


def test_those_that_wait_time_out_leave_and_are_sent_away() -> None:
    """And what they leave is in order: as many calls get turns afterwards as before."""
    calls = Calls(2, 10)
    for caller in ("a", "b", "a", "b", "c"):
        calls.call(caller)
    calls.waiting[0].cancel()
    calls.clock.advance(60.0)
    assert [kind for _, kind in calls.failed][1:] == [UpstreamTimeout, UpstreamTimeout]
    calls.call("a")
    calls.turns.fail_all(lambda: UpstreamLost("gone"))
    assert calls.failed[-1] == ("a", UpstreamLost)
    for caller in ("a", "b"):
        calls.end(caller)
    assert (calls.turns.waiting, calls.turns.take("x"), calls.turns.take("y")) == (0, True, True)


@each_row("seed", range(20))
def test_no_turn_is_lost_and_nobody_starves(seed: int) -> None:
    """Any mixture of calls and ends: turns and waiting calls add up, and every caller that waits gets on."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    calls = Calls(dice.randint(1, 8), dice.randint(0, 12))
    total, sent = calls.turns._free, 0
    for _ in range(500):
        if dice.random() < 0.6 or not calls.at_work:
            calls.call(dice.choice("aaaaaabcd"))
            sent += 1
        else:
            calls.end(dice.choice(calls.at_work))
        assert calls.turns._free + len(calls.at_work) == total
    while calls.at_work:
        calls.end(calls.at_work[0])
    assert (calls.turns.waiting, calls.turns._free) == (0, total)


def test_half_the_room_at_a_start_is_the_most_of_one_caller() -> None:
    """While an upstream starts nobody has a turn; the host's own calls wait in what there is."""
    assert may_await_start(["a"] * 3, "a", 8)
    assert not may_await_start(["a"] * 4, "a", 8)
    assert may_await_start(["a"] * 4, "b", 8)
    assert may_await_start(["a"] * 4, None, 8)
    assert not may_await_start(["a", "b"], "c", 2)
