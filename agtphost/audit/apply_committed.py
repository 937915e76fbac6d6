"""Apply a committed group to in-memory state before its callers are answered; in the reactor's thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence

from agtphost.audit.catch_up import CatchUp, Differing, Door
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.audit.writer import Entry, Submission
from agtphost.vocabulary.steps import TURN, run_to_end

SHARE = TURN / 4
"""Processor seconds for groups in one turn of the reactor; the callers that are answered need the rest of it."""

AT_ONCE = 4
"""Entries of a group between two looks at the clock."""

Steps = Generator[None, None, None]


class CommitApplier:
    """
    Applies committed groups in order, each before its callers are answered. A large group takes as many turns of the
    reactor as it needs; the changes of one record are applied within one turn.

    :param later: the reactor's ``callLater``.
    :param takeover: notified of what memory has.
    """

    def __init__(
        self, later: Callable[..., object], lifecycle: LifecycleTable, held: StateTable, takeover: CatchUp
    ) -> None:
        self._later = later
        self._lifecycle = lifecycle
        self._held = held
        self._takeover = takeover
        self._groups: deque[Steps] = deque()
        self._applying = False
        self._scheduled = False
        self._taking_over = False
        self.door = Door(later)
        """Where calls wait while something is taken over in more than one turn."""

    def settle(self, entries: Sequence[Entry], notify: Callable[[], Steps]) -> None:
        """
        Apply the effects of a group, and then fire its Deferreds.

        :param notify: reports the group to the watchers of the ledger, in steps; called at the end.
        """
        self._begin(self._steps(entries, notify))

    def fail(self, entries: Sequence[Entry], error: Callable[[], Exception]) -> None:
        """Fail the Deferreds of a group, after the groups before it."""
        self._begin(self._fail_entries(entries, error))

    def take_over(self, differing: Differing, then: Callable[[], None]) -> None:
        """
        Apply what another process wrote into the store, after the groups before it.

        :param then: called at the end.
        """
        self._taking_over = True
        self._begin(self._taken_over(differing, then))

    def finish(self) -> None:
        """
        Apply the groups that wait without giving up the reactor, and let waiting calls go on.

        The ledger calls it when its writer has ended, before it fails the records that were not written.
        """
        while self._groups and not self._applying:
            run_to_end(self._groups.popleft())
        self.door.open()

    def _begin(self, steps: Steps) -> None:
        if self._applying:  # Only without waiting callers: another record was sealed before this call returned.
            run_to_end(steps)
            return
        self._groups.append(steps)
        if not self._scheduled:
            self._apply_waiting()

    def _apply_waiting(self) -> None:
        """Apply the groups that wait; go on in a later turn of the reactor when this one's share is used up."""
        self._scheduled = False
        self._applying = True
        # The thread's own clock costs a call of the system; it never goes faster than the other one.
        began, clock = time.thread_time(), time.perf_counter()
        try:
            while self._groups:
                for _ in self._groups[0]:
                    if time.perf_counter() - clock > TURN / 2 and time.thread_time() - began > SHARE:
                        self._scheduled = True
                        if self._taking_over:
                            self.door.close()
                        self._later(0, self._apply_waiting)
                        return
                self._groups.popleft()
        finally:
            self._applying = False
        self._taking_over = False
        if self.door.shut:
            self.door.open()

    def _steps(self, entries: Sequence[Entry], notify: Callable[[], Steps]) -> Steps:
        """Apply the effects of a group and fire its Deferreds, in steps."""
        changing = 0
        for entry in entries:
            # Most records change nothing.
            if entry.__class__ is Submission and (entry.state or entry.admitted or entry.held):
                self._take_effect(entry)
                changing += 1
                if not changing % AT_ONCE:
                    yield
        self._takeover.note_settled(entries)
        for number, entry in enumerate(entries, 1):
            if isinstance(entry.outcome, Exception):
                entry.deferred.errback(entry.outcome)
            else:
                entry.deferred.callback(entry.outcome)
            if not number % AT_ONCE:
                yield
        yield from notify()

    def _take_effect(self, entry: Submission) -> None:
        """Apply the transition and the changed state items of an entry."""
        if entry.state is not None and entry.draft.event is not None:
            self._lifecycle.apply(entry.draft.event.agent_id, entry.state)
        if entry.admitted is not None:
            self._held.settle(entry.admitted)
        if entry.held:
            self._held.apply(entry.held, entry.items)

    def _fail_entries(self, entries: Sequence[Entry], error: Callable[[], Exception]) -> Steps:
        """Fail the Deferreds of a group; the space reserved for their state items is released first."""
        for entry in entries:
            if isinstance(entry, Submission) and entry.admitted is not None:
                self._held.settle(entry.admitted)
        for number, entry in enumerate(entries, 1):
            entry.deferred.errback(error())
            if not number % AT_ONCE:
                yield

    def _taken_over(self, differing: Differing, then: Callable[[], None]) -> Steps:
        yield from self._takeover.steps(differing)
        then()
