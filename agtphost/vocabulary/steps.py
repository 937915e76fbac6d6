"""Run long work that is cut into steps, so that other work can run in between."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")

Executor = Callable[..., Awaitable[Any]]
"""Calls a function off the reactor."""

TURN = 0.01
"""Seconds of work until the others have their turn."""


SLICE = 0.002
"""Seconds of processor time that a worker thread computes before it rests."""

REST = 2.0
"""Times as long as a slice took, until the next one."""


class Slices:
    """
    Cut long work in a thread into slices, so that the reactor's thread rarely waits for the interpreter.

    A call acquires the interpreter lock a dozen times; while another thread computes without a rest, it waits each
    time.

    :param sleep: called with seconds of rest.
    """

    def __init__(self, sleep: Callable[[float], object] = time.sleep) -> None:
        self._sleep = sleep
        self._began = time.thread_time()

    def pause(self) -> None:
        """Sleep if the slice is used up; called between two parts of the work."""
        taken = time.thread_time() - self._began
        if taken > SLICE:
            self._sleep(REST * taken)
            self._began = time.thread_time()


def run_to_end(steps: Generator[None, None, Result]) -> Result:
    """Run all steps without a pause, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def spread(steps: Iterator[object], clock: Any) -> None:
    """
    Run steps one after the other, in as many turns of the reactor as they need, a fifth of :data:`TURN` in each.

    :param clock: the reactor's.
    """
    ends = time.perf_counter() + TURN / 5
    for _ in steps:
        if time.perf_counter() > ends:
            clock.callLater(0, spread, steps, clock)
            return
