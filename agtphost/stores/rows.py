"""
What goes in and out of a store: plain rows, no behaviour.

Identifiers are octets here and hexadecimal text everywhere else; times are
milliseconds since the Unix epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from agtphost.errors import DamagedEvidence
from agtphost.vocabulary.display_names import CLAIMED, EVENT, UNKNOWN
from agtphost.vocabulary.status import Status


class StoreError(Exception):
    """The store cannot be opened, or does not hold what was written; the message is for the operator."""


class ConflictError(StoreError):
    """The database undid a transaction because of another one; the same transaction may be repeated."""


class DamagedRecord(StoreError, DamagedEvidence):
    """A stored record is not what was signed. Never reported as a missing record."""


class DamagedRow(DamagedRecord):
    """
    A row that no writer of this program wrote: a value of the wrong type, or one that cannot be.

    :param table: its table.
    :param row: its key, as text.
    :param explanation: which column, and what is wrong with it.
    """

    def __init__(self, table: str, row: str, explanation: str) -> None:
        super().__init__(f"table {table}, row {row}: {explanation}")
        self.table = table
        self.row = row
        self.explanation = explanation


class RecordKind(IntEnum):
    """The kind of a record, as a small number on disk."""

    RECORD = 0
    """An Attribution-Record: companion section 5."""

    EVENT = 1
    """A lifecycle event: companion section 6."""

    @property
    def label(self) -> str:
        """The ``kind`` of :class:`StoredRecord`."""
        return self.name.lower()


class RecordFormat(IntEnum):
    """The signature format of a record, as a small number on disk."""

    JWS = 0
    """``signed`` is the ASCII of a JWS Compact."""

    COSE = 1
    """``signed`` is a COSE_Sign1 message."""

    @property
    def label(self) -> str:
        """The ``format`` of :class:`StoredRecord`."""
        return self.name.lower()


class HeadRow(NamedTuple):
    """The newest record of a chain."""

    chain: int
    """The number that the store gave the chain."""

    number: int
    """The record's own number."""

    seq: int
    audit_id: bytes
    issued_at: int


UNPROVEN = bytes(32)
"""
The caller in the facet of a call whose caller only claims its Agent-ID: it may have invented it.

No agent has this Agent-ID, since an Agent-ID is the SHA-256 of a Genesis.
"""


class Facet(NamedTuple):
    """
    Values of a record that many records share, by which records are found and counted.

    The table ``facet`` has each combination once, and each record names its own.
    """

    agent: bytes
    """Agent-ID of the responding agent; empty for the host's own chain."""

    caller: bytes
    """Agent-ID of the caller; empty where there was none."""

    status: int
    method: str
    tool: str = ""
    """The tool or action that was called; empty where it was something else."""

    reason: str = ""
    """Why the call was refused; empty where it was not, and for lifecycle events."""

    person: str = ""
    operator: str = ""
    """Name of the operator."""

    operator_key: str = ""
    """Fingerprint of the operator's key."""

    @property
    def is_event(self) -> bool:
        """Whether the records are events: every other record has a method or a reason."""
        return not (self.method or self.reason)

    @property
    def is_refusal(self) -> bool:
        """Whether the host refused the calls; one that it holds until a person decides has a reason, too."""
        return bool(self.reason) and self.status != Status.ACCEPTED

    @property
    def call_name(self) -> str:
        """
        Return what the records are counted as: the tool or action, or else the method.

        ``(event)`` for events, and ``(unknown)`` for refused calls whose method the host does not have.
        """
        return self.tool or self.method or (EVENT if self.is_event else UNKNOWN)

    @property
    def caller_id(self) -> str:
        """The Agent-ID of the caller; empty where there was none, or where the caller only claimed it."""
        return "" if self.caller == UNPROVEN else self.caller.hex()

    @property
    def counted_caller(self) -> str:
        """The Agent-ID, :data:`CLAIMED` for a caller that only claimed one, or empty text for a call without one."""
        return CLAIMED if self.caller == UNPROVEN else self.caller.hex()


NO_FACET = Facet(b"", b"", 0, "")
"""The facet of a row that tests make without one."""


