"""
What is in the collections of ``[[methods.collection]]``, and who may read and write it.

An item is a state item: it changes in the transaction of the record that tells why. All items are in memory;
:mod:`.index` has them in the order of their identifiers, which is what pages and searches go through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.config.methods import CollectionSection
from agtphost.contract.schemas import CompiledSchema, TooCostly, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.agents import Agent
from agtphost.identity.required_assurance import BELIEVED, is_believed
from agtphost.methods.oversight import inbox_shares
from agtphost.methods.standard.collections.index import OWN, Holder, Stocks, holder_of
from agtphost.vocabulary import jsontext, scopes, times
from agtphost.vocabulary.bounds import share_of_free, share_together
from agtphost.vocabulary.quotas import COLLECTION_ITEM, COLLECTION_VERSION
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.sorted_blocks import Snapshot

GIFTS: Final = 2
"""One part in so many of an agent's quota may be of items that other agents entered and transferred to it."""

UNDER_WAY: Final = 5.0
"""Seconds in which the record of a call is durable, or the call has failed."""

LONGEST = 65_536
"""Octets of one item's data."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}", re.ASCII)


def place_of(context: BuiltInContext, target: str) -> str:
    """Return the common prefix of the identifiers of an agent's bindings in one target."""
    return key_of(context, target)


def key_of(context: BuiltInContext, *parts: str) -> str:
    """Return an identifier that is specific to the agent: another agent's relation must not count for the caller."""
    return sha256(jsontext.encode([context.owner, *parts])).hexdigest()[:32]


def binding_key(context: BuiltInContext, target: str, name: str) -> str:
    """Return the key of what an agent has embedded in a target under a name."""
    return f"{place_of(context, target)}-{key_of(context, target, name)[:16]}"


def holder(agent: Agent, state_owner: str) -> Holder:
    """
    Return the holder of an agent's items in a collection.

    :param state_owner: the name under which its state is kept: who only says an agent's name takes nothing of the
        share of those that answer for it.
    """
    whose = inbox_shares.share_of(agent)
    return Holder(state_owner, whose if state_owner == agent.agent_id else f"claimed {whose}")


def is_item_id(value: object) -> bool:
    """1 to 128 letters, digits and ``. _ : @ -``, beginning with a letter or a digit."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it was last committed."""

    held: StateItem

    @property
    def value(self) -> Mapping[str, Any]:
        """``collection``, ``id``, ``data``, ``version``, ``owner``, ``owners``, ``created_at``, ``updated_at``."""
        return self.held.value

    @property
    def owner(self) -> str:
        """The Agent-ID of whom it belongs to."""
        return str(self.held.brief["owner"])

    @property
    def id(self) -> str:
        return str(self.held.brief["id"])

    def to_json(self) -> dict[str, Any]:
        """Return the item as callers see it."""
        value = self.value
        names = ("collection", "id", "version", "owner", "created_at", "updated_at", "data")
        return {name: value[name] for name in names}


