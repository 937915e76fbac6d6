"""
ESCALATE, and ``QUERY /escalations``: core v08 sections 7.2.10 and 10.6.

An escalation is kept until it is decided, also over restarts, and
its task is suspended that long. Nothing about it is altered on the way, and
no escalation is ever evicted for another agent's. What an agent escalates
beyond what anybody can read is queued behind all that is not: it is kept, shown
last, and takes no room of the agent's owner. Only if the host cannot hold
more of an agent is the escalation refused (429).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.sessions import ESCALATION
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.addresses import MARK
from agtphost.handlers.authorization import DECIDE, OPERATOR, Authorization, fingerprint, holds, owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.methods.continuation import Continuations
from agtphost.methods.oversight import inbox_shares
from agtphost.methods.oversight.inbox_shares import is_little
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.own_address import NOWHERE, OwnAddress
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor

REASONS = ("confidence_threshold", "scope_limit", "ethical_flag", "ambiguous_instruction", "resource_unavailable")
PRIORITIES = ("urgent", "normal", "low")
STATES = ("pending", "accepted", "rejected")

DECIDED = "decided"
"""In ``status``: accepted and rejected escalations."""
CONTEXT = 16_384
"""Octets of what a recipient gets to read."""

OPEN_PER_AGENT = 500
"""Open escalations of one agent from which on further ones are queued."""

FLOOD = 100
"""Open escalations of one agent from which on further ones are marked as part of a flood."""

OPEN_PER_OWNER = 2_000
URGENT_PER_OWNER = 200
"""Open escalations of all agents of one owner, and further ones that are urgent."""

PAGE = 200

ASKED_WITH = "asked_with"
"""The member with the fingerprint of the key that it was escalated with, which no list shows."""


@implementer(IBuiltInHandler)
class Escalation:
    """
    Answers ESCALATE and ``QUERY /escalations``.

    :param states: the present lifecycle state of an agent.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        directory: IAgentDirectory,
        authorization: Authorization,
        offload: Executor,
        states: Callable[[Agent], LifecycleState],
        now: Callable[[], float] = time.time,
        continuations: Continuations | None = None,
        address: OwnAddress = NOWHERE,
    ) -> None:
        self._address = address
        self._continuations = continuations or Continuations(now=now)
        self._offload = offload
        self._states = states
        self._held = held
        self._directory = directory
        self._authorization = authorization
        self._now = now
        self._instants = times.Instants()

    def handle(self, context: BuiltInContext) -> Any:
        return self._list(context) if context.method == "QUERY" else self._escalate(context)

    # ESCALATE

    def _escalate(self, context: BuiltInContext) -> Answer:
        owner, agent_id, given = context.owner, owner_of(context).agent_id, context.input
        asked = self._read_request(given)
        recipient, routed_to = self._route(context, agent_id)
        escalation_id = f"esc-{sha256(canonical([owner, asked, routed_to])).hexdigest()[:32]}"
        known = self._held.get(ESCALATION, escalation_id)
        if known is not None:
            return Answer(status=Status.ACCEPTED, result=receipt(known.value))
        opened = sum(1 for item in self._held.items_of(ESCALATION, owner) if item.brief["status"] == "pending")
        whose = inbox_shares.share_of(owner_of(context))
        queued = opened >= OPEN_PER_AGENT
        if not queued:
            self._require_share(whose, asked["priority"])
        value = {
            "escalation_id": escalation_id,
            "escalated_by": agent_id,
            "owner_id": whose,
            **asked,
            "session_id": context.session_id,
            "message_task_id": context.task_id,
            ASKED_WITH: fingerprint(context.peer),
            "recipient": recipient,
            "routed_to": routed_to,
            "status": "pending",
            "flood": opened >= FLOOD,
            "queued": queued,
            "created_at": self._instants.stamp(self._now()),
            "decision": None,
        }
        change = Change(kind=ESCALATION, key=escalation_id, value=value, owner=owner, expected=0)
        return Answer(
            status=Status.ACCEPTED,
            result=receipt(value),
            changes=(change,),
            extra={"escalation_id": escalation_id, "escalated_task_id": value["task_id"], "routed_to": routed_to},
        )

    def _require_share(self, whose: str, priority: str) -> None:
        """Refuse an escalation beyond the share of its owner's agents; urgent ones have a reserve."""
        most = OPEN_PER_OWNER + (URGENT_PER_OWNER if priority == "urgent" else 0)
        if self._held.open_by(ESCALATION, "owner_id", whose) < most:
            return
        opened = sum(
            1
            for item in self._held.items_by(ESCALATION, "owner_id", whose)
            if item.brief["status"] == "pending" and not item.brief.get("queued")
        )
        if opened >= most:
            raise Refusal(
                Reason.OWNER_SHARE_USED,
                f"{most} escalations of this owner's agents already wait for a decision, so this one was refused.",
                remedy="Pause the task, and escalate again once some are decided.",
                details={"scope": "owner", "limit": most},
                headers=(("Retry-After", "60"),),
            )

    @staticmethod
    def _read_request(given: Mapping[str, Any]) -> dict[str, Any]:
        asked = {
            "task_id": parameters.identifier(given, "task_id"),
            "reason": parameters.choice(given, "reason", REASONS),
            "priority": parameters.choice(given, "priority", PRIORITIES, "normal"),
            "context": parameters.read_json(given, "context", CONTEXT),
            "deadline": given.get("deadline"),
        }
        parameters.moment(given, "deadline")
        if asked["context"] is None:
            raise parameters.invalid(
                "context",
                "The parameter context is missing.",
                "Send what the recipient needs to decide; it may be {}.",
                missing=True,
            )
        return asked

    def _route(self, context: BuiltInContext, owner: str) -> tuple[str, str]:
        """
        Return what the recipient is found by, empty for the operator, and who that is called in the receipt.

        :raises Refusal: 404 for a recipient that is unknown here or can see no escalation, 422 for the caller itself.
        """
        given = context.input
        if given.get("recipient") is None:
            return "", OPERATOR
        named = parameters.identifier(given, "recipient")
        # In this order, as NOTIFY: no name of a person takes the operator's mail, and no new agent a person's.
        if named == OPERATOR:
            return "", OPERATOR
        addresses = self._authorization.addresses
        if named in addresses.groups:
            if not any(self._reads(context, owner, member) for member in addresses.groups[named]):
                raise _unreachable(
                    f"No member of the group {named} can see an escalation of the caller.",
                    f"The operator names people, active agents or operator in [notify.groups] {named}.",
                )
            return f"{MARK}{named}", named
        if named in addresses.people:
            if not self._reads(context, owner, named):
                raise _own()
            return f"{MARK}{named}", named
        agent = self._agent(named)
        if agent is None:
            raise _unreachable(
                "The recipient is not an agent that this host knows, a person or group of [notify], or the operator.",
                "Leave recipient out to reach the operator, or have the operator name the person in [notify.people], "
                "with the fingerprint of a certificate's key.",
            )
        if agent.agent_id == owner:
            raise _own()
        if self._states(agent).is_stopped:
            raise _unreachable(
                f"The recipient is {self._states(agent).status.value}, and sees no escalation.",
                "Name another recipient, or leave recipient out to reach the operator.",
            )
        return agent.agent_id, named

    def _agent(self, named: str) -> Agent | None:
        label = self._address.agent_label(named)
        return self._directory.by_id(label) if is_agent_id(label) else self._directory.by_name(label)

    def _reads(self, context: BuiltInContext, owner: str, member: str) -> bool:
        """Return whether a person, or a member of a group, can see and decide what the caller escalates."""
        if member == OPERATOR:
            return True
        people = self._authorization.addresses.people
        if member in people:
            return people[member] != fingerprint(context.peer)
        agent = self._agent(member)
        return agent is not None and agent.agent_id != owner and not self._states(agent).is_stopped

    # QUERY /escalations

    def _list(self, context: BuiltInContext) -> Any:
        self._authorization.actor(context)
        given = context.input
        status = parameters.choice(given, "status", (*STATES, DECIDED, "all"), "all")
        wanted = {name: parameters.text(given, name) for name in ("escalation_id", "task_id")}
        limit = parameters.count(given, "limit", 50, PAGE)
        found = self._find_escalations(context, **wanted)

        def part() -> Answer:
            shown = [
                item
                for item in found
                if status in ("all", item.brief["status"])
                or (
                    (status == DECIDED and item.brief["status"] != "pending")
                    and all(text is None or _member(item, name) == text for name, text in wanted.items())
                )
            ]
            shown.sort(key=_place)
            part = self._continuations.part(context, shown, limit, _place)
            return Answer(
                result={"escalations": [self._describe(item) for item in part.items], "count": len(shown)},
                headers=part.headers,
            )

        return part() if is_little(self._held, ESCALATION) else self._offload(part)

    def _describe(self, item: StateItem) -> dict[str, Any]:
        """Return an escalation as lists show it: the name that its agent has today is no part of what is stored."""
        shown = {name: value for name, value in item.value.items() if name != ASKED_WITH}
        agent = self._directory.by_id(escalated_by(item))
        return {**shown, "agent_label": agent.display_name} if agent is not None else shown

    def _find_escalations(
        self, context: BuiltInContext, escalation_id: str | None, task_id: str | None
    ) -> Iterator[StateItem]:
        """Yield current escalations that the caller may see: its own, and those it may decide. Looks agent by agent."""
        if escalation_id or task_id:
            named = self._held.get(ESCALATION, escalation_id) if escalation_id else None
            some = (named,) if named else self._held.items_by(ESCALATION, "task_id", task_id) if task_id else ()
            return (item for item in some if self._visible(context, item))
        caller = self._authorization.find_caller(context)
        seen = {
            owner
            for owner in self._held.owners(ESCALATION)
            if (caller is not None and context.owner == owner) or self._manages(context, owner)
        }
        items = [self._held.items_of(ESCALATION, owner) for owner in seen]
        recipients = self._authorization.recipients(context)
        if caller is not None and holds(context, DECIDE):
            recipients |= {""}
        others = [self._held.items_by(ESCALATION, "recipient", recipient) for recipient in recipients]
        more = (item for item in chain(*others) if item.owner not in seen and not self._is_own(context, item))
        return chain(*items, more)

    def _manages(self, context: BuiltInContext, owner: str) -> bool:
        """Return whether the caller manages the agent in whose name an owner escalated."""
        first = next(iter(self._held.items_of(ESCALATION, owner)), None)
        return first is not None and self._authorization.manages(context, escalated_by(first), OperatorAction.DECIDE)

    def _visible(self, context: BuiltInContext, item: StateItem) -> bool:
        own = self._authorization.find_caller(context) is not None and context.owner == item.owner
        return own or may_decide(self._authorization, context, item)

    def _is_own(self, context: BuiltInContext, item: StateItem) -> bool:
        return self._authorization.is_party(context, (escalated_by(item),), item.brief.get(ASKED_WITH, ""))


