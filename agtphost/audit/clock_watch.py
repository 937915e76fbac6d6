"""Watch the system's clock: its jumps are logged and become signed events of the host's own chain."""

from __future__ import annotations

from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.host_clock import BELIEVED_AFTER, ClockEvent, HostClock, JumpKind
from agtphost.audit.ledger import Ledger
from agtphost.audit.state import StateItem, StateTable
from agtphost.vocabulary import times
from agtphost.vocabulary.bounds import DAY
from agtphost.vocabulary.quotas import CLOCK_LEAP

LOOK_SECONDS: Final = 5.0
"""Seconds between two checks; they limit the events caused by a clock that is set again and again."""

log = Logger()

_WAIT = f"the host does not follow it until it has lasted {BELIEVED_AFTER / 60:.0f} minutes"

MESSAGES: Final = {
    JumpKind.JUMPED: (
        "the system's clock jumped by {seconds:.0f} s to {system}: "
        + _WAIT
        + ". It goes on from {host}; set the clock "
        "right, or restart the host if it is right now"
    ),
    JumpKind.BELIEVED: "the system's clock has differed by {seconds:.0f} s for long; the host now follows it: {host}",
    JumpKind.RETURNED: "the system's clock is back: it says {system}, as the host does",
    JumpKind.AHEAD: (
        "the newest record is {seconds:.0f} s old: the host was off or idle, or the system's clock is ahead. It says "
        "{system}; see that this is right"
    ),
    JumpKind.BEHIND: (
        "the system's clock says {system}, {seconds:.0f} s from the newest record: "
        + _WAIT
        + ". It goes on from {host}; "
        "set the clock right"
    ),
}


class ClockWatch(Service):
    """
    A service that checks the system's clock while the host runs.

    :param reactor: schedules the checks.
    :param ledger: takes the events; it is started before :meth:`begin`.
    :param held: keeps the forward leaps that answers of keyed requests have to outlast.
    """

    name = "clock"

    def __init__(self, reactor: Any, clock: HostClock, ledger: Ledger, held: StateTable) -> None:
        self._clock = clock
        self._ledger = ledger
        self._looking = LoopingCall(self.check)
        self._looking.clock = reactor
        held.watch(CLOCK_LEAP, self._note_leap)

    def startService(self) -> None:
        """Compare the clock with the newest record, and start the periodic check."""
        super().startService()  # type: ignore[no-untyped-call]
        self.begin()
        self._looking.start(LOOK_SECONDS, now=False)

    def stopService(self) -> None:
        """Stop the periodic check."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._looking.running:
            self._looking.stop()

    def begin(self) -> None:
        """Compare the clock with the newest record."""
        self._note(self._clock.begin(self._ledger.newest))

    def check(self) -> None:
        """Compare the clock with the time that has passed."""
        self._note(self._clock.look())
        ended = self._clock.ended_leaps()
        for key in ended:
            self._clock.forget(key)
        if ended:
            changes = tuple(Change(kind=CLOCK_LEAP, key=key, value=None) for key in ended)
            self._submit(Draft(chain=HOST_CHAIN, payload={}, changes=changes))

    def _note_leap(self, key: str, item: StateItem | None) -> None:
        if item is None:
            self._clock.forget(key)
        else:
            self._clock.remember(key, float(item.value["until"]), float(item.value["seconds"]))

    def _note(self, event: ClockEvent | None) -> None:
        if event is None:
            return
        system, host = _stamp(event.system), _stamp(event.host)
        # It is normal that a host was off for a night.
        usual = event.kind in (JumpKind.RETURNED, JumpKind.AHEAD) and event.seconds < DAY
        (log.info if usual else log.error)(MESSAGES[event.kind], seconds=event.seconds, system=system, host=host)
        changes: tuple[Change, ...] = ()
        if event.leap:
            changes = self._keep_leaps(f"{event.host:.6f}", event.host + DAY, event.leap)
        fields = {"seconds": round(event.seconds, 3), "system_time": system, "host_time": host}
        stream = StreamEvent(chain=HOST_CHAIN, event_type=event.kind.value, fields=fields)
        self._submit(Draft(chain=HOST_CHAIN, payload={}, events=(stream,), changes=changes, vital=True))

    def _keep_leaps(self, key: str, until: float, leap: float) -> tuple[Change, ...]:
        """
        Return the changes that keep a leap, and those before it for as much longer.

        The items have no ``expires_at``: a start in a leap would take them for expired before it knows of the leap.
        What they say counts from now on, and not only once it is durable: answers may be looked for in between.
        """
        leaps = {**self._clock.extend_leaps(leap), key: (until, leap)}
        self._clock.remember(key, until, leap)
        return tuple(
            Change(kind=CLOCK_LEAP, key=name, value={"seconds": seconds, "until": end})
            for name, (end, seconds) in leaps.items()
        )

    def _submit(self, draft: Draft) -> None:
        noted = self._ledger.submit(draft)
        noted.addErrback(
            lambda failure: log.error("the clock event could not be recorded: {why}", why=failure.getErrorMessage())
        )


def _stamp(seconds: float) -> str:
    """Return a time as text, or as a number if no date can express it."""
    return times.stamp(seconds) if times.EARLIEST <= seconds <= times.LATEST else f"{seconds:.0f}"
