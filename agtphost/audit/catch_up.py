"""
What the store holds and memory does not: what another process wrote, or what a COMMIT in doubt came to.

Theory of operation. The writer's thread reads the store and compares it with what memory has, or will have once the
groups before are settled; the reactor's thread only gets what differs. It first takes over which agents are stopped,
and then the items: a few of them in one turn, many in as many turns as they need. In that time the door is shut,
because what has come so far may be half of what one record changed; calls that wait at it are let in in turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit.lifecycle import LifecycleTable, state_of_row, stops
from agtphost.audit.state import StateTable
from agtphost.audit.state_item import StateItem, item_of
from agtphost.audit.writer import Entry, Submission
from agtphost.stores.rows import ItemRow, StateRow
from agtphost.vocabulary.steps import TURN

AT_ONCE = 4
"""Items, or agents, between two looks at the clock."""

log = Logger()


@dataclass(slots=True)
class Differing:
    """The rows that memory has to take over."""

    states: dict[str, StateRow | None] = field(default_factory=dict)
    """Of agents; None where none is stored any more."""

    rows: list[ItemRow] = field(default_factory=list)
    """State items, the last one first; without a value where they are gone."""

    items: list[StateItem | None] = field(default_factory=list)
    """The same as they are kept in memory."""


class CatchUp:
    """
    Compares, and takes over what differs.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, lifecycle: LifecycleTable, held: StateTable, now: Callable[[], float]) -> None:
        self._lifecycle = lifecycle
        self._held = held
        self._now = now
        self._unsettled: deque[Sequence[Entry]] = deque()

    def note_written(self, entries: Sequence[Entry]) -> None:
        """Note, in the writer's thread, entries that are committed and that memory does not have yet."""
        self._unsettled.append(entries)

    def note_settled(self, entries: Sequence[Entry]) -> None:
        """Note, in the reactor's thread, entries that memory has."""
        if self._unsettled and self._unsettled[0] is entries:
            self._unsettled.popleft()
        elif entries in self._unsettled:
            self._unsettled.remove(entries)

    # The writer thread's side

    def stops(self, states: Mapping[str, StateRow]) -> Differing:
        """
        Return which agents are stopped now; they are taken over first, because comparing the items may take a while.

        :param states: all that are stored.
        """
        differing = Differing()
        self._compare_states(differing, states, self._coming())
        for agent_id, row in tuple(differing.states.items()):
            if row is None or not stops(row):
                del differing.states[agent_id]
        return differing

    def compare(self, states: Mapping[str, StateRow], rows: Sequence[ItemRow], told: Collection[str] = ()) -> Differing:
        """
        Return what memory will lack once everything that is written is settled.

        :param states: all that are stored.
        :param rows: all state items that are stored.
        :param told: the agents that :meth:`stops` has returned.
        """
        # First what is on its way, and then what is there: what arrives between the two is in both.
        coming = self._coming()
        differing = Differing()
        self._compare_states(differing, states, coming)
        for agent_id in told:
            differing.states.pop(agent_id, None)
        self._compare_items(differing, rows, coming)
        return differing

    def _coming(self) -> list[Submission]:
        return [entry for entries in tuple(self._unsettled) for entry in entries if isinstance(entry, Submission)]

    def _compare_states(
        self, differing: Differing, states: Mapping[str, StateRow], coming: Sequence[Submission]
    ) -> None:
        known = self._lifecycle.snapshot()
        for entry in coming:
            if entry.state is not None and entry.draft.event is not None:
                known[entry.draft.event.agent_id] = state_of_row(entry.state)
        for agent_id, row in states.items():
            if known.pop(agent_id, None) != state_of_row(row):
                differing.states[agent_id] = row
        differing.states.update(dict.fromkeys(known))

    def _compare_items(self, differing: Differing, rows: Sequence[ItemRow], coming: Sequence[Submission]) -> None:
        known = self._held.snapshot()
        ahead = {(row.kind, row.key): row for entry in coming for row in entry.held}
        now = self._now() * 1000
        for row in rows:
            items = known.get(row.kind)
            if items is None:
                continue
            item = items.pop(row.key, None)
            expected = ahead.pop((row.kind, row.key), None) if ahead else None
            if expected is not None:
                if expected != row:
                    self._differs(differing, row)
            elif item is None:
                # Expired items are not in memory, and are deleted from the store anyway.
                if row.expires_at is None or row.expires_at > now:
                    self._differs(differing, row)
            elif not item.is_stored_as(row):
                self._differs(differing, row)
        gone = {(kind, key): None for kind, items in known.items() for key in items}
        for place, row in ahead.items():
            if row.value is None:
                gone.pop(place, None)
            else:
                gone[place] = None
        differing.rows += [ItemRow(kind, key, b"", 0, None, None) for kind, key in gone]
        differing.items += [None] * len(gone)
        differing.rows.reverse()
        differing.items.reverse()

    def _differs(self, differing: Differing, row: ItemRow) -> None:
        assert row.value is not None
        differing.rows.append(row)
        differing.items.append(item_of(row, row.value, self._held.holding(row.kind)))

    # The reactor's side

    def steps(self, differing: Differing) -> Generator[None, None, None]:
        """Have it in force: what stops an agent before anything else."""
        for number, (agent_id, state) in enumerate(differing.states.items(), 1):
            self._lifecycle.apply(agent_id, state)
            if not number % AT_ONCE:
                yield
        rows, items = differing.rows, differing.items
        while rows:
            # Taken from the end, so that memory is freed step by step, and not all of it in one turn.
            row, item = rows.pop(), items.pop()
            try:
                self._held.apply((row,), (item,))
            except Exception:
                # A faulty row must not keep the others from being taken over.
                log.failure("what another process wrote cannot be followed: {kind} {key}", kind=row.kind, key=row.key)
            if not len(rows) % AT_ONCE:
                yield


class Door:
    """
    A door at which calls wait while state is taken over.

    :param later: the reactor's ``callLater``.
    """

    def __init__(self, later: Callable[..., object]) -> None:
        self._later = later
        self._waiting: deque[Deferred[None]] = deque()
        self._opening = False
        self.shut = False

    def close(self) -> None:
        """Let no call pass from now on."""
        self.shut, self._opening = True, False

    def open(self) -> None:
        """Let waiting calls pass in the order in which they came, some in each turn, and newcomers after them."""
        if self.shut and not self._opening:
            self._opening = True
            self._later(0, self._let_in)

    def wait_turn(self) -> Deferred[None]:
        """Return a Deferred that fires when it is the caller's turn to pass."""
        waiting: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    def _let_in(self) -> None:
        began = time.thread_time()
        while self._opening and self._waiting:
            self._waiting.popleft().callback(None)
            if time.thread_time() - began > TURN / 2:
                self._later(0, self._let_in)
                return
        if self._opening:
            self._opening = self.shut = False
