"""
Calls that a person approves: what an approval is bound to, and the one call that it releases.

Theory of operation. An approval is a state item of the kind ``approval``, found by a digest of everything that makes
the call what it is: caller, target, input, definition, policy. Who calls without one is answered 202, and the item that
waits is made durable with that very record. Once it is decided on, the same call finds it by its digest, marks it as
running, durably and in the version that was approved, and only then is its handler called; the answer's record marks it
as used. So only one of two concurrent calls runs, and after a crash in the middle of a call the approval counts as
used, because the effect of the call is unknown.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.config.approvals import ApprovalsSection
from agtphost.dispatch.approved_calls import LONGEST, call_document, digest_of, shown_of
from agtphost.dispatch.decision_records import DecisionRecords
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.release import ACCEPTED, OPEN, REJECTED, RUNNING, Release
from agtphost.dispatch.trial_calls import refuse_held_trial
from agtphost.errors import Refusal
from agtphost.vocabulary import times
from agtphost.vocabulary.jsonslices import HEAVY, weight
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.quotas import APPROVAL
from agtphost.vocabulary.reasons import Reason

OPEN_PER_AGENT = 100
"""Calls of one agent that may wait for a decision."""

EXPIRED_REMEMBERED = 3_600
"""Seconds for which an expired approval is still listed."""

MOST_COMING = 1_000
"""Approvals on their way to the store."""

POLL = 5
"""Seconds after which to repeat a call that waits."""

STATES = ("pending", "approved", "rejected", "expired", "used")


class AwaitsApproval(Refusal):
    """A refusal with 202: the call waits for a person's approval."""

    def __init__(self, value: Mapping[str, Any], explanation: str, changes: tuple[Change, ...] = ()) -> None:
        self.approval_id = str(value["approval_id"])
        self.until = float(value["until"])
        self.shown = {name: value[name] for name in ("approval_id", "expires_at", "digest")}
        said = {"id": self.approval_id, "digest": value["digest"], "state": OPEN, "expires_at": value["expires_at"]}
        super().__init__(
            Reason.APPROVAL_REQUIRED,
            explanation,
            details=self.shown,
            headers=(("Retry-After", str(POLL)),),
            changes=changes,
            extra={"approval": said} if changes else {},
        )

    def as_durable(self) -> AwaitsApproval:
        """Return the same refusal without changes, for when the approval is durable."""
        return AwaitsApproval({**self.shown, "until": self.until}, self.explanation)


def _waits(exchange: Exchange) -> str:
    """Return the sentence that a call is held, with the reason of its binding."""
    why = "" if exchange.binding is None else exchange.binding.why_approved
    return f"The call waits until a person approves it. {why}".rstrip()


def patience(exchange: Exchange) -> float:
    """
    Seconds for which a caller waits for a person: none unless it asked for a stream.

    ``context.approval_wait`` bounds it; who says nothing there waits as long as the approval can be decided on.
    """
    context = exchange.context
    given = context.get("approval_wait", math.inf)
    if context.get("stream") is not True:
        return 0.0
    return max(float(given), 0.0) if type(given) in (int, float) else math.inf


class WaitsEnded(Exception):
    """The host stops, so no call waits for a person any more."""


class Unlisted(Refusal):
    """A refusal with 503: the upstream has not listed the called thing, so that no approval can be bound to it."""

    def __init__(self, find_out: Callable[[], Awaitable[None]]) -> None:
        self.find_out = find_out
        super().__init__(
            Reason.TOOLS_NOT_LISTED,
            "The call needs an approval, and its upstream has not listed the called thing yet.",
            remedy="Try again.",
            headers=(("Retry-After", "1"),),
        )


