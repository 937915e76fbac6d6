"""What a MONITOR subscription looks at: the present state of its target, as names and values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.sessions import ESCALATION
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.methods.oversight.notification import NOTIFICATION
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.vocabulary.quotas import APPROVAL

LIFECYCLE, UPSTREAM, METRIC = "lifecycle", "upstream", "metric"
OWN: Final = {
    "escalation": (ESCALATION, "status"),
    "approval": (APPROVAL, "status"),
    "workflow": (workflow_items.WORKFLOW, "state"),
}
"""Events about what the subscriber itself has here: the kind of item, and the member that is its state."""

TRUST: Final = "trust_score"
"""An event, and the metric of the same name."""

EVENTS: Final = (LIFECYCLE, UPSTREAM, *OWN, TRUST, METRIC)

ENDED: Final = frozenset({"accepted", "rejected", "used", "finished", "failed", "cancelled", "expired"})
"""States after which nothing more happens to an item."""

COUNTS: Final = {
    "unread_notifications": (NOTIFICATION, "status", "held"),
    "open_escalations": (ESCALATION, "status", "pending"),
    "open_approvals": (APPROVAL, "status", "pending"),
    "running_workflows": (workflow_items.WORKFLOW, "state", workflow_items.RUNNING),
}
"""Metrics of the subscriber's own: how many items of a kind are in a state."""

METRICS: Final = (TRUST, *COUNTS)

MOST: Final = 300
"""Things that one subscription keeps in mind."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The sources of observed states."""

    held: StateTable
    directory: IAgentDirectory
    states: Callable[[Agent], LifecycleState]
    upstreams: Callable[[], Iterable[tuple[str, str]]]
    """Names of upstreams, with the state of each."""

    def read_states(self, monitor: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the current state of the target.

        :param seen: the state that its subscriber was last notified of; an ended target is read from it.
        """
        found: dict[str, Any] = {}
        for event in monitor["events"]:
            for name, state in self._states_of(event, monitor, seen):
                if len(found) < MOST:
                    found[f"{event}:{name}"] = state
        return found

    def _states_of(self, event: str, monitor: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        if event == LIFECYCLE:
            for agent_id in monitor["agents"]:
                agent = self.directory.by_id(agent_id)
                if agent is not None:
                    yield agent_id, self.states(agent).status.value
        elif event == UPSTREAM:
            yield from ((name, state) for name, state in self.upstreams() if name in about_of(monitor))
        elif event == TRUST:
            yield from self._trust(monitor)
        elif event == METRIC:
            yield from self._metric(monitor)
        else:
            kind, member = OWN[event]
            for item in self.held.items_of(kind, monitor["owner"]):
                state = item.brief.get(member)
                if self._concerns(item, monitor) and (state not in ENDED or f"{event}:{item.key}" in seen):
                    yield item.key, state

    @staticmethod
    def _concerns(item: StateItem, monitor: Mapping[str, Any]) -> bool:
        about = about_of(monitor)
        return "own" in about or item.key in about

    def _trust(self, monitor: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for agent_id in monitor["agents"]:
            agent = self.directory.by_id(agent_id)
            score = None if agent is None else trust_of(agent)
            if score is not None:
                yield agent_id, _compare_threshold(score, monitor["threshold"])

    def _metric(self, monitor: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        metric = monitor["metric"]
        if metric == TRUST:
            yield from self._trust(monitor)
            return
        kind, member, state = COUNTS[metric]
        count = sum(1 for item in self.held.items_of(kind, monitor["owner"]) if item.brief.get(member) == state)
        yield metric, _compare_threshold(count, monitor["threshold"])


def about_of(monitor: Mapping[str, Any]) -> Sequence[str]:
    """
    Return a subscription's targets besides agents: ``own``, an upstream's name, an item's key, or several of these.
    """
    about = monitor["about"]
    return (about,) if isinstance(about, str) else about


def trust_of(agent: Agent) -> float | None:
    """Return the trust score in an agent's Identity Document; None where it has none."""
    score = agent.document.get(TRUST) if agent.document else None
    return float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None


def _compare_threshold(value: float, threshold: Mapping[str, float] | None) -> Any:
    """Return the value; with a threshold, the side of it that the value is on."""
    if threshold is None:
        return value
    ((side, bound),) = threshold.items()
    beyond = value > bound if side == "above" else value < bound
    return {side: bound, "is": beyond}


def differences(seen: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the changes to report to a subscriber."""
    changed = []
    for name in dict.fromkeys((*seen, *now)):
        before, after = seen.get(name), now.get(name)
        if before == after:
            continue
        event, _, subject = name.partition(":")
        told = {"event": event, "subject": subject, "from": before, "to": after}
        changed.append({key: value for key, value in told.items() if value is not None})
    return changed


def drop_ended(now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states to keep: ended ones cannot change again."""
    return {name: state for name, state in now.items() if not (isinstance(state, str) and state in ENDED)}
