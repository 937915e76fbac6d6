"""The status document of an agent: core v08 section 6.3.7, companion section 12."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateTable
from agtphost.dispatch.sessions import ESCALATION
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IRecordStore
from agtphost.identity import envelope
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes

OBSERVE = "telemetry:query"
"""The scope by which an agent may see how many sessions another has."""

LOOKED_AT = 500
"""Records that are looked through for the last action; before these the agent only read."""

SESSION_SECONDS = 900.0
"""How long after its last request a session counts as active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change that an agent made."""

    method: str
    at: str
    """RFC 3339."""


class Actions:
    """
    The last action of each agent: its newest record with an Action-ID.

    What was looked through once is not looked through again: an agent that is
    asked about often, and does nothing, costs one record.
    """

    def __init__(self, records: IRecordStore) -> None:
        self._records = records
        self._known: dict[str, tuple[int, Action | None]] = {}

    async def last(self, agent_id: str) -> Action | None:
        """Return the agent's last action; None if its newest :data:`LOOKED_AT` records have none."""
        seen, known = self._known.get(agent_id, (0, None))
        newest, before, left = seen, None, LOOKED_AT
        while left > 0:
            page = await self._records.walk(agent_id, before, min(left, 50))
            for record in page:
                newest = max(newest, record.seq)
                if record.seq <= seen:
                    break
                action = _action_of(envelope.parse_unverified(record.format, record.signed))
                if action is not None:
                    self._known[agent_id] = newest, action
                    return action
            if not page or page[-1].seq <= max(seen, 1):
                break
            before, left = page[-1].seq, left - len(page)
        self._known[agent_id] = newest, known
        return known


def _action_of(payload: Mapping[str, Any]) -> Action | None:
    if "action_id" not in payload:
        return None
    return Action(method=str(payload.get("method", "")), at=str(payload.get("issued_at", "")))


class CountsSessions(Protocol):
    """A table of sessions that can count those of an agent."""

    def active(self, agent_id: str, seconds: float) -> int:
        """Return how many sessions of an agent were used within the last ``seconds``."""


class StatusDocuments:
    """
    Writes status documents.

    :param org_domain: for agents whose documents name none.
    :param now: the present time as RFC 3339 text.
    :param clock: seconds since the epoch.
    :param records: where the last action is looked up; None: it is left out.
    :param held: where escalations are; None: none are counted.
    :param sessions: counts them.
    :param authorization: who may see the number of sessions.
    """

    def __init__(
        self,
        org_domain: str,
        now: Callable[[], str],
        clock: Callable[[], float] = time.time,
        *,
        records: IRecordStore | None = None,
        held: StateTable | None = None,
        sessions: CountsSessions | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._org_domain = org_domain
        self._now = now
        self._clock = clock
        self._actions = None if records is None else Actions(records)
        self._held = held
        self._sessions = sessions
        self._authorization = authorization

    def write(
        self, agent: Agent, state: LifecycleState, context: BuiltInContext
    ) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Return an agent's present status, as far as the caller may see it."""
        if self._actions is None:
            return self._document(agent, state, context, None)
        return self._write_document(self._actions.last(agent.agent_id), agent, state, context)

    async def _write_document(
        self, looking: Awaitable[Action | None], agent: Agent, state: LifecycleState, context: BuiltInContext
    ) -> dict[str, Any]:
        return self._document(agent, state, context, await looking)

    def _document(
        self, agent: Agent, state: LifecycleState, context: BuiltInContext, action: Action | None
    ) -> dict[str, Any]:
        document: dict[str, Any] = {
            "document_type": "agtp-status",
            "canonical_id": agent.agent_id,
            "agent_label": agent.name,
            "org_domain": agent.document.get("org_domain") or self._org_domain,
            "lifecycle_state": state.status.value,
            "cert_status": certificate_status(agent, self._clock()),
            "last_action_method": None if action is None else action.method,
            "last_action_timestamp": None if action is None else action.at,
            "pending_escalations": self._pending(agent.agent_id),
            "generated_at": self._now(),
        }
        if self._sessions is not None and self._may_observe(agent, context):
            document["active_session_count"] = self._sessions.active(agent.agent_id, SESSION_SECONDS)
        return document

    def _pending(self, agent_id: str) -> int:
        if self._held is None:
            return 0
        return sum(1 for item in self._held.items_of(ESCALATION, agent_id) if item.brief["status"] == "pending")

    def _may_observe(self, agent: Agent, context: BuiltInContext) -> bool:
        """Operators, the agent's issuer, the agent itself, and agents that were given the scope (AGTP-158)."""
        if self._authorization is not None and self._authorization.manages(
            context, agent.agent_id, OperatorAction.READ
        ):
            return True
        caller = context.caller
        if caller is None or context.assurance < Assurance.CERTIFICATE:
            return False
        return caller.agent_id == agent.agent_id or not scopes.missing(context.scopes, [OBSERVE])


def certificate_status(agent: Agent, now: float) -> str:
    """Return the value of ``cert_status``: of the known certificate, else from the document, else ``none``."""
    if agent.certificate is not None:
        return agent.certificate.status(now)
    stated = agent.document.get("cert_status")
    return stated.lower() if isinstance(stated, str) and stated else "none"
