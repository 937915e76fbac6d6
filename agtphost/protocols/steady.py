"""
Timers that no jump of the system's clock moves.

Twisted's reactor reads the system's clock. Where that is set ahead, every deadline has passed and every idle
connection is closed; where it is set back by a day, no timer fires for a day: no deadline, no schedule, no checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.base import ReactorBase

from agtphost.vocabulary import times


def use_steady_clock(reactor: Any, steady: Callable[[], float] = times.steady) -> bool:
    """
    Have a reactor of Twisted time its calls by a clock that nobody sets.

    It goes on from where the system's clock is, so what was scheduled before is still due when it was.

    :return: whether it does; another kind of reactor is left as it is.
    """
    if not isinstance(reactor, ReactorBase):
        return False
    if getattr(reactor.seconds, "steady", False):
        return True
    offset = time.time() - steady()

    def seconds() -> float:
        return steady() + offset

    setattr(seconds, "steady", True)  # noqa: B010 - no attribute that types know
    setattr(reactor, "seconds", seconds)  # noqa: B010 - what its class calls so is no attribute to types
    return True
