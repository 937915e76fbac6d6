"""What a group that is through changes in memory, in the reactor's thread, before anybody hears of its records."""

from __future__ import annotations

from collections.abc import Sequence

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.audit.writer import Entry, Submission


def take_effect(entries: Sequence[Entry], lifecycle: LifecycleTable, held: StateTable) -> None:
    """A group was committed: its transitions and its changed state items are in force."""
    for entry in entries:
        if entry.__class__ is not Submission:
            continue
        if entry.state is not None and entry.draft.event is not None:
            lifecycle.apply(entry.draft.event.agent_id, entry.state)
        if entry.admitted is not None:
            held.settle(entry.admitted)
        if entry.held:
            held.apply(entry.held)


def give_back(entries: Sequence[Entry], held: StateTable) -> None:
    """A group failed: the room that was made for its state items is free again."""
    for entry in entries:
        if isinstance(entry, Submission) and entry.admitted is not None:
            held.settle(entry.admitted)
