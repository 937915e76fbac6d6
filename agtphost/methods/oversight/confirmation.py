"""
CONFIRM: core v08 section 7.2.11.

The record of the answer is the signed attestation. What can be confirmed: an
escalation, by who may decide it (its own identifier, or its task's); a call
that waits for an approval, by who approves it; a notification, by its
recipient; a record by its Audit-ID, by the agents that it names or an operator;
and with the standard methods bookings, items and schedules
(:mod:`agtphost.methods.standard.confirmation_targets`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.sessions import ESCALATION
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization, fingerprint
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.deciders import decided_by, decision_details
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IRecordStore
from agtphost.identity import envelope
from agtphost.identity.canonical import canonical
from agtphost.methods.oversight.approvals import ApprovalDecisions, in_record
from agtphost.methods.oversight.escalation import ASKED_WITH, may_decide
from agtphost.methods.oversight.notification import NOTIFICATION, is_readable
from agtphost.vocabulary import times
from agtphost.vocabulary.display_names import CONFIRMED_AS
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

ATTESTATION = "attestation"
"""The kind of state item that a repeated CONFIRM is answered from."""

STATES = ("accepted", "rejected", "deferred")
CONFIRMED_ITEM = "confirmed_item"
"""The member of receipt and record that says which state of a booking, an item or a schedule was confirmed."""

PAYLOAD = 4_096
"""Octets of an agent's own attestation."""

REMEMBERED = 7 * 86_400


Confirmed: TypeAlias = tuple[Mapping[str, Any], tuple[Change, ...]]
"""What the receipt tells of a target, and what changes with it."""


class Confirmable(Protocol):
    """A further kind of target that CONFIRM accepts, where a host has it."""

    def __call__(
        self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]
    ) -> Confirmed | Awaitable[Confirmed | None] | None:
        """
        Return the receipt of a target, and the changes that come with it.

        :param said: ``actor``, ``status``, ``reason`` and ``attestation``; ``before``: the receipt of the same
            confirmation, where there was one.
        :return: None where it is not the caller's to confirm.
        :raises Refusal: 409 for what was confirmed before.
        """


