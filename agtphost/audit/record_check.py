"""Whether a row of ``record`` says the same as the octets that were signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from agtphost.audit.chain import Seconds
from agtphost.identity import envelope
from agtphost.identity.jws import JWSError
from agtphost.stores.record_index import RecordIndex, index_record
from agtphost.stores.row_shapes import find_flaw, row_name
from agtphost.stores.rows import RecordFormat, RecordKind

NUMBER, CHAIN, SEQ, AUDIT_ID, PREVIOUS, KIND, FORMAT, ISSUED_AT, STATUS, METHOD, PATH, CALLER, SIGNED = range(13)
SESSION, TASK, FACET = range(13, 16)
"""Columns of a row."""

_COMPARED: Final = ("status", "method", "path", "caller", "session", "task")

_FORMATS: Final = {int(form): form.label for form in RecordFormat}


class Finding(NamedTuple):
    """A row that is not what it has to be."""

    table: str
    row: str
    """Its key; of a row that is not there, the key that it would have."""

    explanation: str

    def __str__(self) -> str:
        return f"table {self.table}, row {self.row}: {self.explanation}"


class Examined(NamedTuple):
    """The content of a row of ``record`` and of its signed octets."""

    payload: Mapping[str, Any] | None
    """What was signed; None where it cannot be read."""

    audit_id: bytes
    """SHA-256 of the signed octets; empty where the value is not octets."""

    faults: Sequence[str]
    """What is wrong with the row alone, without regard to other rows."""

    expected: RecordIndex | None = None
    """What the record must be found by; None where its octets don't tell."""

    @property
    def agent_id(self) -> str | None:
        """Return the agent for whose chain the record was signed; None where that cannot be read."""
        agent_id = None if self.payload is None else self.payload.get("agent_id")
        return agent_id if isinstance(agent_id, str) else None


class RecordExaminer:
    """Compares rows of ``record`` with what they have signed; signatures are not looked at."""

    def __init__(self) -> None:
        self._seconds = Seconds()

    def examine(self, row: Sequence[Any]) -> Examined:
        """Compare one row."""
        faults = [flaw] if (flaw := find_flaw("record", row)) else []
        signed = row[SIGNED]
        if type(signed) is not bytes:
            return Examined(None, b"", faults)
        digest = sha256(signed).digest()
        if digest != row[AUDIT_ID] and type(row[AUDIT_ID]) is bytes:
            faults.append("audit_id is not the hash of what was signed")
        form = _FORMATS.get(row[FORMAT]) if type(row[FORMAT]) is int else None
        if form is None:
            faults += [] if flaw else [f"format is {row[FORMAT]}, which is none"]
            form = envelope.JWS
        try:
            payload = envelope.parse_unverified(form, signed)
        except JWSError as error:
            return Examined(None, digest, [*faults, f"what was signed cannot be read as {form}: {error}"])
        return Examined(payload, digest, faults, self._compare(row, payload, faults))

    def _compare(self, row: Sequence[Any], payload: Mapping[str, Any], faults: list[str]) -> RecordIndex | None:
        try:
            index = index_record(payload)
        except (ValueError, TypeError):
            faults.append("what was signed has a status or an agent that no record can have")
            return None
        expected = (index.facet.status, index.method, index.path, index.caller, index.session, index.task)
        stored = (*row[STATUS : CALLER + 1], *row[SESSION : TASK + 1])
        if stored != expected:
            # A row whose record is not indexed yet is shorter.
            for name, found, value in zip(_COMPARED, stored, expected, strict=False):
                if found != value:
                    faults.append(f"{name} is {_render_value(found)}, and {_render_value(value)} was signed")
        kind = RecordKind.EVENT if "event_type" in payload else RecordKind.RECORD
        if row[KIND] != kind:
            faults.append(f"kind is {_render_value(row[KIND])}, and a record of kind {int(kind)} was signed")
        if self._time(row[ISSUED_AT]) != payload.get("issued_at"):
            faults.append(
                f"issued_at is {_render_value(row[ISSUED_AT])}, "
                f"and {_render_value(payload.get('issued_at'))} was signed"
            )
        return index

    def _time(self, milliseconds: object) -> str | None:
        try:
            return self._seconds.text(milliseconds) if type(milliseconds) is int else None
        except (OverflowError, ValueError, OSError):
            return None


def findings_of(row: Sequence[Any], examined: Examined) -> list[Finding]:
    """Return a finding for each fault of a row alone."""
    return [Finding("record", row_name("record", row), fault) for fault in examined.faults]


def _render_value(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()[:80] or "empty"
    return ascii(value)[:120]
