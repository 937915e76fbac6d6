"""
CANCEL: the end of something agreed, booked or granted (methods v01 section 5.5).

Each kind of thing that can be cancelled has a source, which finds it and returns what changes, who else is concerned,
and what was paid. The change and its notices are committed with the record of the call, so a
cancellation that did not happen has no notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.oversight import notification
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import CANCELLATION
from agtphost.vocabulary.reasons import Reason

REASON = 4_096
"""Octets of a structured reason."""

REMEMBERED = 7 * 86_400
"""Seconds for which the tombstone of something cancelled and removed is kept."""

REFUNDS = ("full", "partial", "none")
TOPIC = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Cancelling:
    """A thing that its owner cancels, with the changes that cancel it."""

    kind: str
    changes: tuple[Change, ...]
    parties: Sequence[str] = ()
    """Agent-IDs of who else is concerned."""

    paid: Any = None
    """What was paid for it; None where nothing was, as far as the host knows."""

    gone: bool = False
    """Whether its item is removed, so that a second CANCEL needs a tombstone."""

    said: Mapping[str, Any] = field(default_factory=dict)
    """What the receipt and the record tell of it besides."""


class Source(Protocol):
    """Finds one kind of thing that can be cancelled."""

    def __call__(self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        """
        Return the caller's own thing of that identifier.

        :param said: when and why it is cancelled, for the item that remains.
        :return: None where the caller has none.
        :raises Refusal: 409 for one that was cancelled before, or is done.
        """


def cancelled_before(target_id: str, state: str) -> Refusal:
    """409 for what cannot be cancelled any more."""
    return Refusal(
        Reason.ALREADY_CANCELLED,
        f"It is {state} already.",
        details={"target_id": target_id, "state": state},
    )


@implementer(IBuiltInHandler)
class Cancellation:
    """
    The handler of CANCEL.

    :param sources: what can be cancelled; the first that knows an identifier answers for it.
    :param now: seconds since the epoch.
    """

    kind = "built_in"

    def __init__(self, held: StateTable, sources: Sequence[Source], now: Callable[[], float]) -> None:
        self._held = held
        self._sources = sources
        self._now = now

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the CANCEL call.

        :raises Refusal: 404 where the caller has nothing of that identifier, 409, 422.
        """
        given, now = context.input, self._now()
        target_id = parameters.target(given, "target_id")
        reason = parameters.read_json(given, "reason", REASON)
        policy = parameters.choice(given, "refund_policy", REFUNDS, "none")
        moment = times.stamp(now)
        said = {"cancelled_at": moment, "reason": reason}
        if (before := self._held.get(CANCELLATION, target_id)) is not None and before.owner == context.owner:
            raise cancelled_before(target_id, "cancelled")
        found = next((each for source in self._sources if (each := source(context, target_id, said))), None)
        if found is None:
            raise not_found(
                Reason.TARGET_UNKNOWN,
                "The caller has nothing of that identifier that could be cancelled.",
                remedy="Send the identifier of a grant, a submission, a publication, a booking, a connection, an "
                "alert, a monitor, a workflow or an approval of your own.",
                parameter="target_id",
            )
        refund = _refund(policy, found.paid)
        notices, told = self._notices(context, target_id, found, said, now)
        shown = {"target_id": target_id, "kind": found.kind, "status": "cancelled", **said, **found.said}
        return Answer(
            result={**shown, "refund": refund, **told},
            changes=(*found.changes, *notices, *self._keep_tombstone(context, target_id, found, now)),
            extra={
                "cancelled": {
                    **{name: shown[name] for name in ("target_id", "kind")},
                    **({"notified": len(told["notified"])} if told else {}),
                }
            },
        )

    @staticmethod
    def _keep_tombstone(context: BuiltInContext, target_id: str, found: Cancelling, now: float) -> tuple[Change, ...]:
        """Return a tombstone where nothing else remains: a second CANCEL gets 409 and not 404."""
        if not found.gone:
            return ()
        value = {"target_id": target_id, "kind": found.kind}
        until = int((now + REMEMBERED) * 1000)
        return (Change(kind=CANCELLATION, key=target_id, value=value, owner=context.owner, expires_at=until),)

    def _notices(
        self, context: BuiltInContext, target_id: str, found: Cancelling, said: Mapping[str, Any], now: float
    ) -> tuple[list[Change], dict[str, Any]]:
        """Return notices to other parties if the caller wants them; name those whose inbox is full."""
        if context.input.get("notify_parties") is not True or context.caller is None:
            return [], {}
        sender = context.caller.agent_id
        notices, notified, missed = [], [], []
        for party in dict.fromkeys(each for each in found.parties if each and each != sender):
            content = {"event_type": TOPIC, "target_id": target_id, "kind": found.kind, **said}
            notice = notification.deposit(
                self._held, recipient=party, sender=sender, topic=TOPIC, content=content, now=now
            )
            if notice is None:
                missed.append(party)
            else:
                notices.append(notice)
                notified.append(party)
        return notices, {"notified": notified, **({"not_notified": missed} if missed else {})}


def _refund(policy: str, paid: Any) -> dict[str, Any]:
    """Return the refund that is owed: the host states it, and moves no money."""
    if paid is None:
        return {"policy": policy, "due": None, "status": "nothing-paid"}
    if policy == "full":
        return {"policy": policy, "due": paid, "status": "due"}
    return {"policy": policy, "due": None, "status": "to-be-agreed" if policy == "partial" else "none"}
