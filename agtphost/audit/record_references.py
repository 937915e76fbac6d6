"""A body that names the event of its record, and an item that names the record it changed with."""

from __future__ import annotations

from hashlib import sha256

from agtphost.audit.drafts import Change, Draft, Sealed
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext


class Unrenderable(Exception):
    """A draft's ``render`` failed."""


def link_row(row: ItemRow, change: Change, audit_id: str) -> ItemRow:
    """Return the row, with the Audit-ID of the record that it is committed with if the change asks for it."""
    if not change.linked or change.value is None:
        return row
    return row._replace(value=jsontext.encode({**change.value, change.linked: audit_id}))


def render_body(draft: Draft, event: Sealed) -> bytes | None:
    """Return the response body that names the event; its hash goes into the record."""
    if draft.render is None:
        return None
    try:
        body = draft.render(event)
    except Exception as error:
        raise Unrenderable(repr(error)) from error
    draft.payload["result_hash"] = sha256(body).hexdigest()
    return body
