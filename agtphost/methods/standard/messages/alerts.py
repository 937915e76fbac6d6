"""
ALERT: a message that must be acknowledged in time (methods v01 section 7.1).

Theory of operation. An alert is a state item in addition to its notifications. Confirming one of these, or the alert
itself, acknowledges it in the same transaction. Without an acknowledgement by ``acknowledge_by``, the next recipient of
``escalation_path`` is notified and has as much time, until the path ends; then the sender is notified that the alert
was not acknowledged. Times are durable: those that passed while the host was down are handled when it is up again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.state import StateItem
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import OPERATOR, owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.methods.oversight.confirmation import acknowledge
from agtphost.methods.oversight.notification import CONTENT, LONGEST, NOTIFICATION
from agtphost.methods.standard.cancellation import Cancelling, cancelled_before
from agtphost.methods.standard.messages.delivery import Delivered, deliver, prepare_changes
from agtphost.methods.standard.scheduler import Due
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.bounds import stored_octets
from agtphost.vocabulary.quotas import ALERT
from agtphost.vocabulary.reasons import Reason

TOPIC = "alert"
ESCALATED, UNACKNOWLEDGED = "alert-escalated", "alert-unacknowledged"
"""Signed events of the host's chain."""

SEVERITIES = {"critical": "critical", "high": "critical", "warning": "informational"}
"""Each with its urgency as a notification."""

WAITING, SENT, CANCELLED = "waiting", "sent", "cancelled"
MOST_STEPS = 8
NOTICE = 1_500
"""Octets of a notification besides its message, and of the record of an escalation."""

REMEMBERED = 7 * 86_400
"""Seconds for which the outcome of an alert is kept."""


