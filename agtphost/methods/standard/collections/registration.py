"""REGISTER and IMPORT: what comes into a collection (methods v01 sections 5.2 and 6.4)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.collections.store import Collection, Item, is_item_id
from agtphost.methods.standard.messages.delivery import prepare_changes
from agtphost.methods.standard.pure import formats
from agtphost.methods.standard.pure.number_columns import Columns
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Slices

RECORDS = 500
"""Of one IMPORT: they become durable in one transaction."""

POLICIES = ("skip", "overwrite", "merge")
FORMATS = ("csv", "json", "jsonl")


def read_item_id(data: Mapping[str, Any], name: str) -> str | None:
    """
    Return the identifier that data has as ``id``; None where it has none.

    :raises Refusal: 422 for one that cannot be one.
    """
    item_id = data.get("id")
    if item_id is None:
        return None
    if isinstance(item_id, int) and not isinstance(item_id, bool):
        item_id = str(item_id)
    if not is_item_id(item_id):
        raise parameters.invalid(
            name, f"{name}.id must be an identifier.", "Use 1 to 128 letters, digits and . _ : @ -, or leave it out."
        )
    return str(item_id)


def _digest(*parts: Any) -> str:
    return sha256(jsontext.encode(parts)).hexdigest()


@implementer(IBuiltInHandler)
class Registration:
    """The handler of REGISTER."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._collections = parts.collections

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the REGISTER call.

        :raises Refusal: 404, 403 and 422 for what cannot be entered; 409 for an identifier or a key that is taken.
        """
        given, data = context.input, context.input["data"]
        collection = self._collections.require(context, given["entity_type"], "entity_type")
        if collection.own:
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": "entity_type"})
        caller = collection.require_writing(context)
        key, named = given.get("idempotency_key"), read_item_id(data, "data")
        mark = _digest(context.owner, key, data) if key else ""
        item_id = named or (_digest(context.owner, collection.name, key)[:32] if key else secrets.token_hex(16))
        known = collection.get(item_id)
        if known is not None:
            if key and known.value.get("registered") == mark:
                return self._receipt(collection, known.value, duplicate=True)
            raise Refusal(
                Reason.ITEM_EXISTS,
                details={"parameter": "idempotency_key" if key and named is None else "data", "entity_id": item_id},
            )
        value, change = collection.put(context, item_id, data, registered=mark)
        collection.require_room(context, 1)
        return self._receipt(collection, value, change, owner=caller.agent_id)

    @staticmethod
    def _receipt(
        collection: Collection, value: Mapping[str, Any], *changes: Change, duplicate: bool = False, owner: str = ""
    ) -> Answer:
        told = {
            "entity_id": value["id"],
            "entity_type": collection.name,
            "resource_id": f"{collection.name}/{value['id']}",
            "version": value["version"],
            "owner": owner or value["owner"],
            "registered_at": value["created_at"],
            "duplicate": duplicate,
        }
        return Answer(result=told, changes=changes, extra={"resource_id": told["resource_id"]})


@implementer(IBuiltInHandler)
class Importing:
    """The handler of IMPORT."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the IMPORT call.

        :raises Refusal: 404, 403 and 422 for what cannot be entered, and where; nothing is entered then.
        """
        given = context.input
        collection = self._parts.collections.require(context, given["target"], "target")
        collection.require_believed(context)
        if collection.own:
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": "target"})
        collection.require_writing(context)
        policy = parameters.choice(given, "conflict_policy", POLICIES, POLICIES[0])
        merged = Merged(context, collection, policy)
        rows, columns = await self._parts.offload(merged.read, given)
        collection.require_room(context, merged.counts["created"])
        return Answer(
            result={
                "target": collection.name,
                "records": rows,
                **merged.counts,
                "conflict_policy": policy,
                "conflicts": merged.conflicts,
                **({"columns": columns} if columns else {}),
            },
            changes=await prepare_changes(self._parts, (*merged.changes.values(), *merged.former)),
            extra={"imported": {"collection": collection.name, "records": rows, **merged.counts}},
        )


class Merged:
    """The result of merging rows into a collection, as the collection is when this is made."""

    def __init__(self, context: BuiltInContext, collection: Collection, policy: str) -> None:
        self._there = collection.items_after(context)
        self._context = context
        self._collection = collection
        self._policy = policy
        self._values: dict[str, Mapping[str, Any]] = {}
        # New items are adjacent in the store, which then writes a third less than with separate places.
        self._prefix = secrets.token_hex(12)
        self.changes: dict[str, Change] = {}
        self.former: list[Change] = []
        self.conflicts: list[dict[str, Any]] = []
        self.counts = {"created": 0, "overwritten": 0, "merged": 0, "skipped": 0}

    def read(self, given: Mapping[str, Any]) -> tuple[int, Mapping[str, str]]:
        """
        Take every row of a source: off the reactor.

        :return: how many there are, and the types of the columns of CSV.
        :raises Refusal: 422 for an invalid source, and as :meth:`take`.
        """
        schema = self._collection.schema
        rows, columns = _rows(given, None if schema is None else schema.schema)
        slices = Slices()
        for number, row in enumerate(rows):
            slices.pause()
            self.take(number, row)
        return len(rows), columns

    def take(self, number: int, row: Mapping[str, Any]) -> None:
        """
        Take one row, by its ``id``; one without is new.

        :raises Refusal: 422, naming the row.
        """
        try:
            item_id = read_item_id(row, "source") or f"{self._prefix}{number:08x}"
            self._take(item_id, row)
        except Refusal as refusal:
            refusal.details = {**refusal.details, "parameter": "source", "record": number}
            raise

    def _take(self, item_id: str, row: Mapping[str, Any]) -> None:
        held = self._there.get(item_id)
        known = None if held is None else Item(held)
        if known is None and item_id not in self.changes:
            self._values[item_id], self.changes[item_id] = self._collection.put(self._context, item_id, row)
            self.counts["created"] += 1
            return
        if known is None:
            raise parameters.invalid("source", f"Two records have the identifier {item_id!r}.", "Leave one out.")
        self._settle(item_id, row, known)

    def _settle(self, item_id: str, row: Mapping[str, Any], known: Item) -> None:
        data = known.value["data"]
        foreign = known.held.owner != self._context.owner
        if data == row and not foreign:
            self.counts["skipped"] += 1
            return
        if self._policy == "skip" or foreign:
            resolution = "not the caller's" if foreign and self._policy != "skip" else "skipped"
            self.counts["skipped"] += 1
        else:
            resolution = "overwritten" if self._policy == "overwrite" else "merged"
            whole = {**data, **row} if resolution == "merged" and isinstance(data, Mapping) else dict(row)
            self.changes[item_id], *former = self._collection.replace(self._context, known, whole)
            self.former += former
            self.counts[resolution] += 1
        self.conflicts.append({"id": item_id, "resolution": resolution})


def _rows(
    given: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> tuple[list[Mapping[str, Any]], Mapping[str, str]]:
    """
    Return the records of a source (JSON, or text of a format), and the column types of CSV.

    :param schema: that each record has to follow.
    :raises Refusal: 422 for what is none, or too many.
    """
    source, form = given["source"], given.get("format")
    types: Mapping[str, str] = {}
    if isinstance(source, str):
        if "://" in source[:16] and "\n" not in source:
            raise parameters.invalid(
                "source", "source is a URI, but this host fetches nothing for its callers.", "Send the data itself."
            )
        form = parameters.choice(given, "format", FORMATS, formats.guess_format(source))
        source = formats.read(source, form)
    elif form not in (None, "json"):
        raise parameters.invalid("format", f"source is JSON, but format is {str(form)[:32]!r}.", "Send it as text.")
    rows = source if isinstance(source, list) else [source]
    if not 1 <= len(rows) <= RECORDS or not all(isinstance(row, Mapping) for row in rows):
        raise parameters.invalid(
            "source", f"source is not 1 to {RECORDS} records, each an object.", "Send more of them in parts."
        )
    if form == "csv":
        columns = Columns(rows, schema)
        rows, types = [columns.convert(row) for row in rows], columns.types
    return rows, types
