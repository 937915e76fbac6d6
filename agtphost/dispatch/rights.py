"""
Which grants are in force, and of whom: of the configuration and of operators together.

Grants of operators are state items (:data:`agtphost.vocabulary.quotas.GRANT`). An agent that has any is narrowed, and
stays so until an operator says otherwise: one that has expired, or was taken back, grants nothing. What is durable
besides the grants is therefore one item for the agent itself, which names nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.grants import Grant, read_grant
from agtphost.contract.rights import GrantSet
from agtphost.vocabulary.quotas import GRANT


class Rights:
    """
    The grants that narrow agents.

    :param held: the state items, with the grants of operators.
    :param now: seconds since the Unix epoch.
    """

    def __init__(self, held: StateTable, now: Callable[[], float] = time.time) -> None:
        self._held = held
        self._now = now
        self._configured: Mapping[str, tuple[Grant, ...]] = {}
        self._narrowed: dict[str, tuple[float, GrantSet]] = {}
        self._known: set[str] = set()
        held.watch(GRANT, self._note_change)

    def configure(self, grants: Iterable[Grant]) -> None:
        """Replace the grants of the configuration."""
        found: dict[str, tuple[Grant, ...]] = {}
        for grant in grants:
            found[grant.agent_id] = (*found.get(grant.agent_id, ()), grant)
        self._configured = found
        self._narrowed.clear()

    def _note_change(self, key: str, item: StateItem | None) -> None:
        agent_id = key.partition(" ")[0]
        self._narrowed.pop(agent_id, None)
        if item is not None:
            self._known.add(agent_id)
        elif not any(self._held.items_of(GRANT, agent_id)):
            self._known.discard(agent_id)

    # Reading

    def is_narrowed(self, agent_id: str) -> bool:
        """Return whether an agent may call only what its grants name."""
        return agent_id in self._known or agent_id in self._configured

    def narrowing_of(self, agent_id: str) -> GrantSet | None:
        """Return what an agent may call at most; None where it is not narrowed."""
        if agent_id not in self._known and agent_id not in self._configured:
            return None
        kept, now = self._narrowed.get(agent_id), self._now()
        if kept is None or now >= kept[0]:
            grants = [grant for grant in self.grants(agent_id) if grant.in_force(now)]
            ends = min((grant.until for grant in grants if grant.until is not None), default=math.inf)
            kept = ends, GrantSet(agent_id, frozenset(grant.allow for grant in grants))
            self._narrowed[agent_id] = kept
        return kept[1]

    def list_narrowed(self) -> list[str]:
        """Return the Agent-IDs of all that have grants, or had."""
        return sorted({*self._known, *self._configured})

    def grants(self, agent_id: str) -> Iterator[Grant]:
        """Yield the grants of an agent, expired ones included: the configuration's first."""
        yield from self._configured.get(agent_id, ())
        for item in self._held.items_of(GRANT, agent_id):
            if item.value["allow"]:
                yield read_grant(item.value)

    # Changing

    def put(self, agent_id: str, grants: Iterable[Grant], label: str) -> Iterator[Change]:
        """Yield the changes that give an agent these grants, in place of those that name the same."""
        yield from self._mark_narrowed(agent_id, label)
        for grant in grants:
            value = {
                "agent_id": agent_id,
                "label": label,
                "allow": grant.allow,
                "until": grant.until,
                "by": grant.by,
                "at": grant.at,
                **({"operator": grant.operator} if grant.operator else {}),
            }
            yield self._change(agent_id, grant.allow, value)

    def take(self, agent_id: str, names: Iterable[str], label: str) -> Iterator[Change]:
        """Yield the changes that take grants back; the agent stays narrowed."""
        yield from self._mark_narrowed(agent_id, label)
        for name in names:
            yield self._change(agent_id, name, None)

    def release(self, agent_id: str) -> Iterator[Change]:
        """Yield the changes after which the agent is not narrowed by operators any more."""
        for item in self._held.items_of(GRANT, agent_id):
            yield self._change(agent_id, item.value["allow"], None)

    def _mark_narrowed(self, agent_id: str, label: str) -> Iterator[Change]:
        """Yield the change that marks the agent as narrowed; of two concurrent changes of its grants, one fails."""
        yield self._change(agent_id, "", {"agent_id": agent_id, "label": label, "allow": ""})

    def _change(self, agent_id: str, allow: str, value: Mapping[str, object] | None) -> Change:
        key = f"{agent_id} {allow}"
        known = self._held.get(GRANT, key)
        return Change(
            kind=GRANT,
            key=key,
            value=value,
            owner=agent_id,
            expected=0 if known is None else known.version,
            linked="" if value is None else "audit_id",
        )


Narrowings = Callable[[str], "GrantSet | None"]
"""What an agent may call at most at this moment."""
