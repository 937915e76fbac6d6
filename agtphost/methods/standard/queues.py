"""
SUBMIT and PULL: queues (methods v01 sections 3.4 and 5.3).

Theory of operation. A queue is a collection with ``queue = true``. A pulled item is hidden from other pullers by one of
its members, set in the transaction of the record of PULL. A puller that dies loses the hold when its time has passed;
no other puller has the item before. CONFIRM removes an item, gives it back, or extends the hold by the same time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from twisted.internet.task import deferLater
from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.oversight.notification import names_inbox_of
from agtphost.methods.standard.cancellation import Cancelling, cancelled_before
from agtphost.methods.standard.collections.index import NORMAL
from agtphost.methods.standard.collections.store import Collection, holder
from agtphost.methods.standard.messages.delivery import deliver
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import COLLECTION_ITEM
from agtphost.vocabulary.reasons import Reason

PRIORITIES = {"urgent": 9, "high": 7, "normal": NORMAL, "low": 3}
MOST = 100
"""Items of one PULL."""

AT_ONCE = 1_000
"""Items whose time has passed that are shown again before others have their turn."""

MOST_OCTETS = 262_144
"""The most octets of pulled data together; the first item is given at any size."""

USUAL_TIMEOUT, LONGEST_TIMEOUT = 60.0, 43_200.0
"""Seconds for which items are hidden."""

CLAIMED = 5.0
"""Seconds in which the record of a PULL is durable, or the PULL has failed."""

REMEMBERED = 7 * 86_400
TOPIC = "submission-done"


class Queues:
    """The queues of one configuration."""

    def __init__(self, parts: MethodServices) -> None:
        self.parts = parts
        self._names = {each.name for each in parts.config.methods.collection if each.queue}
        parts.confirmation.also(self.confirm, recurs=("rejected", "deferred"))

    def require(self, context: BuiltInContext, name: str, parameter: str) -> Collection:
        """
        Return a queue that the caller may write to; refuse otherwise.

        :raises Refusal: 404 for what is none, or not for the caller.
        """
        collection = self.parts.collections.require(context, name, parameter)
        if name not in self._names:
            raise Refusal(Reason.QUEUE_UNKNOWN, details={"parameter": parameter})
        collection.require_writing(context)
        return collection

    # SUBMIT

    def submit(self, context: BuiltInContext) -> Answer:
        """
        Answer the SUBMIT call.

        :raises Refusal: 404, 403, 409 where the queue is full, 422.
        """
        given, now = context.input, self.parts.now()
        caller = owner_of(context)
        collection = self.require(context, parameters.require_text(given, "target"), "target")
        if given.get("payload") is None:
            raise parameters.invalid("payload", "The parameter payload is missing.", "Send payload.", missing=True)
        priority = _priority(given)
        callback = self._callback(context)
        collection.require_sound(given["payload"], "payload")
        collection.require_room(context, 1)
        item_id = secrets.token_hex(16)
        work = {"priority": priority, "came": int(now * 1_000_000), "submitted_by": context.owner, "callback": callback}
        value, change = collection.put(context, item_id, given["payload"])
        change = replace(change, value={**value, "work": work})
        told = {
            "tracking_id": f"{collection.name}/{item_id}",
            "target": collection.name,
            "submitted_at": value["created_at"],
            "submitted_by": caller.agent_id,
        }
        return Answer(
            result={**told, "priority": priority, "callback": callback, "waiting": len(collection) + 1},
            changes=(change,),
            extra={"submission": told},
        )

    def _callback(self, context: BuiltInContext) -> str:
        """Return the Agent-ID whose inbox gets the confirmation: only the caller's own; no address is ever called."""
        named, caller = parameters.text(context.input, "callback"), owner_of(context)
        if named is None:
            return ""
        if not names_inbox_of(named, caller, self.parts.address):
            raise parameters.invalid(
                "callback",
                "callback must be the caller's own inbox; the host notifies no other agent and no address.",
                "Send inbox, or the caller's own Agent-ID or agtp: URI.",
            )
        return caller.agent_id

    # PULL

    async def pull(self, context: BuiltInContext) -> Answer:
        """
        Answer the PULL call.

        :raises Refusal: 404, 403, 422.
        """
        given = context.input
        caller = owner_of(context)
        collection = self.require(context, parameters.require_text(given, "source"), "source")
        collection.require_believed(context)
        most = parameters.count(given, "max_items", 1, MOST)
        seconds = _timeout(given)
        queue = collection.stock.queue
        while queue.show(self.parts.now(), AT_ONCE):
            await deferLater(self.parts.reactor, 0)
        now = self.parts.now()
        until = now + seconds
        who = holder(caller, context.owner)
        may = queue.further(who, collection.section.max_share, now)
        pulled: list[dict[str, Any]] = []
        changes: list[Change] = []
        octets = 0
        for held in islice(queue.next(now), min(most, may)):
            octets += held.octets
            if pulled and octets > MOST_OCTETS:
                break
            value = held.value
            work = dict(value.get("work") or {})
            work.update(hidden_until=until, pulled_by=context.owner, pulled_for=who.principal, seconds=seconds)
            work["pulled_at"] = now
            work["deliveries"] = int(work.get("deliveries", 0)) + 1
            changes.append(_update_item(held, {**value, "work": work}))
            queue.claim(held, now + CLAIMED, who)
            pulled.append(
                {
                    "item_id": held.key,
                    "data": value["data"],
                    "submitted_by": value["owners"][0]["agent_id"],
                    "submitted_at": value["created_at"],
                    "deliveries": work["deliveries"],
                }
            )
        ids = [each["item_id"] for each in pulled]
        shown: dict[str, Any] = {"source": collection.name, "items": pulled, "hidden_until": times.stamp(until)}
        if len(pulled) == may < most:
            shown["left_for_others"] = collection.section.max_share
        return Answer(
            result=shown,
            changes=tuple(changes),
            extra={"pulled": {"source": collection.name, "by": caller.agent_id, "count": len(ids), "first": ids[:16]}},
        )

    # CONFIRM

    def confirm(
        self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], tuple[Change, ...]] | None:
        """
        Confirm an item that the caller has pulled: it is done, given back, or held for another period.

        :raises Refusal: 409 for what is cancelled, 429 where it was held for as long as one agent may.
        """
        item = self._item(target_id)
        work: Mapping[str, Any] = {} if item is None else item.value.get("work") or {}
        if item is None or not context.owner or "pulled_by" not in work:
            return None
        if work["pulled_by"] != context.owner:
            return None
        if work.get("cancelled"):
            raise cancelled_before(target_id, "cancelled")
        told = {"target": "queue-item", "item_id": item.key}
        now = self.parts.now()
        if said["status"] == "accepted":
            gone = Change(kind=COLLECTION_ITEM, key=item.key, value=None, owner=item.owner, expected=item.version)
            return told, (gone, *self._confirm_delivery(item, work, said))
        hidden = _extend_hold(work, now) if said["status"] == "deferred" else 0.0
        kept = {**work, "hidden_until": hidden}
        if said["status"] == "rejected":
            del kept["pulled_by"]
        return told, (_update_item(item, {**item.value, "work": kept}),)

    def _item(self, target_id: str) -> StateItem | None:
        name = target_id.partition("/")[0]
        return self.parts.held.get(COLLECTION_ITEM, target_id) if name in self._names else None

    def _confirm_delivery(self, item: StateItem, work: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[Change]:
        """Yield the delivery confirmation, where the submitter wants one."""
        if not work.get("callback"):
            return
        content = {"tracking_id": item.key, "status": "done", "by": said["actor"], "reason": said["reason"]}
        yield from deliver(
            self.parts,
            (work["callback"],),
            sender=said["actor"],
            topic=TOPIC,
            content=content,
            urgency="informational",
        ).changes

    # CANCEL

    def cancel(self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        """Return the caller's own submission that is not being processed."""
        item = self._item(target_id)
        work: Mapping[str, Any] = {} if item is None else item.value.get("work") or {}
        if item is None or not context.owner or work.get("submitted_by") != context.owner:
            return None
        if work.get("cancelled"):
            raise cancelled_before(target_id, "cancelled")
        if work.get("hidden_until", 0.0) > self.parts.now():
            raise cancelled_before(target_id, "in work")
        until = int((self.parts.now() + REMEMBERED) * 1000)
        change = _update_item(item, {**item.value, "work": {**work, "cancelled": True, **said}}, until)
        return Cancelling(kind="submission", changes=(change,))


def _update_item(item: StateItem, value: Mapping[str, Any], until: int | None = None) -> Change:
    return Change(
        kind=COLLECTION_ITEM,
        key=item.key,
        value={**value, "version": value["version"] + 1},
        owner=item.owner,
        expires_at=until,
        expected=item.version,
    )


def _extend_hold(work: Mapping[str, Any], now: float) -> float:
    """
    Return the time until which an item is held for another period: it ends 12 hours after PULL at the latest.

    Only PULL looks at shares. What others work off in that time leaves one holder with all of a queue, and it could
    extend that for good.

    :raises Refusal: 429 after that time.
    """
    latest = float(work.get("pulled_at", now)) + LONGEST_TIMEOUT
    if now >= latest:
        raise Refusal(
            Reason.OWNER_SHARE_USED,
            f"An agent holds an item for {LONGEST_TIMEOUT:g} seconds after PULL at most, extensions included.",
            remedy="CONFIRM it as accepted or rejected; PULL again for what is left.",
            details={"parameter": "status", "limit": LONGEST_TIMEOUT},
        )
    return min(now + float(work["seconds"]), latest)


def _priority(given: Mapping[str, Any]) -> int:
    value = given.get("priority", "normal")
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise parameters.invalid(
            "priority", "priority is neither a number from 0 to 9 nor a word.", f"Use {', '.join(PRIORITIES)}."
        )
    return value


def _timeout(given: Mapping[str, Any]) -> float:
    value = given.get("visibility_timeout", USUAL_TIMEOUT)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_TIMEOUT:
        raise parameters.invalid(
            "visibility_timeout",
            f"visibility_timeout is not above 0 and up to {LONGEST_TIMEOUT:g} seconds.",
            "Send 60.",
        )
    return float(value)


@implementer(IBuiltInHandler)
class Submitting:
    """The handler of SUBMIT."""

    kind = "built_in"

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def handle(self, context: BuiltInContext) -> Answer:
        """Answer the SUBMIT call."""
        return self._queues.submit(context)


@implementer(IBuiltInHandler)
class Pulling:
    """The handler of PULL."""

    kind = "built_in"

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def handle(self, context: BuiltInContext) -> Answer:
        """Answer the PULL call."""
        return await self._queues.pull(context)
