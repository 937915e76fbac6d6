"""Coroutines without a caller: the same results as Twisted's own way, and none lost."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from agtphost.protocols.coroutines import drive


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