def escalated_by(item: StateItem) -> str:
    """Return the Agent-ID of the escalating agent; the item's owner has another name where no certificate proved it."""
    return str(item.brief.get("escalated_by", item.owner))


def may_decide(authorization: Authorization, context: BuiltInContext, item: StateItem) -> bool:
    """Return whether the caller may decide an escalation."""
    brief = item.brief
    return authorization.decides(context, escalated_by(item), brief["recipient"], brief.get(ASKED_WITH, ""))


def _own() -> Refusal:
    return parameters.invalid("recipient", "An agent cannot decide its own escalations.", "Name another recipient.")


def _unreachable(explanation: str, remedy: str) -> Refusal:
    return Refusal(Reason.RECIPIENT_UNKNOWN, explanation, remedy=remedy, details={"parameter": "recipient"})


def _member(item: StateItem, name: str) -> Any:
    return item.key if name == "escalation_id" else item.brief[name]


def _place(item: StateItem) -> list[Any]:
    """Return the sort key of an escalation: those of a flood after all others (AGTP-314)."""
    brief = item.brief
    crowd = bool(brief["flood"]) + bool(brief.get("queued"))
    return [crowd, PRIORITIES.index(brief["priority"]), brief["created_at"], item.key]


def receipt(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt for the caller of ESCALATE."""
    pending = value["status"] == "pending"
    return {
        "escalation_id": value["escalation_id"],
        "task_id": value["task_id"],
        "routed_to": value["routed_to"],
        "status": "pending_review" if pending else value["status"],
        "task_paused": value["status"] != "accepted",
        "estimated_review_by": value["deadline"],
    }
