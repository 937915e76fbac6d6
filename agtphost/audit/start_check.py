"""What a start compares of the tables of a store: what takes no longer with more records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agtphost.audit.checkpoint import CheckpointError
from agtphost.audit.keyed_check import KeyedCheck
from agtphost.audit.merkle import ProofError, Tree
from agtphost.audit.record_check import (
    AUDIT_ID,
    CHAIN,
    NUMBER,
    PREVIOUS,
    SEQ,
    Examined,
    Finding,
    RecordExaminer,
    findings_of,
)
from agtphost.audit.table_check import Expected, absent, live_after, read_note, report_damage
from agtphost.stores.row_shapes import find_flaw, row_name
from agtphost.stores.rows import DamagedRow
from agtphost.stores.schema_check import TABLE as SCHEMA
from agtphost.stores.table_interfaces import ITableRows
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID

AT_START = 8_192
"""The most records after the newest checkpoint that are compared at a start; it is never further behind."""

COUNTED_AT_START = 50_000
"""Keyed requests: a start counts at most so many, in some hundredths of a second."""

NEWEST = 256
"""Records before the newest checkpoint that a start looks at."""

NAMED = 20_000
"""The newest records among which a start looks for one that is missing from its index, once it knows of one."""


@dataclass(frozen=True)
class StartReport:
    """The findings of a start; see ``docs/evidence.rst``."""

    fatal: Sequence[Finding]
    """In what the next record or checkpoint rests on."""

    told: Sequence[Finding]
    """In anything else."""


def check_start(rows: ITableRows, expected: Expected) -> StartReport:
    """Compare what is cheap: chains and their newest records, the newest checkpoint, and what came after it."""
    fatal: list[Finding] = []
    told: list[Finding] = []
    for change in rows.schema_changes():
        (fatal if change.decides else told).append(Finding(SCHEMA, change.row, change.explanation))
    if fatal:
        return StartReport(fatal, told)  # Tables of another schema cannot be checked.
    examiner = RecordExaminer()
    for table in ("chain", "lifecycle"):
        fatal += _index_findings(rows, table)
    chains: dict[Any, str] = {}
    for row in rows.chains():
        if flaw := find_flaw("chain", row):
            fatal.append(Finding("chain", row_name("chain", row), flaw))
        else:
            chains[row[0]] = row[1].hex()
    together = 0
    for chain, newest in rows.newest_records():
        if chain not in chains:
            fatal.append(Finding("chain", str(chain), "is not there, and records name it"))
        else:
            together += newest[SEQ] if type(newest[SEQ]) is int else 0
            examined = examiner.examine(newest)
            fatal += _row_findings(newest, examined, chains) or _follows(rows, newest, examined)
    last, size = rows.last_number(), rows.newest_size()
    if together < last and not fatal:
        fatal.append(_find_missing_place(rows, last, last - together))
    fatal += _newest_checkpoint(rows, expected, size)
    for number, row in enumerate(islice(rows.records(size, last), AT_START), size + 1):
        if row[NUMBER] != number:
            fatal.append(absent(number, row[NUMBER] - 1))
            break
        fatal += _row_findings(row, examiner.examine(row), chains)
    # The check of the newest records has reported an unreadable page.
    with suppress(DamagedRow):
        for row in rows.records(max(0, last - NEWEST), min(last, size)):
            told += _row_findings(row, examiner.examine(row), chains)
    every = next((row for row in rows.keyed_rows() if row[0] == b""), None)
    if every is None or type(every[1]) is not int or every[1] <= COUNTED_AT_START:
        fatal += _index_findings(rows, "reservation")
        told += report_damage(KeyedCheck(rows, expected.keys, live_after(rows, expected)).uses())
    return StartReport(list(dict.fromkeys(fatal)), [each for each in dict.fromkeys(told) if each not in fatal])


def _index_findings(rows: ITableRows, table: str) -> list[Finding]:
    """
    Return a finding for each difference between a table and its indexes.

    A row that its index lacks is not found by its key: a keyed request would run again, and a chain begin anew.
    """
    return [Finding(*each) for each in rows.index_faults(table) if "index" in each[2]]


def _find_missing_place(rows: ITableRows, last: int, lacking: int) -> Finding:
    """Return the finding for chains that are shorter by their index than there are records."""
    for row in rows.records(max(0, last - NAMED), last):
        place = row[NUMBER], row[CHAIN], row[SEQ]
        if all(type(part) is int for part in place) and not rows.is_placed(*place):
            return Finding("record", row_name("record", row), "is missing from its index: its chain would be forked")
    explanation = f"{lacking} of {last} records are not in the index over chains"
    return Finding("record", "(unknown)", explanation)


def _row_findings(row: Sequence[Any], examined: Examined, chains: Mapping[Any, str]) -> list[Finding]:
    """Return the findings of one record alone; the store itself reports octets that are not those that were signed."""
    if type(row[AUDIT_ID]) is bytes and row[AUDIT_ID] != examined.audit_id:
        return []
    found = findings_of(row, examined)
    if examined.agent_id is not None and chains.get(row[CHAIN]) != examined.agent_id:
        explanation = f"chain is {row[CHAIN]!r}, and it was signed for {examined.agent_id or 'the host'}"
        found.append(Finding("record", row_name("record", row), explanation))
    return found


def _follows(rows: ITableRows, row: Sequence[Any], examined: Examined) -> list[Finding]:
    """Return the findings of the columns that give the place of a record in its chain, by the record before it."""
    name, payload = row_name("record", row), examined.payload
    audit_id, seq = rows.record_before(row) or (ZERO_AUDIT_ID, 0)
    if type(audit_id) is bytes:
        audit_id = audit_id.hex()
    if payload is not None and payload.get("previous_audit_id") != audit_id:
        return [Finding("record", name, f"previous is {row[PREVIOUS]}, and it follows another record")]
    if row[SEQ] - 1 != seq:
        return [Finding("record", name, f"seq is {row[SEQ]}, and that of the record before it is {seq!r}")]
    return []


def _newest_checkpoint(rows: ITableRows, expected: Expected, size: int) -> list[Finding]:
    if size == 0:
        return []
    row = next(rows.checkpoints(size - 1))
    name = row_name("checkpoint", row)
    if flaw := find_flaw("checkpoint", row):
        return [Finding("checkpoint", name, flaw)]
    try:
        found = read_note(row[2], expected.keys)
    except CheckpointError as error:
        return [Finding("checkpoint", name, f"note does not verify: {error}")]
    if found.size != size:
        return [Finding("checkpoint", name, f"note is a checkpoint of {found.size} records")]

    def tile(level: int, number: int) -> bytes:
        hashes, _ = rows.tile(level, number)
        return hashes if type(hashes) is bytes else b""

    try:
        if Tree(tile, size).root() == found.root:
            return []
        why = "its root is not that of the stored tiles"
    except ProofError as error:
        why = f"its tree cannot be read: {error}"
    edge = [f"{level} {(size - 1) >> (8 * (level + 1))}" for level in range(8) if size >> (8 * level)]
    return [Finding("checkpoint", name, f"{why}; one of the tiles {', '.join(edge)} is damaged")]