class RecordRow(NamedTuple):
    """A record to append; all fields but the last are in the order of the table's columns."""

    number: int
    """1, 2, 3 ... within the store."""

    chain: int
    seq: int
    audit_id: bytes
    previous: int
    """The number of the record before it in the chain; 0 for the first."""

    kind: int
    format: int
    issued_at: int
    status: int
    method: str
    path: str
    caller: bytes
    """Agent-ID of the caller; empty where there was none."""

    signed: bytes
    session: str = ""
    """Session-ID; empty where the call had none."""

    task: str = ""
    """Task-ID; empty where the call had none."""

    facet: Facet = NO_FACET


_FIELDS = RecordRow._fields
FACET, SIGNED, ISSUED_AT = map(_FIELDS.index, ("facet", "signed", "issued_at"))
SESSION, TASK, PATH = map(_FIELDS.index, ("session", "task", "path"))
"""Places of fields in :class:`RecordRow`."""


class StateRow(NamedTuple):
    """An agent's lifecycle state."""

    status: str
    since: str
    reason: str | None
    successor: str | None
    deadline: str | None
    org_domain: str | None = None
    """The domain whose end led here."""


class ItemRow(NamedTuple):
    """A state item: durable state of a built-in method."""

    kind: str
    key: str
    owner: bytes
    """Agent-ID; empty where it is the host's."""

    version: int
    """1, 2, 3 ...: counts the times it was put."""

    expires_at: int | None
    value: bytes | None
    """JSON; None where it was removed, which is never stored."""


AGENT = ""
"""The kind of a :class:`StateChangeRow` about a row of the lifecycle table."""


class StateChangeRow(NamedTuple):
    """A row of `held` or `lifecycle` that a record changed."""

    number: int
    """1, 2, 3 ... without a gap since the newest baseline."""

    record: int
    """The number of the record that signs this entry."""

    kind: str
    """As in `held`; :data:`AGENT` for a row of `lifecycle`."""

    key: str
    """As in `held`; the Agent-ID for a row of `lifecycle`."""

    leaf: bytes | None
    """The digest of the row as it became; None where it was removed."""


class SignedRow(NamedTuple):
    """The octets of one record as they lie in the store, not compared with anything."""

    number: int
    """Its place among all records, counted from 1."""

    format: str
    """``jws`` or ``cose``; another text where the column says neither."""

    signed: bytes


class CheckpointRow(NamedTuple):
    """An issued checkpoint of the tree over all records."""

    size: int
    """Number of records it covers."""

    issued_at: int
    note: str
    """The signed note."""

    previous: int = 0
    """Size of the checkpoint before it; 0 for the first."""


class ReservationRow(NamedTuple):
    """A keyed request."""

    name: bytes
    """SHA-256 over agent and key; the key itself is never stored."""

    digest: bytes
    """Of the request: another one under the same key is an error."""

    reserved_at: int
    result: bytes | None
    """None until the request is answered."""

    owner: bytes | None = None
    """The agent whose quota it counts against, or None."""

    seal: bytes = b""
    """The host's signature over the claim; empty where it is not known."""

    record: int = 0
    """Number of the record that answered it; 0 while it is unanswered."""


class AnswerRow(NamedTuple):
    """The answer of a keyed request, to be stored in its reservation."""

    name: bytes
    result: bytes
    record: int
    """Number of the record that is written with it."""


class KeyedRow(NamedTuple):
    """The space that the keyed requests of one agent take, or those of all agents."""

    owner: bytes
    """Empty: all of them."""

    keys: int
    octets: int
    """Of their stored answers."""

    since: int
    """None of them is older."""

    digest: bytes = b""
    """Of the other columns; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The conditions by which an export selects records; each narrows the selection."""

    chain: str | None = None
    """Agent-ID of the responding agent, ``""`` for the host's own chain."""

    caller: str | None = None
    """Agent-ID of the caller."""

    since: int | None = None
    """Issued at this time or later."""

    until: int | None = None
    """Issued before this time."""

    @property
    def whole_chains(self) -> bool:
        """Whether the selection leaves no record of a chain out."""
        return self.caller is None and self.since is None and self.until is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record of a chain as it is stored."""

    chain: str
    seq: int
    """1, 2, 3 ... without a gap within its chain."""

    audit_id: str
    previous_audit_id: str
    kind: str
    """``record`` (an Attribution-Record) or ``event`` (a lifecycle event)."""

    format: str
    """``jws`` or ``cose``."""

    signed: bytes
    """The signed octets: the ASCII JWS, or the COSE_Sign1 message."""