class Approvals:
    """
    The approvals of calls: which calls wait, and which may pass.

    :param held: the state items.
    :param policy: ``[approvals]``.
    :param now: seconds since the Unix epoch.
    :param offload: calls a function off the reactor; None: digests of large inputs are computed in the reactor.
    """

    def __init__(
        self,
        held: StateTable,
        policy: ApprovalsSection,
        now: Callable[[], float] = time.time,
        offload: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self._held = held
        self._offload = offload
        self.policy = policy
        self.now = now
        self.decisions: DecisionRecords | None = None
        """What an approval that is used is held against; None where nothing is signed."""

        self._running: set[str] = set()
        self._coming: OrderedDict[str, str] = OrderedDict()
        self._waiting: dict[str, list[Deferred[None]]] = {}
        self._has_ended = False
        held.watch(APPROVAL, self._note_change)

    # What the gate asks

    def require(self, exchange: Exchange) -> Awaitable[None] | None:
        """
        Let a call pass that is approved; :attr:`Exchange.approval` then has the approval, which its record uses up.

        :return: to be waited for where the input is much.
        :raises Refusal: 202 while it waits, 403 where it was rejected, 409 while it runs, 429 where too many wait.
        """
        refuse_held_trial(exchange)
        approved, binding = exchange.peer.approved, exchange.binding
        # The recipe's definition does not cover what EXECUTE calls: that needs a separate approval.
        if approved and binding is not None and binding.definition:
            exchange.approval = Release(approval_id=approved, running=self._running, now=self.now)
            return None
        document = self._document(exchange)
        if self._offload is not None and weight(exchange.input) > HEAVY:
            return self._require_much(exchange, document, self._offload)
        self._judge(exchange, document, digest_of(document))
        return None

    async def _require_much(
        self, exchange: Exchange, document: Mapping[str, Any], offload: Callable[..., Awaitable[Any]]
    ) -> None:
        digest = await offload(digest_of, document)
        if self._latest(digest) is None:
            # It is to be shown to a person, and what is too much for one takes as long to be found.
            await offload(shown_of, exchange, document, self.policy)
        self._judge(exchange, document, digest)

    def _judge(self, exchange: Exchange, document: Mapping[str, Any], digest: str) -> None:
        item = self._latest(digest)
        if item is None:
            raise self._propose(exchange, document, digest)
        value, now = item.value, self.now()
        state = self.state(item)
        if state == "pending":
            raise AwaitsApproval(value, _waits(exchange))
        if state == "rejected" and value["until"] > now:
            raise Refusal(
                Reason.APPROVAL_REJECTED,
                details={
                    **_details_of(value),
                    "decided_at": value["decision"]["at"],
                    "said": value["decision"]["reason"],
                },
            )
        if state == "approved":
            exchange.approval = Release(
                approval_id=item.key,
                running=self._running,
                now=self.now,
                item=item,
                key=_key_of(exchange),
                decisions=self.decisions,
            )
            return
        if state == "used":
            self._handle_used(exchange, item, document, digest)
            return
        raise self._propose(exchange, document, digest)

    def _handle_used(self, exchange: Exchange, item: StateItem, document: Mapping[str, Any], digest: str) -> None:
        """
        Let a repeat with the same Idempotency-Key pass to its stored answer; for other calls, propose a new approval.
        """
        value = item.value
        if value["status"] == RUNNING and item.key in self._running:
            raise Refusal(Reason.APPROVAL_IN_USE, details=_details_of(value), headers=(("Retry-After", "1"),))
        if value.get("key") and value["key"] == _key_of(exchange):
            return
        doubt = item.key if value["status"] == RUNNING else ""
        raise self._propose(exchange, document, digest, doubt)

    def _document(self, exchange: Exchange) -> Mapping[str, Any]:
        binding = exchange.binding
        if binding is not None and binding.unknown is not None:
            raise Unlisted(binding.unknown)
        if exchange.caller is None:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                "The call needs an approval, but the request does not name the calling agent.",
            )
        if len(exchange.request.body) > LONGEST:
            raise Refusal(Reason.TOO_LONG_TO_SHOW, details={"limit": LONGEST, "unit": "octets"})
        return call_document(exchange, self.policy)

    def _latest(self, digest: str) -> StateItem | None:
        found = self._held.items_by(APPROVAL, "digest", digest)
        return max(found, key=lambda item: float(item.brief["created"]), default=None)

    def _propose(self, exchange: Exchange, document: Mapping[str, Any], digest: str, doubt: str = "") -> Refusal:
        owner = exchange.owner
        self._require_room(owner)
        now = self.now()
        # Two concurrent calls ask for one approval: the store takes the first.
        approval_id = self._coming.get(digest) or keep(
            self._coming, digest, f"apr-{secrets.token_hex(16)}", MOST_COMING
        )
        until = now + self.policy.ttl
        value = {
            "approval_id": approval_id,
            "owner": owner,
            "digest": digest,
            **shown_of(exchange, document, self.policy),
            "in_doubt": doubt,
            "created": now,
            "requested_at": times.stamp(now),
            "until": until,
            "expires_at": times.stamp(until),
            "status": OPEN,
            "decision": None,
            "use_by": None,
            "used_at": None,
            "key": "",
            **dict.fromkeys(LINKS, ""),
        }
        change = Change(
            kind=APPROVAL,
            key=approval_id,
            value=value,
            owner=owner,
            expires_at=int((until + EXPIRED_REMEMBERED) * 1000),
            expected=0,
            linked="proposed_audit_id",
        )
        said = _waits(exchange)
        if doubt:
            said = f"The call was approved as {doubt} and cut off: whether it took effect is in doubt. {said}"
        return AwaitsApproval(value, said, (change,))

    def _require_room(self, owner: str) -> None:
        opened = sum(1 for item in self._held.items_of(APPROVAL, owner) if self.state(item) == "pending")
        if opened >= OPEN_PER_AGENT:
            raise Refusal(
                Reason.TOO_MANY_APPROVALS,
                f"{OPEN_PER_AGENT} calls of this agent wait for an approval.",
                details={"scope": "agent", "limit": OPEN_PER_AGENT},
                headers=(("Retry-After", "60"),),
            )

    def find_concurrent(self, exchange: Exchange) -> Refusal | None:
        """
        Return the refusal of a concurrent call that has asked for the same approval, so that both wait for it;
        otherwise None.
        """
        try:
            document = self._document(exchange)
            self._judge(exchange, document, digest_of(document))
        except AwaitsApproval as held:
            return None if held.changes else held
        except Refusal:
            return None
        return None

    # What the dispatcher does

    def wait_decision(self, approval_id: str) -> Deferred[None]:
        """
        Return a Deferred that fires once the approval is not pending any more: it was decided, or is gone.

        It fails with :class:`WaitsEnded` if the host stops.
        """
        waiting: Deferred[None] = Deferred(lambda _: self._stop_waiting(approval_id, waiting))
        item = self._held.get(APPROVAL, approval_id)
        if self._has_ended:
            waiting.errback(WaitsEnded())
        elif item is None or item.brief["status"] != OPEN:
            waiting.callback(None)
        else:
            self._waiting.setdefault(approval_id, []).append(waiting)
        return waiting

    def end_waits(self) -> None:
        """End all waits for decisions, as the host stops; the approvals stay, and a repeated call finds its own."""
        self._has_ended = True
        for waiting in [each for several in self._waiting.values() for each in several]:
            waiting.errback(WaitsEnded())
        self._waiting.clear()

    def _stop_waiting(self, approval_id: str, waiting: Deferred[None]) -> None:
        others = self._waiting.get(approval_id, [])
        if waiting in others:
            others.remove(waiting)
        if not others:
            self._waiting.pop(approval_id, None)

    def _note_change(self, key: str, item: StateItem | None) -> None:
        if item is not None:
            self._coming.pop(str(item.brief["digest"]), None)
        if item is None or item.brief["status"] != OPEN:
            for waiting in self._waiting.pop(key, ()):
                waiting.callback(None)

    # What callers and approvers see

    def state(self, item: StateItem) -> str:
        """Return the state of an approval: one of :data:`STATES`."""
        brief, now = item.brief, self.now()
        status = brief["status"]
        if status == OPEN:
            return "pending" if float(brief["until"]) > now else "expired"
        if status == ACCEPTED:
            return "approved" if float(brief["use_by"]) > now else "expired"
        return "rejected" if status == REJECTED else "used"

    def withdrawal_change(self, item: StateItem, moment: str) -> Change:
        """Return the change by which the caller withdraws an approval; it cannot be approved any more."""
        value = item.value
        decision = {"by": value["caller"], "at": moment, "reason": "withdrawn", "attestation": None}
        return Change(
            kind=APPROVAL,
            key=item.key,
            value={**value, "status": REJECTED, "decision": {**decision, "attestation_id": ""}},
            owner=item.owner,
            expires_at=int((self.now() + EXPIRED_REMEMBERED) * 1000),
            expected=item.version,
            linked="decided_audit_id",
        )

    def cut_off(self, item: StateItem) -> bool:
        """Return whether an approved call was interrupted by the end of its process."""
        return item.brief["status"] == RUNNING and item.key not in self._running


LINKS = ("proposed_audit_id", "decided_audit_id", "reserved_audit_id", "executed_audit_id")
"""Members that name the records of an approval's life, each from its own commit on."""


def _details_of(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"approval_id": value["approval_id"], "digest": value["digest"]}


def _key_of(exchange: Exchange) -> str:
    """Return the hash of the call's Idempotency-Key, if it is used (:mod:`agtphost.dispatch.gates.idempotency`)."""
    key, binding = exchange.idempotency_key, exchange.binding
    counts = binding is not None and binding.state_changing and not binding.server_level
    return "" if key is None or not counts else sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
