"""Coroutines without a caller: the same results as Twisted's own way, and none lost."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from agtphost.protocols.coroutines import Cancellable, drive


def test_results_and_failures_arrive_whenever_they_come() -> None:
    """Fired before, fired later, failed before, failed later: each wait gives what Deferreds give."""
    later: Deferred[int] = Deferred()
    broken: Deferred[int] = Deferred()
    seen: list[object] = []

    async def work() -> None:
        seen.append(await succeed(1))
        seen.append(await later)
        for failing in (fail(ValueError("before")), broken):
            try:
                await failing
            except ValueError as error:
                seen.append(str(error))
        seen.append("end")

    drive(work())
    assert seen == [1]
    later.callback(2)
    assert seen == [1, 2, "before"]
    broken.errback(ValueError("later"))
    assert seen == [1, 2, "before", "later", "end"]


def test_a_long_run_of_waits_does_not_grow_the_stack() -> None:
    """Ten thousand results that are there already are taken one after the other."""
    total = 0

    async def work() -> None:
        nonlocal total
        for _ in range(10_000):
            total += await succeed(1)

    drive(work())
    assert total == 10_000


def test_an_exception_before_the_first_wait_is_the_starters() -> None:
    """Nothing is swallowed."""

    async def work() -> None:
        raise RuntimeError("at once")

    with pytest.raises(RuntimeError):
        drive(work())


class Waiting:
    """A coroutine that waits for each of some Deferreds, and notes what came of it."""

    def __init__(self, *awaited: Deferred[Any]) -> None:
        self.found: list[Any] = []
        self._awaited = awaited

    async def run(self) -> None:
        """Wait for one after the other."""
        for each in self._awaited:
            try:
                self.found.append(await each)
            except CancelledError:
                self.found.append("cancelled")


def test_cancelling_ends_the_present_wait_and_no_later_one() -> None:
    """The cancellation is raised where the coroutine waits; what it does then is its own matter."""
    first, second = Deferred[Any](), Deferred[Any]()
    waiting = Waiting(first, second)
    running = Cancellable(waiting.run())
    running.cancel()
    assert waiting.found == ["cancelled"]
    second.callback("second")
    assert waiting.found == ["cancelled", "second"]
    running.cancel()
    assert waiting.found == ["cancelled", "second"]


def test_a_failure_is_raised_where_the_coroutine_waits() -> None:
    """As by a driver of Twisted's own."""
    failing = Deferred[Any]()

    async def run() -> None:
        try:
            await failing
        except ValueError as error:
            found.append(str(error))

    found: list[str] = []
    Cancellable(run())
    failing.errback(ValueError("broken"))
    assert found == ["broken"]


def test_a_coroutine_that_never_waits_is_over_at_its_beginning() -> None:
    """There is nothing to cancel."""
    fired = Deferred[Any]()
    fired.callback("at once")
    waiting = Waiting(fired)
    Cancellable(waiting.run()).cancel()
    assert waiting.found == ["at once"]
