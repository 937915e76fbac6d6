"""
Further targets of CONFIRM: bookings, items and schedules.

Core v08 section 7.2.11 names "the action, booking, schedule, or item being confirmed". The attestation says which state
of it was confirmed, by version and digest. Any reader of an item can attest it; a held booking changes only where
its owner decides. A schedule is attested by its owner, its registrar and operators, and goes on as it was: CANCEL,
PAUSE and RESUME change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from agtphost.audit.drafts import Change
from agtphost.audit.prepared_items import prepare
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.canonical import canonical
from agtphost.methods.oversight.confirmation import CONFIRMED_ITEM, STATES, Confirmable, Confirmed
from agtphost.methods.standard.cancellation import cancelled_before
from agtphost.methods.standard.collections.store import Item
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.reasons import Reason

BOOKING, ITEM = "booking", "item"

HELD: Final = frozenset({"held", "pending", "tentative", "requested"})
"""Values of ``status`` in a booking's data that wait for its owner's word."""

SHORT: Final = 8_192
"""Octets up to which an item is hashed in the reactor's thread."""

DECIDED: Final = {"accepted": "confirmed", "rejected": "rejected"}
"""What ``status`` of a held booking becomes."""


def add_confirmations(parts: MethodServices) -> None:
    """Have CONFIRM take items of collections, bookings among them, and schedules."""
    parts.confirmation.also(confirm_item(parts), recurs=STATES)
    parts.confirmation.also(confirm_schedule(parts), recurs=STATES)


def confirm_item(parts: MethodServices) -> Confirmable:
    """Make what CONFIRM asks for items of collections, named ``collection/id``; what is in queues is not among them."""

    async def confirm(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Confirmed | None:
        item = None
        if parts.authorization.find_caller(context) is not None:
            item = parts.collections.item(context, target_id)
        collection = None if item is None else parts.collections.find(item.held.brief["collection"])
        if item is None or collection is None or collection.own or collection.section.queue:
            return None
        value = item.value
        data = value["data"]
        said_there = data.get("status") if isinstance(data, dict) else None
        status = said_there if isinstance(said_there, str) else None
        if status == "cancelled" and said["status"] == "accepted":
            raise cancelled_before(target_id, "cancelled")
        changes: tuple[Change, ...] = ()
        becomes = DECIDED.get(said["status"]) if status in HELD and _is_owner(context, item) else None
        if becomes is not None:
            collection.require_writing(context)
            # The item and its former version: of a long one, that takes more than a turn of the reactor has.
            changes = await parts.offload(prepare, collection.replace(context, item, {**data, "status": becomes}))
            value = changes[0].value or value
        elif status is not None and _is_owner(context, item):
            _require_undecided(said["status"], status, target_id)
        digest = await _digest(parts, value["data"], item.held.octets)
        shown = {"id": target_id, "version": value["version"], "sha256": digest}
        target = ITEM if status is None else BOOKING
        return _answer(said, target, shown, changes)

    return confirm


def _is_owner(context: BuiltInContext, item: Item) -> bool:
    return bool(context.owner) and item.held.owner == context.owner


def _require_undecided(said: str, status: str, target_id: str) -> None:
    """
    Keep a booking's owner from deciding the other way afterwards; others attest what they see.

    :raises Refusal: 409 where the booking is confirmed or rejected, and its owner says the opposite.
    """
    if status in DECIDED.values() and DECIDED.get(said) not in (None, status):
        raise Refusal(
            Reason.ALREADY_DECIDED,
            f"The booking is {status} already.",
            remedy="CANCEL a confirmed booking.",
            details={"target_id": target_id, "status": status},
        )


def confirm_schedule(parts: MethodServices) -> Confirmable:
    """Make what CONFIRM asks for workflows and schedules."""

    async def confirm(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Confirmed | None:
        found = parts.held.get(workflow_items.WORKFLOW, target_id)
        if found is None:
            return None
        value = found.value
        own = bool(context.owner) and found.owner == context.owner
        if not own and not parts.authorization.manages(context, value["agent_id"]):
            return None
        digest = await _digest(parts, [value["definition"], value.get("schedule")], found.octets)
        shown = {"id": target_id, "version": found.version, "sha256": digest, "state": value["state"]}
        return _answer(said, value["kind"], shown, ())

    return confirm


async def _digest(parts: MethodServices, content: Any, octets: int) -> str:
    """
    Return the SHA-256 of the canonical form, hex.

    :param octets: about how long it is: 64 KiB of numbers take 18 ms, which is too long for the reactor's thread.
    """

    def digest() -> str:
        return sha256(canonical(content)).hexdigest()

    found: str = digest() if octets <= SHORT else await parts.offload(digest)
    return found


def _answer(
    said: Mapping[str, Any], target: str, shown: Mapping[str, Any], changes: tuple[Change, ...]
) -> Confirmed | None:
    """Return what the receipt says; None where the same was confirmed of the same state, whose receipt still counts."""
    before = said.get("before")
    if before is not None and not changes and before.get(CONFIRMED_ITEM) == shown:
        return None
    return {"target": target, CONFIRMED_ITEM: shown}, changes
