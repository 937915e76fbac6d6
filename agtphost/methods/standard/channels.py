"""
PUBLISH: content for the readers of a channel, now or at a time to come (methods v01 section 5.10).

A channel is a collection: its readers are those of the collection. What is to be published later is not an item yet. It
becomes one at its time, or as soon as the host runs again, under the authority that its publisher has then.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StaleLifecycle, StreamEvent
from agtphost.audit.state import StateFull, StateItem
from agtphost.dispatch.resumption import caller_to_json
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.oversight.notification import LONGEST
from agtphost.methods.standard.cancellation import Cancelling, cancelled_before
from agtphost.methods.standard.collections.index import Holder
from agtphost.methods.standard.messages.delivery import deliver
from agtphost.methods.standard.scheduler import Due
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import scopes, times
from agtphost.vocabulary.quotas import COLLECTION_ITEM, PUBLICATION
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

PUBLISHED, FAILED = "publication-published", "publication-failed"
"""Signed events of the host's chain; the second is a topic of NOTIFY as well."""

SCHEDULED = "scheduled"
REMEMBERED = 7 * 86_400


@implementer(IBuiltInHandler)
class Publishing:
    """The handler of PUBLISH, which also publishes scheduled content."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts
        Due(parts, PUBLICATION, _due, self._publish_due)

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the PUBLISH call.

        :raises Refusal: 404 for a channel that is none, 403, 409 where it is full, 422.
        """
        given, now = context.input, self._parts.now()
        caller = owner_of(context)
        collection = self._parts.collections.require(context, parameters.require_text(given, "channel"), "channel")
        if collection.own or collection.section.queue:
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": "channel"})
        collection.require_writing(context)
        if given.get("content") is None:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        at = parameters.moment(given, "schedule_at")
        if at is not None and at > now + LONGEST:
            raise parameters.invalid("schedule_at", "schedule_at is beyond the next thirty days.", "Publish it later.")
        content_id = f"pub-{secrets.token_hex(16)}"
        value, change = collection.put(context, content_id, given["content"])
        value = {**value, "format": parameters.text(given, "format") or ""}
        collection.require_room(context, 1, taken=at is None or at <= now)
        change = replace(change, value=value)
        shown = {"content_id": content_id, "channel": collection.name, "resource_id": change.key}
        if at is None or at <= now:
            told = {**shown, "status": "published", "published_at": value["created_at"]}
            return Answer(result=told, changes=(change,), extra={"published": told})
        later = Change(
            kind=PUBLICATION,
            key=content_id,
            value={
                "state": SCHEDULED,
                "at": at,
                "publisher": caller.agent_id,
                "item": value,
                "authority": _authority(context),
            },
            owner=context.owner,
            expires_at=int((at + REMEMBERED) * 1000),
            expected=0,
        )
        told = {**shown, "status": SCHEDULED, "schedule_at": times.stamp(at)}
        return Answer(result=told, changes=(later,), extra={"published": told})

    async def _publish_due(self, item: StateItem) -> None:
        """Publish scheduled content, or record why not, in one transaction with the notices of it."""
        value = item.value
        stamp = times.stamp(self._parts.now())
        owners = [{**each, "since": stamp} for each in value["item"]["owners"]]
        entry = {**value["item"], "owners": owners, "created_at": stamp, "updated_at": stamp}
        key = f"{entry['collection']}/{entry['id']}"
        why = await self._objection(value, item.owner)
        if not why:
            said = {"caller_id": value["publisher"], "content_id": item.key, "channel": entry["collection"]}
            draft = Draft(
                chain=HOST_CHAIN,
                payload={},
                changes=(
                    Change(kind=COLLECTION_ITEM, key=key, value=entry, owner=item.owner, expected=0),
                    Change(kind=PUBLICATION, key=item.key, value=None, owner=item.owner, expected=item.version),
                ),
                events=(StreamEvent(chain=HOST_CHAIN, event_type=PUBLISHED, fields=said),),
                standing=(value["publisher"],),
            )
            try:
                await self._parts.ledger.submit(draft)
                return
            except StaleLifecycle:
                why = "its publisher was stopped"
            except StateFull as full:
                why = str(full)
        await self._record_failure(item, why)

    async def _objection(self, value: Mapping[str, Any], owner: str) -> str:
        """Return why scheduled content may no longer be published; empty if it may."""
        item = value["item"]
        collection = self._parts.collections.find(item["collection"])
        publisher = self._parts.directory.by_id(value["publisher"])
        if collection is None:
            return "the channel was removed from the configuration"
        if publisher is None or scopes.missing(publisher.scopes, collection.section.write):
            return "its publisher may no longer write to the channel"
        # Those that an earlier release has scheduled have none.
        if (authority := value.get("authority")) is not None:
            if scopes.missing(scopes.parse(authority["scopes"]), collection.section.write):
                return "the call that scheduled it did not claim the scopes that the channel needs now"
            given = {"channel": collection.name, "content": item["data"]}
            refusal = await self._parts.workflows.objection(authority, "PUBLISH", "/", given)
            if refusal is not None:
                return f"its publisher may no longer publish: {refusal.explanation}"
        try:
            collection.require_sound(item["data"], "content")
            collection.require_room_of(Holder(*item.get("share", (owner, f"agent {owner}"))), 1)
        except Refusal as full:
            return full.explanation
        return ""

    async def _record_failure(self, item: StateItem, why: str) -> None:
        publisher = item.value["publisher"]
        said = {"caller_id": publisher, "content_id": item.key, "channel": item.value["item"]["collection"], "why": why}
        told = deliver(self._parts, (publisher,), sender=publisher, topic=FAILED, content=said, urgency="informational")
        kept = Change(
            kind=PUBLICATION,
            key=item.key,
            value={**item.value, "state": "failed", "why": why},
            owner=item.owner,
            expires_at=item.expires_at,
            expected=item.version,
        )
        events = (StreamEvent(chain=HOST_CHAIN, event_type=FAILED, fields=said),)
        draft = Draft(chain=HOST_CHAIN, payload={}, changes=(kept, *told.changes), events=events)
        await self._parts.ledger.submit(draft)

    def cancel(self, context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        """Cancel the caller's own scheduled publication, if it is not published yet."""
        item = self._parts.held.get(PUBLICATION, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        if item.brief["state"] != SCHEDULED:
            raise cancelled_before(target_id, str(item.brief["state"]))
        change = Change(
            kind=PUBLICATION,
            key=item.key,
            value={**item.value, "state": "cancelled", **said},
            owner=item.owner,
            expires_at=item.expires_at,
            expected=item.version,
        )
        return Cancelling(kind=PUBLICATION, changes=(change,))


def _authority(context: BuiltInContext) -> Mapping[str, Any]:
    """
    Return the authority by which the call is judged again at its time.

    :raises Refusal: 403 for what ends with the call.
    """
    found = caller_to_json(context.invocation.exchange)
    if found is None:
        raise Refusal(Reason.WORKFLOW_UNPROVEN, status=Status.FORBIDDEN)
    return found


def _due(item: StateItem) -> float | None:
    return float(item.brief["at"]) if item.brief["state"] == SCHEDULED else None
