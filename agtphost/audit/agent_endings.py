"""The state items that change in the transaction that stops their agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agtphost.audit.drafts import Change, Draft
from agtphost.audit.lifecycle import state_after, stops

Ending = Callable[[str], Sequence[Change]]
"""Called with the Agent-ID when an event that stops the agent is submitted; returns the changes."""


class AgentEndings:
    """The endings that a ledger adds to events."""

    def __init__(self) -> None:
        self._endings: list[Ending] = []

    def add(self, ending: Ending) -> None:
        """Ask one more for changes."""
        self._endings.append(ending)

    def extend(self, draft: Draft) -> None:
        """Add the changes to a draft whose event stops an agent; they replace changes of the same items."""
        event = draft.event
        if event is None or not self._endings or not stops(state_after(event, "")):
            return
        ended = {(change.kind, change.key): change for each in self._endings for change in each(event.agent_id)}
        others = (change for change in draft.changes if (change.kind, change.key) not in ended)
        draft.changes = (*others, *ended.values())