class Collection:
    """A collection under one configuration."""

    def __init__(self, section: CollectionSection, stocks: Stocks, now: Callable[[], float]) -> None:
        self.section = section
        self.name = section.name
        self.own = section.name in OWN
        """Whether each agent sees its own items alone."""

        self.schema: CompiledSchema | None = (
            None if section.schema_ is None else compile_schema(dict(section.schema_), role="output")
        )
        self.stock = stocks.find(section.name)
        self._stocks = stocks
        self._held = stocks.held
        self._instants = times.Instants()
        self._now = now

    # Who

    def may_read(self, context: BuiltInContext) -> bool:
        """
        Return whether the caller is believed, and holds every scope that reading takes.

        Scopes are those of the agent that is named, and say nothing of a caller that a header alone names so.
        """
        believed = self.own or is_believed(context.assurance)
        return believed and all(scopes.covers(context.scopes, token) for token in self.section.read)

    def may_write(self, context: BuiltInContext) -> bool:
        """Return whether the caller holds every scope that writing takes."""
        return all(scopes.covers(context.scopes, token) for token in self.section.write)

    def require_believed(self, context: BuiltInContext) -> None:
        """
        Admit only callers that have proven who they are, in every profile: what is read was entered by others.

        :raises Refusal: 401.
        """
        if not self.own and not is_believed(context.assurance):
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                f"The collection {self.name} is only for agents that prove their identity; a header proves nothing.",
                remedy="Connect with the agent's client certificate.",
                details={"assurance": context.assurance.label, "required_assurance": BELIEVED.label},
            )

    def require_writing(self, context: BuiltInContext) -> Agent:
        """
        Require that the caller may write to the collection; return it as the owner of new items.

        :raises Refusal: 403, naming the scopes.
        """
        if not self.may_write(context):
            raise Refusal(
                Reason.NOT_ENTITLED,
                f"Writing to the collection {self.name} needs scopes that the call does not claim.",
                remedy="Claim the scopes, if the caller's Identity Document has them.",
                details={"collection": self.name, "required_scopes": list(self.section.write)},
            )
        return owner_of(context)

    # What

    def __len__(self) -> int:
        return len(self.stock)

    def get(self, item_id: str) -> Item | None:
        """Return one item; None where there is none."""
        found = self._held.get(COLLECTION_ITEM, f"{self.name}/{item_id}")
        return None if found is None else Item(found)

    def find_visible(self, context: BuiltInContext, item_id: str) -> Item | None:
        """Return one item, if the caller may see it."""
        found = self.get(item_id)
        if found is None or (self.own and found.held.owner != context.owner):
            return None
        return found

    def items_after(self, context: BuiltInContext, item_id: str = "") -> Snapshot[StateItem]:
        """
        Return a snapshot of the items that the caller may see, in order, to be read off the reactor.

        :param item_id: only those behind it, whether or not there is one of it.
        """
        return self.stock.items_after(context.owner, item_id)

    # Changing

    def put(
        self,
        context: BuiltInContext,
        item_id: str,
        data: Any,
        *,
        known: Item | None = None,
        registered: str = "",
    ) -> tuple[Mapping[str, Any], Change]:
        """
        Return an item's new value and the change that stores it.

        :param known: the item as it is; None makes one that must not be there yet.
        :param registered: what a repeated REGISTER of a new item is known by.
        :raises Refusal: 422 for data that is too long or does not follow the schema; 409 where the collection is full.
        """
        caller, stamp = owner_of(context), self._instants.stamp(self._now())
        self.require_sound(data)
        if known is None:
            value: dict[str, Any] = {
                "collection": self.name,
                "id": item_id,
                "version": 1,
                "owner": caller.agent_id,
                "owners": [{"agent_id": caller.agent_id, "since": stamp}],
                "share": list(holder(caller, context.owner)),
                "entered_by": context.owner,
                "created_at": stamp,
                "updated_at": stamp,
                "data": data,
                **({"registered": registered} if registered else {}),
            }
            return value, self._change(value, context.owner, 0)
        before = known.value  # Read once: of a long item that takes milliseconds.
        value = {**before, "version": before["version"] + 1, "updated_at": stamp, "data": data}
        return value, self._change(value, known.held.owner, known.held.version)

    def replace(self, context: BuiltInContext, item: Item, data: Any) -> tuple[Change, ...]:
        """
        Return the changes that replace an item's data and keep the previous version.

        :raises Refusal: 422 for data that is too long or does not follow the schema.
        """
        _, change = self.put(context, item.id, data, known=item)
        return (change, *self.keep_version(item))

    def keep_version(self, item: Item) -> tuple[Change, ...]:
        """Return the change that stores an item as a former version; none if the collection keeps no versions."""
        if self.own or self.section.queue or not self.section.versions:
            return ()
        value = item.value
        key = self._version_key(item.id, value["version"])
        return (Change(kind=COLLECTION_VERSION, key=key, value=value, owner=item.held.owner),)

    def former(self, item: Item, number: int) -> Mapping[str, Any] | None:
        """
        Return a former version of an item that the caller may read.

        :return: its value; None where it is not kept.
        """
        if not 0 < number < item.value["version"] or not self.section.versions:
            return None
        held = self._held.get(COLLECTION_VERSION, self._version_key(item.id, number))
        value = None if held is None else held.value
        return value if value is not None and value["version"] == number else None

    def _version_key(self, item_id: str, number: int) -> str:
        """Return the key of a version: that of the version which is ``versions`` before it."""
        return f"{number % self.section.versions} {self.name}/{item_id}"

    def require_room(self, context: BuiltInContext, further: int, *, taken: bool = True) -> None:
        """
        Reserve room for new items of the caller.

        :param taken: False where they come at another time, and only whether there is room now is asked.
        :raises Refusal: 409 where there is none; 429 where the rest is for others.
        """
        self.require_room_of(holder(owner_of(context), context.owner), further, taken=taken)

    def require_room_of(self, whose: Holder, further: int, *, taken: bool = True) -> None:
        """Reserve room as :meth:`require_room` does, for the given holder."""
        now = self._now()
        every = len(self) + self.stock.coming(now)
        if every + further > self.section.max_items:
            raise Refusal(
                Reason.COLLECTION_FULL,
                f"The collection {self.name} has {len(self)} items, of {self.section.max_items} that it takes.",
                details={"collection": self.name, "max_items": self.section.max_items},
            )
        self._require_share(whose, every, further)
        if taken:
            self.stock.expect(whose, further, now + UNDER_WAY)

    def _require_share(self, whose: Holder, every: int, further: int) -> None:
        """
        Check the shares of an agent and its principal.

        :raises Refusal: 429; an agent's first item needs room alone.
        """
        share = self.section.max_share
        own = self.stock.count_taken("owner", whose)
        if not further or own + further == 1:
            return
        for member, part in (("owner", share), ("principal", share_together(share))):
            has = self.stock.count_taken(member, whose)
            most = share_of_free(self.section.max_items, every - has, part)
            if has + further > most:
                together = "" if member == "owner" else " and the other agents of its owner"
                raise Refusal(
                    Reason.OWNER_SHARE_USED,
                    f"The caller{together} may have {most} items in the collection {self.name} with its present use "
                    f"by others, and already has {has}.",
                    remedy="Take items out, or ask the operator to raise max_share of the collection.",
                    details={"scope": member, "collection": self.name, "limit": most, "has": has},
                    headers=(("Retry-After", "60"),),
                )

    def transfer(self, item: Item, to: Agent, state_owner: str, reason: Any = None) -> Change:
        """
        Return the change that transfers an item to another agent; the chain of its owners grows by one.

        :param state_owner: the name under which the new owner's state is kept.
        :raises Refusal: 429 where the new owner has as much from others as it may.
        """
        if holder_of(item.held).owner != state_owner:
            self._require_room_for_gift(item, state_owner)
        stamp = self._instants.stamp(self._now())
        link = {"agent_id": to.agent_id, "since": stamp, **({"reason": reason} if reason is not None else {})}
        value = {
            **item.value,
            "version": item.value["version"] + 1,
            "owner": to.agent_id,
            "owners": [*item.value["owners"], link],
            "updated_at": stamp,
        }
        return self._change(value, state_owner, item.held.version)

    def _require_room_for_gift(self, item: Item, state_owner: str) -> None:
        """
        Keep room in an agent's quota for what it enters itself: it is not asked before a transfer.

        :raises Refusal: 429.
        """
        quota, gifts = self._held.holding(COLLECTION_ITEM), self._stocks.gifts_of(state_owner)
        most, octets = quota.per_owner // GIFTS, quota.octets_per_owner // GIFTS
        if gifts.items + 1 > most or gifts.octets + item.held.octets > octets:
            raise Refusal(
                Reason.TOO_MANY_ITEMS,
                f"The new owner may have {most} items and {octets} octets from others, and has {gifts.items} items and "
                f"{gifts.octets} octets.",
                remedy="Ask it to take some of them out, or transfer to another agent.",
                details={"parameter": "to_principal", "limit": most, "octets": octets},
                headers=(("Retry-After", "60"),),
            )

    def require_sound(self, data: Any, name: str = "data") -> None:
        """
        Data that the collection takes.

        :raises Refusal: 422, with what is wrong.
        """
        if len(jsontext.encode(data)) > LONGEST:
            raise parameters.invalid(name, f"{name} has more than {LONGEST} octets.", "Keep less in one item.")
        if self.schema is None:
            return
        try:
            if self.schema.is_valid(data):
                return
        except TooCostly:
            raise Refusal(Reason.VALUE_TOO_COSTLY) from None
        raise Refusal(
            Reason.INVALID_INPUT,
            f"{name} does not follow the schema of the collection {self.name}.",
            details={"parameter": name, "collection": self.name, "faults": self.schema.faults(data)},
        )

    @staticmethod
    def _change(value: Mapping[str, Any], owner: str, expected: int) -> Change:
        key = f"{value['collection']}/{value['id']}"
        return Change(kind=COLLECTION_ITEM, key=key, value=value, owner=owner, expected=expected)


