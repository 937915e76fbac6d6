"""Long work that is cut into steps, so that others can have their turn in between; here it is done at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")

Aside = Callable[..., Awaitable[Any]]
"""Calls a function off the reactor."""

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
