"""A reactor whose timers no jump of the system's clock moves."""

from __future__ import annotations

import time

from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock

from agtphost.protocols.steady_timers import use_steady_clock


def test_calls_are_due_by_the_steady_clock_those_from_before_too() -> None:
    """It goes on from the time that it is; what was scheduled before is due when it was to be."""
    reactor, passed, done = SelectReactor(), [0.0], []
    reactor.callLater(10, done.append, "before")
    assert use_steady_clock(reactor, lambda: passed[0])
    assert abs(reactor.seconds() - time.time()) < 5
    reactor.callLater(20, done.append, "after")
    for seconds, expected in ((5.0, []), (16.0, ["before"]), (19.0, ["before"]), (21.0, ["before", "after"])):
        passed[0] = seconds
        reactor.runUntilCurrent()
        assert done == expected, seconds


def test_it_is_done_once_and_to_no_other_kind_of_reactor() -> None:
    """A second host in the process leaves it as it is, and a test's clock is a test's."""
    reactor, clock = SelectReactor(), Clock()
    assert use_steady_clock(reactor, lambda: 0.0)
    before = reactor.seconds
    assert use_steady_clock(reactor, lambda: 1e9) and reactor.seconds is before
    assert not use_steady_clock(clock) and clock.seconds() == 0
