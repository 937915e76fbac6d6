"""One timer for many waits: each hears that its time is up when it is, and nobody else does."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from agtphost.handlers.deadlines import Deadlines


def named(said: list[tuple[float, int]], clock: Clock, number: int) -> Callable[[], None]:
    """What notes when it was called."""
    return lambda: said.append((clock.seconds(), number))


class CountingClock(Clock):
    """A clock that counts the timers that were ever set."""

    made = 0

    def callLater(self, *words: Any, **more: Any) -> Any:
        self.made += 1
        return super().callLater(*words, **more)


@pytest.mark.parametrize("seed", range(6))
def test_each_wait_ends_at_its_time_or_before(seed: int) -> None:
    """As with a timer for each: made-up waits begin, end and are late at the same moments, with one timer at a time."""
    chance, clock, single = random.Random(seed), Clock(), Clock()
    deadlines = Deadlines(clock, lasting=seed % 2 == 0)
    said, expected = list[tuple[float, int]](), list[tuple[float, int]]()
    waits = []
    for number in range(200):
        seconds = chance.randrange(64) / 8
        late = named(said, clock, number)
        deadlines.add(seconds, late)
        waits.append((late, single.callLater(seconds, named(expected, single, number))))
        if chance.random() < 0.6:
            late, timer = waits.pop(chance.randrange(len(waits)))
            deadlines.discard(late)
            if timer.active():
                timer.cancel()
        for each in (clock, single):
            each.advance(0.125)
        timers = len(clock.getDelayedCalls())
        assert timers == (len(deadlines) > 0) or (timers == 1 and seed % 2 == 0)
        assert len(deadlines) == len(single.getDelayedCalls())
    for each in (clock, single):
        each.advance(10)
    assert sorted(said) == sorted(expected) and len(said) > 20
    assert clock.getDelayedCalls() == [] and len(deadlines) == 0


def test_what_ends_in_time_costs_no_timer() -> None:
    """A thousand waits beside one that lasts set the timer once, and the last one takes it away."""
    clock = CountingClock()
    deadlines = Deadlines(clock)
    lasting = named([], clock, 0)
    deadlines.add(30.0, lasting)
    for number in range(1000):
        late = named([], clock, number)
        deadlines.add(30.0, late)
        deadlines.discard(late)
    assert clock.made == 1
    deadlines.discard(lasting)
    assert clock.getDelayedCalls() == []


def test_wait_after_wait_of_a_lasting_owner_costs_no_timer() -> None:
    """One timer is left while nothing waits: it says nothing, goes when its time is up, and later waits have theirs."""
    clock, said = CountingClock(), list[tuple[float, int]]()
    deadlines = Deadlines(clock, lasting=True)
    for number in range(1000):
        late = named(said, clock, number)
        deadlines.add(30.0, late)
        clock.advance(1 / 64)
        deadlines.discard(late)
    assert clock.made == 1 and len(clock.getDelayedCalls()) == 1
    begun = clock.seconds()
    deadlines.add(30.0, named(said, clock, -1))
    clock.advance(30.0 - begun)
    assert said == [] and clock.made == 2
    clock.advance(begun)
    assert said == [(begun + 30.0, -1)]
    assert clock.getDelayedCalls() == []
    ended = named(said, clock, -2)
    deadlines.add(30.0, ended)
    deadlines.discard(ended)
    clock.advance(30.0)
    assert clock.getDelayedCalls() == [] and len(said) == 1


def test_the_end_of_one_may_be_the_end_of_others() -> None:
    """Who is discarded by another's end is not late, and who begins by it is waited for."""
    clock, said = Clock(), list[tuple[float, int]]()
    deadlines = Deadlines(clock)
    second, third = named(said, clock, 2), named(said, clock, 3)

    def first() -> None:
        said.append((clock.seconds(), 1))
        deadlines.discard(second)
        deadlines.add(5, third)

    deadlines.add(1, first)
    deadlines.add(1, second)
    deadlines.add(2, named(said, clock, 4))
    for _ in range(10):
        clock.advance(1)
    assert said == [(1, 1), (2, 4), (6, 3)]


def test_one_that_fails_fails_alone() -> None:
    """It is logged, and the others hear that their time is up."""
    clock, said, logged = Clock(), list[tuple[float, int]](), list[object]()
    deadlines = Deadlines(clock)

    def broken() -> None:
        raise RuntimeError("broken")

    deadlines.add(1, broken)
    deadlines.add(1, named(said, clock, 2))
    deadlines.add(2, named(said, clock, 3))
    globalLogPublisher.addObserver(logged.append)  # type: ignore[arg-type]
    try:
        clock.advance(1)
    finally:
        globalLogPublisher.removeObserver(logged.append)  # type: ignore[arg-type]
    clock.advance(1)
    assert said == [(1, 2), (2, 3)] and "broken" in str(logged)


def test_many_that_are_late_one_by_one_cost_no_look_at_all_others() -> None:
    """Of ten thousand waits, each end asks the clock as often as the first; what is over is not kept."""
    clock, said = Clock(), list[tuple[float, int]]()
    deadlines = Deadlines(clock)
    for number in range(10_000):
        deadlines.add(number + 1, named(said, clock, number))
    looked = 0
    waits = deadlines._waits

    class Counted(dict[Any, int]):
        def get(self, *words: Any) -> Any:
            nonlocal looked
            looked += 1
            return super().get(*words)

    deadlines._waits = Counted(waits)
    for _ in range(100):
        clock.advance(1)
    assert [number for _, number in said] == list(range(100))
    assert looked <= 400
    for late in list(deadlines._waits)[:9_850]:
        deadlines.discard(late)
    deadlines.add(1, named(said, clock, 0))
    assert len(deadlines._heap) <= 128 and len(deadlines) == 51


class Held:
    """What the end of a wait refers to."""

    def late(self) -> None:
        """Time is up."""


def test_a_wait_that_is_over_is_not_held() -> None:
    """What a wait refers to is freed when it is discarded, although another one lasts and its own time is not up."""
    clock = Clock()
    deadlines = Deadlines(clock)
    deadlines.add(30.0, named([], clock, 0))
    waits = [Held() for _ in range(10)]
    for wait in waits:
        deadlines.add(30.0, wait.late)
        deadlines.discard(wait.late)
    freed = [ref(wait) for wait in waits]
    gc.disable()
    try:
        del wait
        waits.clear()
        assert [each() for each in freed] == [None] * 10
    finally:
        gc.enable()


def test_a_reactor_that_comes_late_keeps_the_order_of_deadlines() -> None:
    """
    What waits inside of another wait is told first, as where the reactor is in time: so a refusal names the upstream.

    Its own deadlines have a timer of their own, which is due between two of the calls that wait for it.
    """
    clock, said = Clock(), list[str]()
    calls, upstream = Deadlines(clock), Deadlines(clock)
    calls.add(1.0, lambda: said.append("an early call"))
    calls.add(1.5, lambda: said.append("the call"))
    calls.add(1.6, lambda: said.append("a late call"))
    upstream.add(1.4, lambda: said.append("its upstream"))
    clock.advance(3.0)
    assert said == ["an early call", "its upstream", "the call", "a late call"]
    assert clock.getDelayedCalls() == []
