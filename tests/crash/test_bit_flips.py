"""Bit rot (T-RB-10): a flipped bit anywhere in the database is noticed, or changes nothing that is read."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.verify import Report, verify_records
from agtphost.stores import DamagedRecord, Selection, open_store
from agtphost.stores.connection import connect
from agtphost.stores.record_reader import RecordReader
from tests.audit.drafting import ALICE, BOB, KEYS, draft, group_writer, sealed, transition
from tests.programmes import length

FLIPS = length(120, 10_000)


def filled(path: Path) -> tuple[bytes, list[StoredRecord]]:
    """The octets of a store with some records, and what it holds."""
    store = open_store(f"sqlite:{path}", create=True)
    writer = group_writer(store)
    for _ in range(24):
        sealed(writer, draft(ALICE), draft(BOB), draft(ALICE))
    sealed(writer, transition(None, "suspended"))
    reader = store.reader()
    records = list(reader.records(Selection()))
    # Whoever closes last folds the log into the file.
    reader.close()
    store.close()
    assert noticed(path, path.read_bytes(), records) is None
    return path.read_bytes(), records


def noticed(path: Path, octets: bytes, good: list[StoredRecord]) -> str | None:
    """What a reader of these octets is told: an error, a fault, or None where all reads as before."""
    path.write_bytes(octets)
    reader = RecordReader(str(path), connect)
    heads = {record.chain: record.audit_id for record in good}
    try:
        records = list(reader.records(Selection()))
        report = verify_records(records, KEYS, expected_heads=heads)
        if records != good and report.ok:
            return ""
        return None if report.ok else str(report.faults[0])
    except (DamagedRecord, sqlite3.Error, UnicodeDecodeError, ValueError) as error:
        return repr(error)
    finally:
        reader.close()


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Random single bits of the whole file, header, indexes and free space included."""
    chance = random.Random(10)
    original, good = filled(tmp_path / "original.sqlite3")
    reported = 0
    for _ in range(FLIPS):
        bit = chance.randrange(len(original) * 8)
        changed = bytearray(original)
        changed[bit // 8] ^= 1 << bit % 8
        answer = noticed(tmp_path / "copy.sqlite3", bytes(changed), good)
        assert answer != "", bit
        reported += answer is not None
    assert reported > FLIPS / 4


def test_a_flipped_bit_of_a_record_is_always_noticed(tmp_path: Path) -> None:
    """Bits within the signed octets: each of 300 reads as damage, never as a missing or another record."""
    chance = random.Random(11)
    original, good = filled(tmp_path / "original.sqlite3")
    copy = tmp_path / "copy.sqlite3"
    for _ in range(300):
        hurt = chance.choice(good)
        changed = bytearray(original)
        place = original.index(hurt.signed) + chance.randrange(len(hurt.signed))
        changed[place] ^= 1 << chance.randrange(8)
        copy.write_bytes(bytes(changed))
        reader = RecordReader(str(copy), connect)
        with pytest.raises(DamagedRecord):
            reader.record(hurt.audit_id)
        reader.close()


def test_a_reader_that_does_not_hash_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without re-hashing and verifying, damaged records pass for good ones."""
    original, good = filled(tmp_path / "original.sqlite3")
    changed = bytearray(original)
    changed[original.index(good[3].signed) + 200] ^= 1
    copy = tmp_path / "copy.sqlite3"
    assert noticed(copy, bytes(changed), good)

    class Trusting:
        def __init__(self, octets: bytes) -> None:
            self._octets = octets

        def digest(self) -> bytes:
            by_end = {record.signed[-80:]: record.audit_id for record in good}
            return bytes.fromhex(by_end[self._octets[-80:]])

    monkeypatch.setattr("agtphost.stores.record_rows.sha256", Trusting)
    monkeypatch.setattr("tests.crash.test_bit_flips.verify_records", lambda *given, **more: Report())
    assert noticed(copy, bytes(changed), good) == ""
