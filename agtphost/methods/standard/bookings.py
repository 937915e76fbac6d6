"""What CANCEL calls off of others' making: bookings in collections, workflows, subscriptions, and approvals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.methods.standard.cancellation import Cancelling, Source, cancelled_before
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.methods.standard.orchestration.monitors import MONITOR
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.quotas import APPROVAL

PAID = ("paid", "amount")
CONCERNED = ("attendees", "participants", "parties")
MOST_CONCERNED = 100


def cancel_booking(parts: MethodServices) -> Source:
    """
    Return the source of CANCEL for items of collections, named ``collection/id``: their owner cancels them.

    The item stays, with ``status`` ``cancelled`` in its data, so that readers of the collection see it.
    """

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        name, _, item_id = target_id.partition("/")
        collection = parts.collections.find(name)
        item = None if collection is None or collection.own or collection.section.queue else collection.get(item_id)
        if collection is None or item is None or not context.owner or item.held.owner != context.owner:
            return None
        data = item.value["data"]
        if not isinstance(data, dict):
            return None
        if data.get("status") == "cancelled":
            raise cancelled_before(target_id, "cancelled")
        collection.require_writing(context)
        changes = collection.replace(context, item, {**data, "status": "cancelled"})
        paid = next((data[name] for name in PAID if data.get(name) not in (None, 0)), None)
        return Cancelling(kind="booking", changes=changes, parties=_find_inboxes(parts, data), paid=paid)

    return source


def _find_inboxes(parts: MethodServices, data: Mapping[str, Any]) -> list[str]:
    """Return the inboxes of the names in a booking that this host knows."""
    found: list[str] = []
    for name in CONCERNED:
        listed = data.get(name)
        for each in listed[:MOST_CONCERNED] if isinstance(listed, list) else ():
            try:
                found += parts.notification.inboxes(str(each))
            except Refusal:
                continue
    return found


def cancel_monitor(parts: MethodServices) -> Source:
    """Return the source of CANCEL for MONITOR's subscriptions, as NOTIFY with ``monitor_cancel`` ends them."""

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        item = parts.held.get(MONITOR, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        gone = Change(kind=MONITOR, key=item.key, value=None, owner=item.owner, expected=item.version)
        return Cancelling(kind=MONITOR, changes=(gone,), gone=True, said={"told": item.value["told"]})

    return source


def cancel_workflow(parts: MethodServices) -> Source:
    """Return the source of CANCEL for workflows and schedules: the running step ends, and no further step begins."""

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        item = parts.held.get(workflow_items.WORKFLOW, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        state = item.brief["state"]
        if state in workflow_items.ENDED:
            raise cancelled_before(target_id, state)
        parts.workflows.change(item.key)
        return Cancelling(
            kind=workflow_items.WORKFLOW, changes=workflow_items.cancel_workflow(parts.held, item, said, parts.now())
        )

    return source


def cancel_approval(parts: MethodServices) -> Source:
    """Return the source of CANCEL for approvals: the agent that requested one withdraws it."""

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        item = parts.held.get(APPROVAL, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        state = parts.approvals.state(item)
        if state != "pending":
            raise cancelled_before(target_id, state)
        return Cancelling(kind=APPROVAL, changes=(parts.approvals.withdrawal_change(item, said["cancelled_at"]),))

    return source
