"""The rights of one agent, and where each comes from: what QUERY on ``/grants`` with ``rights`` answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.audit.lifecycle import LifecycleState
from agtphost.contract.grant_check import Grantable
from agtphost.dispatch.rights import Rights
from agtphost.dispatch.scope_records import ScopeRecords, given_scopes
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes, times

MOST_LISTED = 500
"""Callable things that an answer lists; ``may_call_count`` has the number of all."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds on the calls of all agents besides their rights, as the configuration has them."""

    requests_per_minute: int
    dimensions: tuple[Mapping[str, Any], ...] = ()
    """``[[policies.scope_dimensions]]``."""

    known_scopes: Callable[[], frozenset[str]] = frozenset
    """Returns the scopes that the host's own methods and the configuration name."""


class AgentRights:
    """
    Tells what one agent may do here, and why.

    :param grantable: what can be called.
    :param rights: the grants.
    :param records: the scope statements on record.
    :param states: the present lifecycle state of an agent.
    :param bounds: see :class:`Bounds`.
    """

    def __init__(
        self,
        grantable: Grantable,
        rights: Rights,
        records: ScopeRecords,
        states: Callable[[Agent], LifecycleState],
        bounds: Bounds,
        now: Callable[[], float],
    ) -> None:
        self._grantable = grantable
        self._rights = rights
        self._records = records
        self._states = states
        self._bounds = bounds
        self._now = now

    def describe(self, agent: Agent) -> dict[str, Any]:
        """Return the rights of an agent as JSON members."""
        state = self._states(agent)
        callable_now = self.callable_now(agent)
        certificate = agent.certificate
        return {
            "state": {"status": state.status.value, "since": state.since, "reason": state.reason},
            "assurance": (Assurance.HEADER if agent.genesis is None else Assurance.CERTIFICATE).label,
            "certificate_ends": None if certificate is None else times.stamp(certificate.valid_to),
            "trust_tier": agent.posture.trust_tier,
            "scopes": list(self._scopes(agent)),
            "scope_statement": self.statement(agent),
            "budget": {
                "requests_per_minute": self._bounds.requests_per_minute,
                "scope_dimensions": [dict(each) for each in self._bounds.dimensions],
            },
            "may_call": callable_now[:MOST_LISTED],
            "may_call_count": len(callable_now),
            "unlisted_servers": self._grantable.find_unlisted(),
        }

    def statement(self, agent: Agent) -> dict[str, Any] | None:
        """Return the scope statement on record; None if there is none."""
        return describe_statement(self._records, agent)

    def callable_now(self, agent: Agent) -> list[str]:
        """Return what an agent may call now, as grants name it."""
        return self._grantable.callable_with(agent.scopes, self._rights.narrowing_of(agent.agent_id))

    def needed_scopes(self, named: Iterable[str]) -> list[str]:
        """Return the scopes that what is named asks for, sorted."""
        return sorted({scope for each in self._grantable.find(named) for scope in each.required_scopes})

    def missing_scopes(self, agent: Agent, named: Iterable[str]) -> list[str]:
        """Return those of the scopes that what is named asks for which an agent lacks."""
        return list(scopes.missing(agent.scopes, self.needed_scopes(named)))

    def find_unasked(self, tokens: Iterable[str]) -> list[dict[str, Any]]:
        """Return those of some scopes that nothing here asks for, each with the nearest ones that something does."""
        known = self._grantable.asked_scopes() | self._bounds.known_scopes()
        return [
            {"scope": token, "nearest": scopes.nearest(token, known)}
            for token in tokens
            if not scopes.is_asked(token, known)
        ]

    def _scopes(self, agent: Agent) -> Iterable[dict[str, Any]]:
        found = self._records.find(agent.agent_id)
        given = {} if found is None else given_scopes(found)
        for token in sorted(agent.scopes):
            entry = {"scope": token, "from": "document", "beyond_genesis": _is_beyond(agent, token)}
            if token in given:
                entry.update(given[token])
                entry["from"] = "statement"
            yield entry


def _is_beyond(agent: Agent, token: str) -> bool:
    genesis = agent.genesis
    return genesis is not None and "scope" in genesis.members and not scopes.covers(genesis.scopes, token)


def describe_statement(records: ScopeRecords, agent: Agent) -> dict[str, Any] | None:
    """Return the scope statement of an agent on record, as answers show it; None if there is none."""
    found = records.find(agent.agent_id)
    if found is None:
        return None
    genesis = agent.genesis
    beyond = () if genesis is None else scopes.missing(genesis.scopes, found["scopes"])
    shown = {name: found.get(name) for name in ("number", "scopes", "statement", "by", "operator", "at", "audit_id")}
    return {**shown, "beyond_genesis": list(beyond)}
