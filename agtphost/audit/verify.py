"""
The verification walk: does a chain say what was signed, all of it, in order?

Pure, and ignorant of stores: it takes records from anywhere and trusts
nothing that comes with them. Procedure: AGTP-IDENTIFIERS section 8.7. What it
cannot know is whether the newest records of a chain are missing: for that,
give it the heads that are expected. Where a host has changed its signing key,
the record in its own chain that links both keys makes the next one known, and
ends the use of the one before: the first key is enough for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.host_clock import JumpKind
from agtphost.identity import envelope, key_history
from agtphost.identity.jws import JWSError
from agtphost.identity.key_history import Succession
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID

CLOCK_EVENTS = frozenset(kind.value for kind in JumpKind)


class FaultKind(Enum):
    """The kinds of faults of a record or a chain."""

    HASH = "hash"
    """The Audit-ID is not the hash of the signed octets."""

    SIGNATURE = "signature"
    """The octets are not a record signed by a known key."""

    UNSIGNED = "unsigned"
    """``alg: none`` where signatures are required."""

    KEY = "key"
    """A record was signed with a key whose use had ended, or links keys that do not belong together."""

    GAP = "gap"
    """A place in the chain is missing, or taken twice."""

    LINK = "link"
    """``previous_audit_id`` does not name the record before."""

    TIME = "time"
    """The signed time is missing, or earlier than that of the record before."""

    PLACE = "place"
    """The signed content belongs somewhere else: another chain, another place, or no chain at all."""

    HEAD = "head"
    """The chain does not end where it should."""

    PROOF = "proof"
    """A proof of membership does not lead to the root of the checkpoint, or that is not the host's."""

    FORM = "form"
    """The octets are not a record."""

    TABLE = "table"
    """A row of the store says something else than what was signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFault:
    """A fault of a record or a chain."""

    kind: FaultKind
    chain: str
    seq: int
    """0 where the fault is not one record's."""

    audit_id: str
    explanation: str
    table: str = ""
    """Of the store; empty where the fault is not that of a row."""

    row: str = ""
    """The key of the row."""

    @property
    def signature_unverified(self) -> bool:
        """Whether the record is not authoritative, for want of a signature (core v08 section 10.9)."""
        return self.kind in (FaultKind.SIGNATURE, FaultKind.UNSIGNED) or (
            self.kind is FaultKind.KEY and self.audit_id != ""
        )

    def __str__(self) -> str:
        if self.table:
            return f"{self.kind.value}: {self.table}, row {self.row}: {self.explanation}"
        where = self.chain or "the host's own chain"
        mark = " [signature_unverified]" if self.signature_unverified else ""
        return f"{self.kind.value}: {where}, record {self.seq} ({self.audit_id or '-'}): {self.explanation}{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEnd:
    """The last record of a chain."""

    seq: int
    audit_id: str
    issued_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockNote:
    """A signed event of the system's clock: see :mod:`agtphost.audit.host_clock`."""

    event: str
    """``clock-jumped``, ``clock-jump-believed`` ..."""

    issued_at: str
    system_time: str
    seconds: float
    """How far the system's clock was ahead; negative where it was behind."""

    def __str__(self) -> str:
        return f"{self.event} at {self.issued_at}: the system's clock showed {self.system_time} ({self.seconds:+.0f} s)"


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of verifying records."""

    records: int = 0
    unsigned: int = 0
    """Records with ``alg: none``: part of the chain, and proof of nothing."""

    heads: dict[str, ChainEnd] = field(default_factory=dict)
    """The last record seen of each chain."""

    faults: list[RecordFault] = field(default_factory=list)
    whole: bool = True
    """Whether the chains are meant to be complete; in a selection, records can be missing unnoticed."""

    servers: set[str] = field(default_factory=set)
    """Every ``server_id`` that a verified record was signed with."""

    keys: KeyRing = field(default_factory=KeyRing)
    """Those that were given, and those that followed them."""

    clock: list[ClockNote] = field(default_factory=list)
    """What records of the host's own chain say of the system's clock, in their order."""

    proven: int = 0
    """Records that were proven to be in the log of :attr:`log`."""

    log: str = ""
    """What the proofs lead to: origin and size of the checkpoint; empty where there is none."""

    @property
    def unverified_ids(self) -> list[str]:
        """
        Return the Audit-IDs of the records that are not authoritative: ``signature_unverified`` (core v08 section
        10.9).
        """
        return list(dict.fromkeys(fault.audit_id for fault in self.faults if fault.signature_unverified))

    @property
    def ok(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.faults


class Verifier:
    """
    Takes records one by one, each chain oldest first; chains may alternate.

    :param keys: the keys that may have signed, by ``kid``; of a host that changed its key, those from some time on
        are enough, and of a :class:`KeyRing` the ends of their use count.
    :param allow_unsigned: whether unsigned records pass.
    :param whole: whether the chains are complete; in a selection, only neighbours can be compared.
    """

    def __init__(self, keys: Mapping[str, VerifyingKey], *, allow_unsigned: bool = False, whole: bool = True) -> None:
        self.keys = KeyRing.copy_of(keys)
        """Grows with each record that links a known key to its successor."""

        self._allow_unsigned = allow_unsigned
        self._whole = whole
        self._report = Report(whole=whole, keys=self.keys)
        self._signers: dict[str, str] = {}
        self._stated: list[Succession] = []

    def add(self, record: StoredRecord) -> str:
        """
        Check the next record.

        :return: the ``kid`` of the key that signed it, where the host has had several keys; else the empty string.
        """
        report = self._report
        report.records += 1
        if sha256(record.signed).hexdigest() != record.audit_id:
            self._fault(FaultKind.HASH, record, "the Audit-ID is not the hash of what was signed")
        payload = self._payload(record)
        issued_at = "" if payload is None else self._content(record, payload)
        linking = payload is not None and payload.get("event_type") == key_history.EVENT and record.chain == HOST_CHAIN
        signer = ""
        if payload is not None and (linking or self.keys.until):
            signer = envelope.signer(record.format, record.signed)
            self._signed_in_time(record, signer, payload, linking=linking)
        self._place(record, issued_at)
        if payload is not None and record.chain == HOST_CHAIN and payload.get("event_type") in CLOCK_EVENTS:
            report.clock.append(_clock_note(payload))
        before = report.heads.get(record.chain)
        if not issued_at and before is not None:
            issued_at = before.issued_at
        report.heads[record.chain] = ChainEnd(seq=record.seq, audit_id=record.audit_id, issued_at=issued_at)
        return signer

    def follow(self, statement: object, server_id: str) -> Succession | None:
        """
        Follow a statement of two keys that came with the records, or note that it is forged.

        :return: None where it is, and where it is one of keys that are not known.
        """
        try:
            link = key_history.read_statement(statement)
            if link.statement["server_id"] != server_id:
                raise KeyFormatError("it is of another host")
            return link if self.keys.follow(link) else None
        except KeyFormatError as error:
            self.note(FaultKind.KEY, HOST_CHAIN, "", f"a statement of two keys does not verify: {error}")
            return None

    def complete(self, chain: str) -> bool:
        """Return whether a chain was seen, and is meant to be complete."""
        return self._whole and chain in self._report.heads

    @property
    def stated_successions(self) -> tuple[Succession, ...]:
        """Return the successions that records of the host's own chain stated."""
        return tuple(self._stated)

    def _signed_in_time(self, record: StoredRecord, signer: str, payload: Mapping[str, Any], *, linking: bool) -> None:
        """Report a fault if the key was not in use when it signed this record."""
        last = self._signers.get(record.chain, signer)
        if self.keys.precedes(signer, last):
            self._fault(FaultKind.KEY, record, f"{signer} signed it after its successor {last} was in use")
        elif linking:
            # The old key's last word: it ends the use that it is signed in.
            self._follow_link(record, signer, payload)
        elif self.keys.has_ended(signer, payload.get("issued_at")):
            self._fault(FaultKind.KEY, record, f"the use of {signer} ended at {self.keys.until[signer]}, before this")
        else:
            self._signers[record.chain] = signer

    def _follow_link(self, record: StoredRecord, signer: str, payload: Mapping[str, Any]) -> None:
        try:
            link = key_history.read_event(payload)
            if link.old.kid != signer:
                raise KeyFormatError(f"it is signed by {signer}, and not by the key that it retires")
            if self.keys.has_ended(signer, payload.get("issued_at")) and link.rotated_at != self.keys.until[signer]:
                raise KeyFormatError(f"the use of {signer} had ended before")
            self.keys.follow(link)
        except KeyFormatError as error:
            self._fault(FaultKind.KEY, record, f"the link from one key to the next does not verify: {error}")
            return
        self._stated.append(link)

    def finish(self, expected_heads: Mapping[str, str] | None = None) -> Report:
        """
        Return the report.

        :param expected_heads: Audit-ID of the newest record, by chain, known from elsewhere.
        """
        for chain, audit_id in (expected_heads or {}).items():
            end = self._report.heads.get(chain)
            if end is None or end.audit_id != audit_id:
                self.note(FaultKind.HEAD, chain, audit_id, "the chain does not end with this record")
        return self._report

    def note(self, kind: FaultKind, chain: str, audit_id: str, explanation: str) -> None:
        """Add a fault that is not one record's."""
        self._report.faults.append(
            RecordFault(kind=kind, chain=chain, seq=0, audit_id=audit_id, explanation=explanation)
        )

    def note_row(self, table: str, row: str, explanation: str) -> None:
        """Add a fault of one row of a store's table."""
        fault = RecordFault(
            kind=FaultKind.TABLE, chain="", seq=0, audit_id="", explanation=explanation, table=table, row=row
        )
        self._report.faults.append(fault)

    def proven(self, record: StoredRecord, why_not: str = "") -> None:
        """Count a record that was proven to be in the log, or say why its proof does not hold."""
        if why_not:
            self._fault(FaultKind.PROOF, record, why_not)
        else:
            self._report.proven += 1

    def proves(self, log: str) -> None:
        """Set the log to which the proofs lead, for the report."""
        self._report.log = log

    def _fault(self, kind: FaultKind, record: StoredRecord, explanation: str) -> None:
        self._report.faults.append(
            RecordFault(
                kind=kind,
                chain=record.chain,
                seq=record.seq,
                audit_id=record.audit_id,
                explanation=explanation,
            )
        )

    def _payload(self, record: StoredRecord) -> Mapping[str, Any] | None:
        """Return the signed content of a record; None if it cannot be verified."""
        if record.format not in (envelope.JWS, envelope.COSE):
            self._fault(FaultKind.FORM, record, f"the format {record.format!r} is not known")
            return None
        try:
            try:
                return envelope.verify(record.format, record.signed, self.keys)
            except JWSError as error:
                if error.reason != "unsigned":
                    raise
            payload = envelope.verify(record.format, record.signed, self.keys, allow_unsigned=True)
        except JWSError as error:
            self._fault(FaultKind.SIGNATURE, record, str(error))
            return None
        self._report.unsigned += 1
        if not self._allow_unsigned:
            self._fault(FaultKind.UNSIGNED, record, "the record is not signed")
        return payload

    def _content(self, record: StoredRecord, payload: Mapping[str, Any]) -> str:
        """Report faults if the signed content is of another place; return its time."""
        if payload.get("previous_audit_id") != record.previous_audit_id:
            self._fault(FaultKind.PLACE, record, "the signed previous_audit_id is another one")
        if payload.get("agent_id") != record.chain:
            self._fault(FaultKind.PLACE, record, "the record was signed for another chain")
        if record.kind != ("event" if "event_type" in payload else "record"):
            self._fault(FaultKind.PLACE, record, f"the record is not a {record.kind[:20]}")
        server = payload.get("server_id")
        if isinstance(server, str):
            self._report.servers.add(server)
        if "durable" in payload:
            self._fault(FaultKind.PLACE, record, "the record was signed outside every chain")
        issued_at = payload.get("issued_at")
        if not isinstance(issued_at, str) or not issued_at:
            self._fault(FaultKind.TIME, record, "the record has no time")
            return ""
        return issued_at

    def _place(self, record: StoredRecord, issued_at: str) -> None:
        """Report faults if the record does not follow the previous one."""
        before = self._report.heads.get(record.chain)
        if before is None and self._whole:
            before = ChainEnd(seq=0, audit_id=ZERO_AUDIT_ID, issued_at="")
        if before is None:
            return
        adjacent = record.seq == before.seq + 1
        if record.seq <= before.seq or (self._whole and not adjacent):
            self._fault(FaultKind.GAP, record, f"it follows record {before.seq}")
        if (adjacent or self._whole) and record.previous_audit_id != before.audit_id:
            self._fault(FaultKind.LINK, record, f"the record before it is {before.audit_id}")
        # All times are written alike, in UTC to the millisecond, so they compare as text.
        if issued_at and issued_at < before.issued_at:
            self._fault(FaultKind.TIME, record, f"the record before it was issued at {before.issued_at}")


def _clock_note(payload: Mapping[str, Any]) -> ClockNote:
    seconds = payload.get("seconds")
    return ClockNote(
        event=str(payload["event_type"]),
        issued_at=str(payload.get("issued_at", "")),
        system_time=str(payload.get("system_time", "")),
        seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0,
    )


def verify_records(
    records: Iterable[StoredRecord],
    keys: Mapping[str, VerifyingKey],
    *,
    allow_unsigned: bool = False,
    whole: bool = True,
    expected_heads: Mapping[str, str] | None = None,
) -> Report:
    """
    Walk records from anywhere, each chain oldest first; see :class:`Verifier`.

    :return: every fault found; the walk goes on after each.
    """
    verifier = Verifier(keys, allow_unsigned=allow_unsigned, whole=whole)
    for record in records:
        verifier.add(record)
    return verifier.finish(expected_heads)
