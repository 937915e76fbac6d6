"""
``QUERY /approvals``, and CONFIRM of an approval: calls that wait for a person, and what becomes of them.

Who decides is what ``[approvals] by`` says: operators, or agents with a scope. They see the call as it will be made,
but for what ``show`` leaves out; its caller sees the same, and never decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, takewhile
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.approvals import EXPIRED_REMEMBERED, LINKS, STATES, Approvals
from agtphost.dispatch.release import ACCEPTED, OPEN, REJECTED, USED_REMEMBERED
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.deciders import decided_by, decision_details
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.methods.continuation import Continuations
from agtphost.methods.oversight.inbox_shares import is_little
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import APPROVAL
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor

PAGE = 200
"""Approvals of one answer."""

CLOSED = "closed"
"""In ``state``: every approval that does not wait any more, because it was decided or has expired."""

MOST_SHOWN = 524_288
"""Octets of the approvals of one answer."""

SHOWN = (
    *("approval_id", "digest", "caller", "label", "assurance", "acting_principal", "delegation", "responder"),
    *("method", "path", "tool", "input", "beside", "fields", "hidden"),
    *("definition_digest", "description", "impact", "policy", "task_id", "session_id", "in_doubt"),
    *("requested_at", "expires_at", *LINKS),
)
"""Members of an approval that are shown as they are stored."""


@implementer(IBuiltInHandler)
class ApprovalDecisions:
    """
    Answers ``QUERY /approvals``, and decides for CONFIRM.

    :param approvals: which there are.
    :param directory: tells agents of one name apart.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        approvals: Approvals,
        authorization: Authorization,
        continuations: Continuations,
        offload: Executor,
        directory: IAgentDirectory,
    ) -> None:
        self._offload = offload
        self._directory = directory
        self._held = held
        self._approvals = approvals
        self._authorization = authorization
        self._continuations = continuations

    # QUERY /approvals

    def handle(self, context: BuiltInContext) -> Any:
        self._authorization.actor(context)
        given = context.input
        state = parameters.choice(given, "state", (*STATES, CLOSED, "all"), "all")
        approval_id = parameters.text(given, "id")
        limit = parameters.count(given, "limit", 50, PAGE)
        decides = self._authorization.approves(context, self._approvals.policy.by)
        found = self._find_approvals(context, decides, approval_id, parameters.text(given, "agent"))

        def part() -> Answer:
            listed = [item for item in found if _is_wanted(self._approvals.state(item), state)]
            listed.sort(key=_place)
            part = self._continuations.part(context, listed, min(limit, _fitting(listed)), _place)
            return Answer(
                result={
                    "approvals": [self._render_approval(item) for item in part.items],
                    "count": len(listed),
                    "decides": decides,
                },
                headers=part.headers,
            )

        return part() if is_little(self._held, APPROVAL) else self._offload(part)

    def _find_approvals(
        self, context: BuiltInContext, decides: bool, approval_id: str | None, agent: str | None
    ) -> Iterator[StateItem]:
        """Yield current approvals that the caller may see: its own, and all for a decider."""
        owner = context.owner
        items: Iterable[StateItem] = ()
        if approval_id is not None:
            named = self._held.get(APPROVAL, approval_id)
            items = () if named is None else (named,)
        else:
            owners = self._held.owners(APPROVAL) if decides else [owner] if owner else []
            items = chain(*[self._held.items_of(APPROVAL, each) for each in owners])
        return (
            item
            for item in items
            if (decides or (owner and owner == item.owner))
            and agent in (None, item.brief["caller"], item.brief["label"])
        )

    def _render_approval(self, item: StateItem) -> dict[str, Any]:
        value = item.value
        state = self._approvals.state(item)
        shown = {name: value[name] for name in SHOWN if value.get(name) not in (None, "", [], {}) or name == "input"}
        shown["state"] = state
        agent = self._directory.by_id(value["caller"])
        if agent is not None and agent.shared_name_digits:
            shown["label"] = agent.display_name
        decision = value["decision"]
        if decision is not None:
            shown.update(decided_by=decision["by"], decided_at=decision["at"], reason=decision["reason"])
            shown["attestation_id"] = decision["attestation_id"]
            if "operator" in decision:
                shown["operator"] = decision["operator"]
        if value["use_by"] is not None:
            shown["use_by"] = times.stamp(value["use_by"])
        if state == "used":
            shown["used_at"] = value["used_at"]
            shown["cut_off"] = self._approvals.cut_off(item)
        return shown

    # CONFIRM

    def sought(self, context: BuiltInContext, target_id: str) -> StateItem | None:
        """
        Return the approval that CONFIRM names; None if there is none that the caller may see.

        :raises Refusal: 403 where the call is the caller's own: to who surely is its caller, or approves calls.
        """
        item = self._held.get(APPROVAL, target_id)
        if item is None:
            return None
        approves = self._authorization.approves(context, self._approvals.policy.by)
        value = item.value
        if self._authorization.is_party(context, value["parties"], value["asked_with"]):
            if approves or self._is_surely_party(context, item):
                raise Refusal(Reason.OWN_APPROVAL, details={"approval_id": item.key})
            return None
        return item if approves else None

    def _is_surely_party(self, context: BuiltInContext, item: StateItem) -> bool:
        """Return whether a party is proven: a caller that merely names one sees no approval."""
        proven = item.value["parties"] if context.assurance is Assurance.CERTIFICATE else ()
        own = bool(context.owner) and context.owner == item.owner
        return own or self._authorization.is_party(context, proven, item.value["asked_with"])

    def conflict_of(self, key: str) -> Callable[[], Refusal | None]:
        """Return a function that returns the refusal where another caller decided an approval at the same moment."""

        def conflict() -> Refusal | None:
            item = self._held.get(APPROVAL, key)
            return None if item is None or item.value["status"] == OPEN else self._already_decided(item)

        return conflict

    def _already_decided(self, item: StateItem) -> Refusal:
        decision = item.value.get("decision") or {}
        return Refusal(
            Reason.ALREADY_DECIDED,
            f"The call is already decided{decided_by(decision)}.",
            remedy="agtp approvals show ID shows the decision, and who made it.",
            details={"approval_id": item.key, "state": self._approvals.state(item), **decision_details(decision)},
        )

    def decide(
        self, item: StateItem, receipt: Mapping[str, Any], said: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Change]:
        """
        Return the answer of CONFIRM, and the change of the approval.

        :raises Refusal: 408 where it has expired, 409 where it was decided on, 422 for ``deferred``.
        """
        value, now = item.value, self._approvals.now()
        state = self._approvals.state(item)
        if value["status"] != OPEN:
            raise self._already_decided(item)
        if state == "expired":
            raise Refusal(
                Reason.APPROVAL_EXPIRED,
                remedy="The caller has to call again, which requests a new approval.",
                details={"approval_id": item.key, "expires_at": value["expires_at"]},
            )
        if said["status"] not in (ACCEPTED, REJECTED):
            raise parameters.invalid(
                "status", "The decision about a call is to approve or to reject it.", f"Use {ACCEPTED} or {REJECTED}."
            )
        accepted = said["status"] == ACCEPTED
        use_by = now + self._approvals.policy.use_within if accepted else None
        decided = {
            **value,
            "status": said["status"],
            "use_by": use_by,
            "decision": {
                "reason": said["reason"] or "",
                "attestation": said["attestation"],
                "by": said["actor"],
                "at": receipt["timestamp"],
                "attestation_id": receipt["attestation_id"],
                **({"operator": receipt["operator"]} if "operator" in receipt else {}),
            },
        }
        until = now + USED_REMEMBERED if use_by is None else use_by + EXPIRED_REMEMBERED
        change = Change(
            kind=APPROVAL,
            key=item.key,
            value=decided,
            owner=item.owner,
            expires_at=int(until * 1000),
            expected=item.version,
            linked="decided_audit_id",
        )
        told = {
            "target": APPROVAL,
            "approval_id": item.key,
            "digest": value["digest"],
            "state": "approved" if accepted else "rejected",
            "proposed": value["proposed_audit_id"],
        }
        if use_by is not None:
            told["use_by"] = times.stamp(use_by)
        return {**receipt, **told}, change


def _is_wanted(state: str, wanted: str) -> bool:
    return wanted in ("all", state) or (wanted == CLOSED and state != "pending")


def _fitting(items: Sequence[StateItem]) -> int:
    """Return how many items fit into one answer in any order; at least one."""
    octets = accumulate(sorted((item.octets for item in items), reverse=True))
    return max(sum(1 for _ in takewhile(lambda so_far: so_far <= MOST_SHOWN, octets)), 1)


def _place(item: StateItem) -> list[Any]:
    """Return the sort key of an approval: oldest first."""
    return [item.brief["created"], item.key]


def in_record(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the decision's record about the call; empty for other targets of CONFIRM."""
    if receipt.get("target") != APPROVAL:
        return {}
    named = {"id": receipt["approval_id"], "digest": receipt["digest"], "state": receipt["state"]}
    return {"approval": {**named, "proposed": receipt["proposed"]}}