@implementer(IBuiltInHandler)
class Confirmation:
    """
    The handler of CONFIRM.

    :param records: the store's reading side.
    :param approvals: decides about calls that wait for an approval.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        records: IRecordStore,
        authorization: Authorization,
        approvals: ApprovalDecisions,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._held = held
        self._records = records
        self._authorization = authorization
        self._approvals = approvals
        self._now = now
        self._further: list[Confirmable] = []
        self._recurring: list[tuple[Confirmable, Collection[str]]] = []

    def also(self, further: Confirmable, *, recurs: Collection[str] = ()) -> None:
        """
        Have something else asked about targets, before notifications and records.

        :param recurs: statuses of which a repeated confirmation can mean something new: it is asked again then, and
            the earlier receipt counts only where it returns None.
        """
        self._further.append(further)
        if recurs:
            self._recurring.append((further, recurs))

    async def handle(self, context: BuiltInContext) -> Answer:
        actor, given = self._authorization.actor(context), context.input
        target_id = parameters.target(given, "target_id")
        said = {
            "actor": actor,
            "target_id": target_id,
            "status": parameters.choice(given, "status", STATES),
            "reason": parameters.text(given, "reason"),
            "attestation": parameters.read_json(given, "attestation", PAYLOAD),
        }
        key = _attestation_id(said)
        known = self._held.get(ATTESTATION, key)
        receipt: Mapping[str, Any] = {
            "attestation_id": key,
            "target_id": target_id,
            "status": said["status"],
            "timestamp": times.stamp(self._now()),
            "confirmed_by": actor,
        }
        operator = self._authorization.operators.record_member(context.peer)
        if operator is not None:
            receipt = {**receipt, "operator": operator}
        elif person := self._authorization.person_name(context.peer):
            # The key alone tells readers of the record nothing once the name has another key.
            receipt = {**receipt, CONFIRMED_AS: person}
        if known is not None:
            recurring = [further for further, statuses in self._recurring if said["status"] in statuses]
            again = await self._find_confirmable(recurring, context, {**said, "before": known.value})
            if again is None:
                return _answer(known.value)
            told, changes = again
            # What was confirmed has changed since, so this is another attestation; the next repeat is compared with it.
            later = _attestation_id({**said, **told, "after": known.value["attestation_id"]})
            return self._attest(context, {**receipt, **told, "attestation_id": later}, *changes, key=key)
        approval = self._approvals.sought(context, target_id)
        if approval is not None:
            receipt, change = self._approvals.decide(approval, receipt, said)
            return self._attest(context, receipt, change, conflict=self._approvals.conflict_of(approval.key))
        escalation = self._escalation(context, target_id)
        if escalation is not None:
            receipt, change = self._decide(escalation, receipt, said)
            return self._attest(context, receipt, change, conflict=partial(self._find_decision, escalation.key))
        found = await self._find_confirmable(self._further, context, said)
        if found is not None:
            told, changes = found
            return self._attest(context, {**receipt, **told}, *changes)
        notification = self._notification(context, target_id)
        if notification is not None:
            change = acknowledge(notification, said["status"])
            return self._attest(context, {**receipt, "target": NOTIFICATION}, change)
        self._refuse_task(context, target_id)
        if is_audit_id(target_id):
            await self._require_party(context, target_id)
            return self._attest(context, {**receipt, "target": "record"})
        raise self._refuse_unknown(context)

    @staticmethod
    async def _find_confirmable(
        those: Sequence[Confirmable], context: BuiltInContext, said: Mapping[str, Any]
    ) -> Confirmed | None:
        """Return the confirmation of the first source that owns the target."""
        for each in those:
            answer = each(context, said["target_id"], said)
            found = await answer if isinstance(answer, Awaitable) else answer
            if found is not None:
                return found
        return None

    def _attest(
        self,
        context: BuiltInContext,
        receipt: Mapping[str, Any],
        *changes: Change,
        key: str = "",
        conflict: Callable[[], Refusal | None] | None = None,
    ) -> Answer:
        """
        Return the answer with the receipt, which is kept for repeats of the same call.

        :param key: what it is kept under; empty for its own identifier.
        :param conflict: see :attr:`agtphost.handlers.built_in.Answer.conflict`.
        """
        caller = self._authorization.find_caller(context)
        owner = "" if caller is None else caller.agent_id
        mine = Change(
            kind=ATTESTATION,
            key=key or receipt["attestation_id"],
            value=receipt,
            owner=owner,
            expires_at=int((self._now() + REMEMBERED) * 1000),
        )
        return replace(_answer(receipt, *changes, mine), conflict=conflict)

    # Escalations

    def _escalation(self, context: BuiltInContext, target_id: str) -> StateItem | None:
        """Find the escalation with an identifier, or the one that a task with it waits for."""
        item = self._held.get(ESCALATION, target_id)
        if item is None:
            waiting = [
                each
                for each in self._held.items_by(ESCALATION, "task_id", target_id)
                if each.brief["status"] == "pending" and may_decide(self._authorization, context, each)
            ]
            if len(waiting) > 1:
                raise Refusal(Reason.TARGET_AMBIGUOUS, details={"escalations": [each.key for each in waiting]})
            return waiting[0] if waiting else None
        if may_decide(self._authorization, context, item):
            return item
        raise _own_escalation(item) if self._is_own(context, item) else self._refuse_unknown(context)

    def _refuse_task(self, context: BuiltInContext, task_id: str) -> None:
        """
        Refuse a Task-ID whose escalations are all decided or the caller's own, as by the escalation's identifier.

        :raises Refusal: 409 to those who may decide, with the last decision; 403 to the agent that escalated.
        """
        items = list(self._held.items_by(ESCALATION, "task_id", task_id))
        decided = [item for item in items if may_decide(self._authorization, context, item)]
        if decided:
            # Stamps have seconds; of the decisions of one second, that of the latest escalation counts.
            raise _already_decided(max(reversed(decided), key=_decided_at))
        for item in items:
            if self._is_own(context, item):
                raise _own_escalation(item)

    def _is_own(self, context: BuiltInContext, item: StateItem) -> bool:
        """Return whether the caller escalated, as an agent or with the same key."""
        key = item.brief.get(ASKED_WITH)
        own = self._authorization.find_caller(context) is not None and context.owner == item.owner
        return own or bool(key and key == fingerprint(context.peer))

    def _decide(
        self, item: StateItem, receipt: Mapping[str, Any], said: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Change]:
        if item.value["status"] != "pending":
            raise _already_decided(item)
        final = said["status"] != "deferred"
        value = {
            **item.value,
            "status": said["status"] if final else "pending",
            "decision": {
                **{name: said[name] for name in ("status", "reason", "attestation")},
                "by": said["actor"],
                "at": receipt["timestamp"],
                "attestation_id": receipt["attestation_id"],
                **({"operator": receipt["operator"]} if "operator" in receipt else {}),
                **({"by_name": receipt[CONFIRMED_AS]} if CONFIRMED_AS in receipt else {}),
            },
        }
        change = Change(
            kind=ESCALATION,
            key=item.key,
            value=value,
            owner=item.owner,
            expires_at=int((self._now() + REMEMBERED) * 1000) if final else None,
            expected=item.version,
        )
        task = {
            "target": ESCALATION,
            "escalation_id": item.key,
            "task_id": value["task_id"],
            "task_paused": value["status"] != "accepted",
        }
        return {**receipt, **task}, change

    def _find_decision(self, key: str) -> Refusal | None:
        """Return the refusal where another caller decided an escalation at the same moment."""
        item = self._held.get(ESCALATION, key)
        return None if item is None or item.value["status"] == "pending" else _already_decided(item)

    # Other targets

    def _refuse_unknown(self, context: BuiltInContext) -> Refusal:
        """Return the refusal of a target that is not the caller's to confirm; a viewer learns which role it takes."""
        operators = self._authorization
        if operators.views(context) and not operators.may(context, OperatorAction.DECIDE):
            return operators.refuse(context, OperatorAction.DECIDE, "Only approvers decide about what others do.")
        return not_found(Reason.TARGET_UNKNOWN, parameter="target_id")

    def _notification(self, context: BuiltInContext, target_id: str) -> StateItem | None:
        item = self._held.get(NOTIFICATION, target_id)
        if item is None:
            return None
        if not is_readable(self._authorization, context, item):
            raise self._refuse_unknown(context)
        return item

    async def _require_party(self, context: BuiltInContext, audit_id: str) -> None:
        record = await self._records.record(audit_id)
        payload = {} if record is None else envelope.parse_unverified(record.format, record.signed)
        caller = self._authorization.find_caller(context)
        party = caller is not None and caller.agent_id in {payload.get("agent_id"), payload.get("caller_id")}
        # Only parties and operators may learn whether the record exists.
        if record is None or not (party or self._authorization.may(context, OperatorAction.DECIDE)):
            raise self._refuse_unknown(context)


