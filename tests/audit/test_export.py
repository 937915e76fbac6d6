"""Exports: written once, verified anywhere, and noticed when touched."""

from __future__ import annotations

import json

import pytest

from agtphost.audit.export import ExportError, keys_of, read_header, verify_export, write_export
from agtphost.audit.verify import FaultKind
from agtphost.stores import MemoryStore, Selection
from tests.audit.drafting import BOB, KEY, KEYS, draft, group_writer, sealed
from tests.rows import each_row


def export_lines(selection: Selection | None = None) -> list[bytes]:
    store = MemoryStore()
    writer = group_writer(store)
    sealed(writer, *[draft() for _ in range(5)], *[draft(BOB) for _ in range(3)])
    chosen = selection or Selection()
    return list(
        write_export(
            store.records(chosen),
            server_id="agtp.test",
            keys=[(KEY.kid, KEY.public)],
            whole=chosen.whole_chains,
        )
    )


def test_an_export_verifies_with_its_own_and_with_known_keys() -> None:
    """JSON lines, first a header, last a count; every record is in it."""
    lines = export_lines()
    assert len(lines) == 10 and all(line.endswith(b"\n") for line in lines)
    assert keys_of(read_header(lines[0])) == KEYS
    assert verify_export(lines).ok
    report = verify_export(lines, KEYS)
    assert report.ok and report.records == 8


def test_every_missing_or_moved_line_is_noticed() -> None:
    """Each line removed in turn, each two neighbours exchanged, the file cut anywhere: all reported."""
    lines = export_lines()
    for place in range(1, len(lines)):
        assert not verify_export(lines[:place] + lines[place + 1 :], KEYS).ok
        assert not verify_export(lines[:place], KEYS).ok
    for place in range(1, len(lines) - 1):
        moved = list(lines)
        moved[place], moved[place + 1] = moved[place + 1], moved[place]
        assert not verify_export(moved, KEYS).ok


@each_row(
    ("line", "kind"),
    [
        (b"nonsense\n", FaultKind.FORM),
        (b"{}\n", FaultKind.FORM),
        (b"[]\n", FaultKind.FORM),
        (
            b'{"chain":"","seq":"1","audit_id":"","previous_audit_id":"","kind":"","format":"","signed":""}\n',
            FaultKind.FORM,
        ),
    ],
)
def test_a_line_that_is_no_record_is_a_fault(line: bytes, kind: FaultKind) -> None:
    """Damage to one line is reported with its number, and the walk goes on."""
    lines = export_lines()
    report = verify_export([*lines[:4], line, *lines[4:]], KEYS)
    assert kind in {fault.kind for fault in report.faults}
    assert "line 5" in str(report.faults[0])
    assert report.records == 8


def test_what_follows_the_end_is_a_fault() -> None:
    """Nothing may be hidden behind the last line."""
    lines = export_lines()
    assert not verify_export([*lines, lines[1]], KEYS).ok


def test_a_last_line_that_counts_wrongly_is_a_fault() -> None:
    """Count and heads of the last line are compared with what was read."""
    lines = export_lines()
    end = json.loads(lines[-1])
    for change in (
        {"records": 7},
        {"heads": {}},
        {"heads": None},
        {"heads": {**end["heads"], "cc": "0" * 64}},
    ):
        assert not verify_export([*lines[:-1], json.dumps({**end, **change}).encode()], KEYS).ok


@each_row("first", [b"", b"{", b"[]", b'{"format":"other"}'])
def test_another_file_is_refused(first: bytes) -> None:
    """What does not begin like an export is none."""
    with pytest.raises(ExportError):
        verify_export([first])


def test_a_header_with_a_broken_key_is_refused() -> None:
    """Keys that cannot be read are an error, not an empty set of keys."""
    header = json.loads(export_lines()[0])
    header["keys"][0]["key"] = "AAAA"
    with pytest.raises(ExportError):
        verify_export([json.dumps(header).encode()])


def test_a_selection_says_so_and_verifies() -> None:
    """An export by caller is no whole chain, and its header says so."""
    lines = export_lines(Selection(caller=BOB))
    assert read_header(lines[0])["whole"] is False
    assert verify_export(lines, KEYS).ok
