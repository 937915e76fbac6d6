"""Long work that is cut into steps: done at once, or with turns of the reactor in between."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TypeVar

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

Result = TypeVar("Result")

TURN = 0.01
"""Seconds of work until the others have their turn."""


def finished(steps: Generator[None, None, Result]) -> Result:
    """Do all of it at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


async def in_turns(steps: Generator[None, None, Result], clock: IReactorTime) -> Result:
    """Do it, and let the others have their turn after each step that ends later than :data:`TURN`."""
    began = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if time.perf_counter() - began > TURN:
            await deferLater(clock, 0)
            began = time.perf_counter()