def _decided_at(item: StateItem) -> str:
    return str((item.value["decision"] or {}).get("at", ""))


def _own_escalation(item: StateItem) -> Refusal:
    return Refusal(
        Reason.NOT_ENTITLED,
        "The agent that escalated cannot decide its own escalation.",
        status=Status.FORBIDDEN,
        remedy="Wait for its recipient.",
        details={"routed_to": item.value["routed_to"]},
    )


def _already_decided(item: StateItem) -> Refusal:
    decision = item.value["decision"] or {}
    return Refusal(
        Reason.ALREADY_DECIDED,
        f"The escalation is already decided{decided_by(decision)}.",
        details={
            "escalation_id": item.key,
            "escalation_status": item.value["status"],
            **decision_details(decision),
        },
    )


def acknowledge(item: StateItem, status: str) -> Change:
    """Return the change that removes a read notification from the inbox; its sender sees the status."""
    value = {**item.value, "content": None, "status": "acknowledged", "confirmed": status}
    if status == "deferred":
        value = {**item.value, "confirmed": status}
    return Change(
        kind=NOTIFICATION,
        key=item.key,
        value=value,
        owner=item.owner,
        expires_at=item.expires_at,
        expected=item.version,
    )


def _attestation_id(said: Mapping[str, Any]) -> str:
    """Return the identifier of an attestation: the same for the same words of the same caller about the same thing."""
    return f"att-{sha256(canonical(said)).hexdigest()[:32]}"


def _answer(receipt: Mapping[str, Any], *changes: Change) -> Answer:
    names = ("attestation_id", "target_id", "confirmed_by", CONFIRMED_AS)
    return Answer(
        result=dict(receipt),
        changes=changes,
        extra={
            **{name: receipt[name] for name in names if name in receipt},
            "confirmed": receipt["status"],
            **in_record(receipt),
            **({CONFIRMED_ITEM: receipt[CONFIRMED_ITEM]} if CONFIRMED_ITEM in receipt else {}),
        },
    )