@implementer(IBuiltInHandler)
class Alerting:
    """Answers ALERT, and keeps the time of all alerts."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts
        parts.confirmation.also(self.confirm)
        Due(parts, ALERT, _due, self._late)

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the ALERT call.

        :raises Refusal: 404 for an unknown recipient, 422, 429 where no inbox takes it.
        """
        sender, given, now = owner_of(context).agent_id, context.input, self._parts.now()
        severity = parameters.choice(given, "severity", tuple(SEVERITIES))
        message = parameters.read_json(given, "message", CONTENT - 1_024)
        if message is None:
            raise parameters.invalid("message", "The parameter message is missing.", "Send message.", missing=True)
        recipient = parameters.identifier(given, "recipient")
        path, later = self._path(given)
        due = _deadline(given, path, now)
        value = {
            "alert_id": f"alert-{secrets.token_hex(16)}",
            "sender": sender,
            "severity": severity,
            "message": message,
            "recipient": recipient,
            "path": path,
            "step": 0,
            "seconds": None if due is None else due - now,
            "due": due,
            "state": SENT if due is None else WAITING,
            "told": [],
            "sent_at": times.stamp(now),
            "task_id": context.task_id,
        }
        delivered = self._deliver_step(value, recipient)
        if not delivered.changes:
            raise Refusal(Reason.INBOX_FULL, headers=(("Retry-After", "60"),))
        if path:
            copy = stored_octets(len(jsontext.encode(message)) + NOTICE)
            context.invocation.charge_later(later * copy + len(path) * NOTICE)
        value["told"] = delivered.notification_ids
        shown = {name: value[name] for name in ("alert_id", "severity", "state", "sent_at")}
        shown["acknowledge_by"] = given.get("acknowledge_by")
        return Answer(
            result={**shown, "delivered": len(delivered.reached), "notification_ids": delivered.notification_ids},
            changes=await prepare_changes(self._parts, (*delivered.changes, self._put_alert(value, context.owner, 0))),
            extra={"alert": {**shown, "notification_ids": delivered.notification_ids[:16]}},
        )

    def _path(self, given: Mapping[str, Any]) -> tuple[list[str], int]:
        """
        Read the escalation path: recipients that this host knows.

        :return: the recipients, and how many inboxes they have together.
        """
        value = given.get("escalation_path") or []
        listed = [value] if isinstance(value, str) else value
        if len(listed) > MOST_STEPS or not all(isinstance(each, str) for each in listed):
            raise parameters.invalid(
                "escalation_path",
                f"escalation_path is not a list of at most {MOST_STEPS} recipients.",
                "Name recipients.",
            )
        inboxes = 0
        for each in listed:
            try:
                inboxes += len(self._parts.notification.inboxes(each))
            except Refusal:
                raise parameters.invalid(
                    "escalation_path",
                    f"{each[:64]} of escalation_path is not a recipient that this host knows.",
                    "Name others.",
                ) from None
        return listed, inboxes

    def _deliver_step(self, value: Mapping[str, Any], recipient: str) -> Delivered:
        content = {name: value[name] for name in ("alert_id", "severity", "message")}
        if value["due"] is not None:
            content["acknowledge_by"] = times.stamp(value["due"])
        if value["step"]:
            content["escalated_from"] = value["recipient"]
        return deliver(
            self._parts,
            self._parts.notification.inboxes(recipient),
            sender=value["sender"],
            topic=TOPIC,
            content=content,
            urgency=SEVERITIES[value["severity"]],
            alert_id=value["alert_id"],
            task_id=value.get("task_id"),
        )

    def _put_alert(self, value: Mapping[str, Any], owner: str, expected: int) -> Change:
        until = max(value["due"] or 0, self._parts.now()) + REMEMBERED
        return Change(
            kind=ALERT,
            key=value["alert_id"],
            value=value,
            owner=owner,
            expires_at=int(until * 1000),
            expected=expected,
        )

    # Acknowledging

    def confirm(
        self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], tuple[Change, ...]] | None:
        """CONFIRM of an alert, or of the notification of one, by whom it was sent to."""
        notice = self._notice(context, target_id)
        alert = None if notice is None else self._parts.held.get(ALERT, str(notice.value.get("alert_id", "")))
        if notice is None or alert is None:
            return None
        told = {"target": ALERT, "alert_id": alert.key}
        read = acknowledge(notice, said["status"])
        if said["status"] == "deferred" or alert.brief["state"] not in (WAITING, SENT, "unacknowledged"):
            return told, (read,)
        value = {
            **alert.value,
            "state": "acknowledged",
            "due": None,
            "acknowledged_by": said["actor"],
            "acknowledged_at": times.stamp(self._parts.now()),
        }
        tell = self._tell_sender(value, "alert-acknowledged", {"acknowledged_by": said["actor"]})
        return told, (read, self._put_alert(value, alert.owner, alert.version), *tell)

    def _notice(self, context: BuiltInContext, target_id: str) -> StateItem | None:
        """Return the notification that the caller received."""
        held, authorization = self._parts.held, self._parts.authorization
        inboxes = authorization.inboxes(context)
        alert = held.get(ALERT, target_id)
        for key in [target_id] if alert is None else alert.value["told"]:
            item = held.get(NOTIFICATION, key)
            if item is None or "alert_id" not in item.value:
                continue
            operator = item.value["recipient"] == OPERATOR and authorization.may(context, OperatorAction.DECIDE)
            if operator or item.owner in inboxes:
                return item
        return None

    def _tell_sender(self, value: Mapping[str, Any], topic: str, more: Mapping[str, Any]) -> list[Change]:
        content = {"alert_id": value["alert_id"], "state": value["state"], **more}
        sender = value["sender"]
        return deliver(
            self._parts, (sender,), sender=sender, topic=topic, content=content, urgency="informational"
        ).changes

    # Without a recipient

    async def _late(self, item: StateItem) -> None:
        """Notify the next recipient of the path, or the sender if there is none."""
        value, now = dict(item.value), self._parts.now()
        changes: list[Change] = []
        said: dict[str, Any] = {"alert_id": item.key, "caller_id": value["sender"], "severity": value["severity"]}
        if value["step"] < len(value["path"]):
            target = value["path"][value["step"]]
            value.update(step=value["step"] + 1, due=now + value["seconds"])
            said["escalated_to"] = target
            try:
                delivered = self._deliver_step(value, target)
            except Refusal:  # Whom the configuration knows no longer.
                delivered = Delivered()
            changes += delivered.changes
            value["told"] = [*value["told"], *delivered.notification_ids]
            said.update(delivered=len(delivered.reached), step=value["step"])
            event = ESCALATED
        else:
            value.update(state="unacknowledged", due=None)
            changes += self._tell_sender(value, UNACKNOWLEDGED, {"told": len(value["told"])})
            event = UNACKNOWLEDGED
        changes.append(self._put_alert(value, item.owner, item.version))
        events = (StreamEvent(chain=HOST_CHAIN, event_type=event, fields=said),)
        kept = await prepare_changes(self._parts, changes)
        await self._parts.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=kept, events=events))

    # CANCEL

    def cancel(self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        """Return the caller's own alert, as long as it waits for an acknowledgement."""
        item = self._parts.held.get(ALERT, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        if item.brief["state"] != WAITING:
            raise cancelled_before(target_id, str(item.brief["state"]))
        notices = (self._parts.held.get(NOTIFICATION, key) for key in item.value["told"])
        value = {**item.value, "state": CANCELLED, "due": None, **said}
        parties = [notice.value["recipient"] for notice in notices if notice is not None]
        return Cancelling(kind=ALERT, changes=(self._put_alert(value, item.owner, item.version),), parties=parties)


def _due(item: StateItem) -> float | None:
    return item.brief["due"] if item.brief["state"] == WAITING else None


def _deadline(given: Mapping[str, Any], path: list[str], now: float) -> float | None:
    due = parameters.moment(given, "acknowledge_by")
    if due is None:
        if path:
            raise parameters.invalid(
                "acknowledge_by",
                "escalation_path needs acknowledge_by, the time at which the alert goes to the next recipient.",
                "Send acknowledge_by.",
                missing=True,
            )
        return None
    if not now < due <= now + LONGEST:
        raise parameters.invalid(
            "acknowledge_by", "acknowledge_by is not a time within the next thirty days.", "Send a time in the future."
        )
    return due
