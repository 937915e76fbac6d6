"""SYNC: a collection and its remote, brought together (methods v01 section 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.config.methods import RemoteSection
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.collections.registration import RECORDS
from agtphost.methods.standard.collections.store import Collection, Item, is_item_id
from agtphost.methods.standard.messages.delivery import prepare_changes
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import weight
from agtphost.vocabulary.reasons import Reason

DIRECTIONS = ("pull", "push", "bidirectional")
POLICIES = ("remote_wins", "local_wins", "manual")
PART, VALUES = 1_048_576, 35_000
"""Octets, and values and names, of the items pushed to a remote in one call; more are pushed in several calls."""


@implementer(IBuiltInHandler)
class Syncing:
    """The handler of SYNC: calls endpoints of this host as the caller; a caller names no address."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts
        self._collections = parts.collections
        self._offload = parts.offload

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer SYNC by pushing items to the remote before anything changes here.

        :raises Refusal: 404 for an unknown collection or remote; 409 for undecided conflicts; 503.
        """
        given = context.input
        collection = self._collections.require_reading(context, given["resource"], "resource")
        collection.require_writing(context)
        remote = self._remote(collection, str(given["remote"]))
        direction = parameters.choice(given, "direction", DIRECTIONS, "pull")
        policy = parameters.choice(given, "conflict_policy", POLICIES, "remote_wins")
        theirs = await self._pull_items(context, remote)
        plan = SyncPlan(context, collection, theirs, direction, policy)
        await self._offload(plan.compare)
        if plan.undecided:
            raise Refusal(Reason.SYNC_CONFLICT, details={"conflicts": plan.undecided})
        collection.require_room(context, plan.new, taken=False)
        for part in await self._offload(plan.parts):
            await self._call(context, remote, remote.push, {"items": part})
        collection.require_room(context, plan.new)
        changes = await prepare_changes(self._parts, await self._offload(plan.changes))
        told = {
            "resource": collection.name,
            "remote": remote.name,
            "direction": direction,
            "conflict_policy": policy,
            "changes": {**plan.counts, "pushed": len(plan.push)},
            "conflicts": plan.conflicts,
        }
        return Answer(result=told, changes=changes, extra={"synced": {"resource": collection.name, **plan.counts}})

    @staticmethod
    def _remote(collection: Collection, name: str) -> RemoteSection:
        found = next((each for each in collection.section.remote if each.name == name), None)
        if found is None:
            raise Refusal(Reason.REMOTE_UNKNOWN, details={"parameter": "remote"})
        return found

    async def _pull_items(self, context: BuiltInContext, remote: RemoteSection) -> dict[str, Any]:
        """Return the remote's items, by identifier."""
        answer = await self._call(context, remote, remote.pull, {})
        items = answer.get("items") if isinstance(answer, Mapping) else None
        if not isinstance(items, list) or len(items) > RECORDS:
            raise _unavailable(remote, f"its answer is not a list of at most {RECORDS} items")
        found: dict[str, Any] = {}
        for each in items:
            if not isinstance(each, Mapping) or not is_item_id(each.get("id")) or "data" not in each:
                raise _unavailable(remote, "one of its items has no id and data")
            found[each["id"]] = each["data"]
        return found

    async def _call(self, context: BuiltInContext, remote: RemoteSection, place: str, given: Mapping[str, Any]) -> Any:
        method, _, path = place.partition(" ")
        if not method or not path:
            raise Refusal(
                Reason.REMOTE_UNKNOWN,
                "The remote is not configured for that direction.",
                details={"parameter": "direction"},
            )
        try:
            return await context.invoke(method, path, given)
        except Refusal as refusal:
            if refusal.status in (401, 403, 262, 455):
                raise
            raise _unavailable(remote, str(refusal.reason)) from None


def _unavailable(remote: RemoteSection, why: str) -> Refusal:
    return Refusal(Reason.REMOTE_UNAVAILABLE, details={"remote": remote.name, "because": why})


class SyncPlan:
    """The changes on both sides, by their items and the policy, as the collection is when this is made."""

    def __init__(
        self, context: BuiltInContext, collection: Collection, theirs: Mapping[str, Any], direction: str, policy: str
    ) -> None:
        self._context = context
        self._collection = collection
        self._there = collection.items_after(context)
        self._theirs = theirs
        self._direction = direction
        self._policy = policy
        self._take: list[tuple[str, Any, Item | None]] = []
        self.push: list[dict[str, Any]] = []
        self.undecided: list[str] = []
        self.conflicts: list[dict[str, str]] = []
        self.counts = {"created": 0, "updated": 0, "unchanged": 0}

    @property
    def new(self) -> int:
        """Items that are not here yet."""
        return sum(known is None for _, _, known in self._take)

    def compare(self) -> None:
        """
        Compare both sides: off the reactor.

        :raises Refusal: 422 where too much would be pushed.
        """
        pull, push = self._direction != "push", self._direction != "pull"
        for item_id, data in self._theirs.items():
            self._meet(item_id, data, self._policy, pull=pull, push=push)
        if not push:
            return
        # Only the caller's own items are pushed.
        own = (item for held in self._there if held.owner == self._context.owner and (item := Item(held)))
        absent = list(islice((item for item in own if item.id not in self._theirs), RECORDS + 1))
        if len(absent) > RECORDS:
            raise parameters.invalid("resource", f"More than {RECORDS} items would be pushed.", "Push fewer.")
        self.push += [{"id": item.id, "data": item.value["data"]} for item in absent]

    def _meet(self, item_id: str, data: Any, policy: str, *, pull: bool, push: bool) -> None:
        held = self._there.get(item_id)
        known = None if held is None else Item(held)
        if known is None:
            if pull:
                self._take.append((item_id, data, None))
            return
        own = known.value["data"]
        if own == data:
            self.counts["unchanged"] += 1
        elif policy == "manual" or known.held.owner != self._context.owner:
            self.undecided.append(item_id)
        elif policy == "remote_wins":
            if pull:
                self._take.append((item_id, data, known))
            self.conflicts.append({"id": item_id, "resolution": "remote_wins" if pull else "left alone"})
        else:
            if push:
                self.push.append({"id": item_id, "data": own})
            self.conflicts.append({"id": item_id, "resolution": "local_wins"})

    def parts(self) -> list[list[dict[str, Any]]]:
        """Return the pushed items in batches of some milliseconds each: off the reactor."""
        found: list[list[dict[str, Any]]] = []
        octets = values = 0
        for each in self.push:
            long, many = len(jsontext.encode(each)), weight(each, VALUES)
            if not found or octets + long > PART or values + many > VALUES:
                found.append([])
                octets = values = 0
            found[-1].append(each)
            octets, values = octets + long, values + many
        return found

    def changes(self) -> tuple[Change, ...]:
        """
        Return the changes on this host: off the reactor.

        :raises Refusal: an item of the remote is none of this collection.
        """
        made = []
        for item_id, data, known in self._take:
            if known is None:
                made.append(self._collection.put(self._context, item_id, data)[1])
            else:
                made += self._collection.replace(self._context, known, data)
            self.counts["created" if known is None else "updated"] += 1
        return tuple(made)
