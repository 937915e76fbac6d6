"""The verification walk: what it lets pass, and everything it must notice (P10)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.export import verify_export, write_export
from agtphost.audit.verify import FaultKind, Report, verify_records
from agtphost.audit.writer import GroupWriter
from agtphost.identity.keys import SigningKey
from agtphost.stores import MemoryStore, Selection
from tests.audit.drafting import (
    ALICE,
    BOB,
    KEY,
    KEYS,
    draft,
    group_writer,
    payload,
    sealed,
    sqlite_store,
    transition,
)
from tests.measuring import measured
from tests.programmes import length
from tests.rows import each_row


def chains(length: int = 12) -> list[StoredRecord]:
    """Three chains that a real writer made, events included."""
    store = MemoryStore()
    writer = group_writer(store)
    for _ in range(length // 3):
        sealed(writer, draft(), draft(BOB), draft(HOST_CHAIN))
    sealed(writer, transition(None, "suspended"))
    return list(store.records(Selection()))


def kinds(report: Report) -> set[FaultKind]:
    return {fault.kind for fault in report.faults}


def test_a_good_chain_has_no_fault() -> None:
    """Hash, signature, places, links and times of an untouched store are in order (AGTP-204)."""
    records = chains()
    report = verify_records(records, KEYS)
    assert report.ok and report.records == len(records) == 14
    assert set(report.heads) == {ALICE, BOB, HOST_CHAIN}
    heads = {chain: end.audit_id for chain, end in report.heads.items()}
    assert verify_records(records, KEYS, expected_heads=heads).ok


def flip(octets: bytes, bit: int) -> bytes:
    changed = bytearray(octets)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_is_noticed() -> None:
    """2,000 single-bit flips of signed octets, each is reported (P10)."""
    chance = random.Random(1)
    records = chains()
    for _ in range(2000):
        place = chance.randrange(len(records))
        hurt = records[place]
        changed = replace(hurt, signed=flip(hurt.signed, chance.randrange(len(hurt.signed) * 8)))
        assert not verify_records([changed], KEYS, whole=False).ok


def test_a_walk_that_trusts_the_stored_audit_id_misses_nothing_it_should_not() -> None:
    """The control: with the Audit-ID recomputed by the forger, only signature and links can tell, and do."""
    records = chains()
    forged = replace(records[3], signed=records[3].signed[:-4] + b"AAAA")
    records[3] = replace(forged, audit_id=sha256(forged.signed).hexdigest())
    assert FaultKind.HASH not in kinds(verify_records(records, KEYS))
    assert kinds(verify_records(records, KEYS)) >= {FaultKind.SIGNATURE, FaultKind.LINK}


def test_every_deletion_is_noticed() -> None:
    """Each deletion inside a chain leaves a gap; the last record needs the expected head (P10)."""
    records = chains(30)
    heads = {chain: end.audit_id for chain, end in verify_records(records, KEYS).heads.items()}
    assert len(records) >= 30
    for place in range(len(records)):
        kept = records[:place] + records[place + 1 :]
        report = verify_records(kept, KEYS, expected_heads=heads)
        assert kinds(report) & {FaultKind.GAP, FaultKind.LINK, FaultKind.HEAD}


@pytest.mark.programme
def test_every_swap_is_noticed() -> None:
    """A hundred swaps (500 at full length) of two records' content, places kept (P10)."""
    chance = random.Random(3)
    records = chains(30)
    for _ in range(length(100, 500)):
        left, right = chance.sample(range(len(records)), 2)
        swapped = list(records)
        swapped[left] = replace(records[right], chain=records[left].chain, seq=records[left].seq)
        swapped[right] = replace(records[left], chain=records[right].chain, seq=records[right].seq)
        assert not verify_records(swapped, KEYS).ok


def resign_record(record: StoredRecord, **members: object) -> StoredRecord:
    """A record of the right key but the wrong content."""
    content = payload(record.chain, issued_at="2027-01-01T00:00:00.000Z")
    content["previous_audit_id"] = record.previous_audit_id
    content.update(members)
    signature = RecordSigner(KEY).sign(content)
    return replace(record, signed=signature.octets, audit_id=signature.audit_id_text)


