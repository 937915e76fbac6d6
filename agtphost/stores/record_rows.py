"""A record as a row of an SQL database: how it is read, and that it is what was signed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from agtphost.stores.rows import DamagedRecord, DamagedRow, RecordFormat, RecordKind, StoredRecord
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID

RECORD = """
    SELECT c.agent_id, r.seq, r.audit_id, p.audit_id, r.kind, r.format, r.signed,
        r.issued_at, r.caller, r.previous, r.number
    FROM record r JOIN chain c ON c.number = r.chain LEFT JOIN record p ON p.number = r.previous
"""
"""Rows that :func:`check_record` takes; conditions are added to it."""


_CHECKED = (
    *("chain", "seq", "audit_id", "previous", "kind", "format", "signed", "issued_at", "caller"),
    *("number of the record before", "number"),
)
_CHECKED_TYPES = (bytes, int, bytes, bytes, int, int, bytes, int, bytes, int, int)
"""Of the columns of :data:`RECORD`."""


def check_record(row: Sequence[Any]) -> StoredRecord:
    """
    Return the record of a row of :data:`RECORD`.

    :raises DamagedRecord: it is not what was signed.
    """
    chain, seq, audit_id, previous, kind, form, signed = row[:7]
    for name, value, expected in zip(_CHECKED, row, _CHECKED_TYPES, strict=True):
        if type(value) is not expected and not (name == "previous" and value is None):
            raise DamagedRow("record", str(row[10]), f"{name} is of the wrong type")
    if sha256(signed).digest() != audit_id:
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r} is not what was signed")
    if (previous is None) != (row[9] == 0):
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r} has lost its predecessor")
    try:
        kind, form = RecordKind(kind), RecordFormat(form)
    except ValueError as error:
        raise DamagedRecord(f"record {seq} of chain {chain.hex()!r}: {error}") from None
    return StoredRecord(
        chain=chain.hex(),
        seq=seq,
        audit_id=audit_id.hex(),
        previous_audit_id=ZERO_AUDIT_ID if previous is None else previous.hex(),
        kind=kind.label,
        format=form.label,
        signed=signed,
    )