class Collections:
    """
    Every collection of one configuration.

    :param now: seconds since the Unix epoch.
    """

    def __init__(self, sections: Sequence[CollectionSection], stocks: Stocks, now: Callable[[], float]) -> None:
        own = [CollectionSection(name=name, max_items=100_000) for name in OWN]
        self._named = {section.name: Collection(section, stocks, now) for section in (*sections, *own)}

    def readable(self, context: BuiltInContext) -> list[Collection]:
        """Return the collections that the caller may read."""
        return [each for each in self._named.values() if each.may_read(context)]

    def find(self, name: str) -> Collection | None:
        """Return a collection by name; None if there is none."""
        return self._named.get(name)

    def require(self, context: BuiltInContext, name: str, parameter: str) -> Collection:
        """
        Return a collection that the caller may read or write; refuse otherwise.

        :param parameter: that names it.
        :raises Refusal: 404 for what is none, and for those that are closed to the caller.
        """
        found = self._named.get(name)
        if found is None or not (found.may_read(context) or found.may_write(context)):
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": parameter})
        return found

    def require_reading(self, context: BuiltInContext, name: str, parameter: str) -> Collection:
        """
        Return a collection that the caller may read.

        :raises Refusal: 404 for a collection that it may not read, and 401 for a caller known by a header alone.
        """
        found = self._named.get(name)
        if found is not None:
            found.require_believed(context)
        if found is None or not found.may_read(context):
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": parameter})
        return found

    def item(self, context: BuiltInContext, reference: str) -> Item | None:
        """Return the item that ``collection/id`` names, if the caller may read it."""
        name, slash, item_id = reference.partition("/")
        found = self._named.get(name) if slash else None
        if found is None or not found.may_read(context):
            return None
        return found.find_visible(context, item_id)