@each_row(
    ("change", "kind"),
    [
        (lambda record: replace(record, seq=record.seq + 1), FaultKind.GAP),
        (lambda record: replace(record, seq=record.seq - 1), FaultKind.GAP),
        (lambda record: replace(record, previous_audit_id="f" * 64), FaultKind.LINK),
        (lambda record: replace(record, kind="event"), FaultKind.PLACE),
        (lambda record: replace(record, format="xml"), FaultKind.FORM),
        (lambda record: replace(record, signed=b"\xff"), FaultKind.SIGNATURE),
        (lambda record: resign_record(record, agent_id=ALICE), FaultKind.PLACE),
        (lambda record: resign_record(record, previous_audit_id="f" * 64), FaultKind.PLACE),
        (lambda record: resign_record(record, durable=False), FaultKind.PLACE),
        (lambda record: resign_record(record, issued_at="1999-01-01T00:00:00.000Z"), FaultKind.TIME),
        (lambda record: resign_record(record, issued_at=7), FaultKind.TIME),
    ],
)
def test_each_kind_of_damage_has_its_name(change: Callable[[StoredRecord], StoredRecord], kind: FaultKind) -> None:
    """The report says what is wrong, not only that something is."""
    records = [record for record in chains() if record.chain == BOB]
    records[-1] = change(records[-1])
    assert kind in kinds(verify_records(records, KEYS))


def test_another_key_is_no_key() -> None:
    """A record of an unknown key is reported, and the kid is what finds the key (T-JW)."""
    other = SigningKey.generate()
    report = verify_records(chains(), {other.kid: other.public})
    assert kinds(report) == {FaultKind.SIGNATURE} and len(report.faults) == report.records


def test_unsigned_records_pass_only_when_asked_for() -> None:
    """``alg: none`` is a fault by default, counted either way (AGTP-305)."""
    store = MemoryStore()
    writer = group_writer(store)
    writer._signer = RecordSigner(None)
    sealed(writer, draft(), draft())
    records = list(store.records(Selection()))
    strict, lenient = verify_records(records, {}), verify_records(records, {}, allow_unsigned=True)
    assert kinds(strict) == {FaultKind.UNSIGNED}
    assert lenient.ok and lenient.unsigned == strict.unsigned == 2


def test_a_selection_is_compared_where_neighbours_are_there() -> None:
    """Without every record, links are checked between neighbours alone."""
    records = [record for record in chains() if record.chain == BOB]
    assert verify_records(records[1:3], KEYS, whole=False).ok
    assert FaultKind.LINK in kinds(
        verify_records([records[0], replace(records[1], previous_audit_id="f" * 64)], KEYS, whole=False)
    )


@measured
def test_the_walk_is_quick_enough() -> None:
    """At least 100,000 records a minute on one core (P10), by the processor's time."""
    records = chains(300)
    started = time.process_time()
    assert verify_records(records, KEYS).ok
    assert len(records) / (time.process_time() - started) > 100_000 / 60


def test_a_stream_of_both_envelopes_is_one_chain(tmp_path: Path) -> None:
    """AGTP-231, companion section 6.2: the envelope may change in mid-stream; links and export hold across it."""
    store = sqlite_store(tmp_path)
    for events, (before, after) in (("jws", (None, "suspended")), ("cose", ("suspended", "active"))):
        writer = GroupWriter(store, RecordSigner(KEY, events), server_id="agtp.test")
        writer.load()
        sealed(writer, draft(), transition(before, after))
    records = list(store.reader().records(Selection()))
    stream = [(record.kind, record.format) for record in records if record.chain == ALICE]
    assert stream == [("record", "jws"), ("event", "jws"), ("record", "jws"), ("event", "cose")]
    assert verify_records(records, KEYS).ok
    lines = list(write_export(records, server_id="agtp.test", keys=KEYS.items()))
    assert verify_export(lines, KEYS).ok
    event = next(record for record in records if record.format == "cose")
    changed = replace(event, signed=event.signed[:-1] + bytes([event.signed[-1] ^ 1]))
    changed = replace(changed, audit_id=sha256(changed.signed).hexdigest())
    faults = verify_records([changed if record is event else record for record in records], KEYS).faults
    assert FaultKind.SIGNATURE in {fault.kind for fault in faults}


def test_without_a_key_events_are_visibly_unsigned(tmp_path: Path) -> None:
    """AGTP-232: COSE has no unsigned form, so such a host writes JWS whatever was chosen."""
    store = sqlite_store(tmp_path)
    writer = GroupWriter(store, RecordSigner(None, "cose"), server_id="agtp.test")
    writer.load()
    sealed(writer, transition(None, "suspended"))
    records = list(store.reader().records(Selection()))
    assert {record.format for record in records} == {"jws"}
    assert verify_records(records, {}, allow_unsigned=True).unsigned == len(records)
