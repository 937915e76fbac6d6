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
    Make a Twisted reactor time its calls by a clock that is never set. The clock starts at the system's time, so calls
    that were scheduled before keep their time.

    :return: whether it does; another kind of reactor is left as it is.
    """
    if not isinstance(reactor, ReactorBase):
        return False
    if getattr(reactor.seconds, "steady", False):
        return True
    offset = time.time() - steady()

    def seconds() -> float:
        return steady() + offset

    setattr(seconds, "steady", True)  # noqa: B010 - unknown to the type checker
    setattr(reactor, "seconds", seconds)  # noqa: B010 - the class declares it as a method
    return True
