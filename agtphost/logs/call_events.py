"""
Mark each log line of a call with its Audit-ID, Response-ID, Agent-ID and Task-ID.

The Audit-ID is the hash of the call's record. So lines logged during a call wait until the record is made, for at most
a second. If a call takes longer, logs many lines, or logs from a thread, its lines are written with the Response-ID;
once the record is made, one more line has both identifiers.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent
from twisted.python.threadable import isInIOThread
from zope.interface import implementer

from agtphost.handlers.log_context import CALL, Call

LONGEST_WAIT = 1.0
"""Seconds for which a line waits."""

SUFFIX = " [{call}]"
"""Follows the format of an event that was logged in the course of a call."""

MOST_WAITING = 50
"""Lines of one call that wait."""


@implementer(ILogObserver)
class CallEvents:
    """
    A log observer that marks events with their call and forwards all of them.

    :param forward: the observer that gets the events.
    """

    def __init__(self, forward: ILogObserver, clock: IReactorTime) -> None:
        self._forward: Any = forward
        self._clock = clock

    def __call__(self, event: LogEvent) -> None:
        """Mark an event and forward it, or hold it until its Audit-ID is known."""
        call = CALL.get()
        if call is None:
            self._forward(event)
        elif call.audit_id:
            self._forward(mark_event(event, call))
        elif call.early or not isInIOThread():  # type: ignore[no-untyped-call]
            call.early = True
            self._forward(mark_event(event, call))
        else:
            self._hold(event, call)

    def _hold(self, event: LogEvent, call: Call) -> None:
        if call.held is None:
            call.held = []
            self._clock.callLater(LONGEST_WAIT, _give_up, call)
        call.held.append(lambda: self._forward(mark_event(event, call)))
        if len(call.held) >= MOST_WAITING:
            _give_up(call)


def _give_up(call: Call) -> None:
    """Write the waiting lines, without the Audit-ID where it is not known yet."""
    if call.held is not None:
        call.early = call.early or not call.audit_id
        call.let_go()


def mark_event(event: LogEvent, call: Call) -> LogEvent:
    """Return the event with its call, in members and at the end of its text."""
    told: LogEvent = {**event, "call": call.text}
    for name in ("audit_id", "response_id", "agent_id", "task_id", "caller", "operator"):
        told.setdefault(name, getattr(call, name))
    if call.caller:
        told.setdefault("caller_proven", call.proven)
    if call.bound is not None:
        told.setdefault("called", call.bound.display_name)
    if told.get("message"):
        # Observers of Twisted's older kind read this form.
        told["message"] = (*told["message"], f"[{call.text}]")
    form = told.get("log_format")
    if isinstance(form, str):
        told["log_format"] = f"{form}{SUFFIX}"
    return told
