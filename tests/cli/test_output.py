"""What commands print for machines."""

from __future__ import annotations

import csv
import json
import os
import sys
import tracemalloc
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.cli import output
from agtphost.cli.audit.record_table import write_table
from agtphost.cli.colour import echo
from agtphost.cli.failures import WrongInput
from agtphost.cli.output import WRITTEN_AT_ONCE, print_fields, print_json, print_note, print_table

CLI = Path(output.__file__).parent

SHARED = {"name": "x" * 200, "members": [1, None, True, "é"]}


def test_json_is_printed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of many megabytes takes little memory: its parts may be the same objects, as in a long manifest."""
    value = {"endpoints": [SHARED] * 20_000}
    with open(os.devnull, "w") as sink:
        monkeypatch.setattr(sys, "stdout", sink)
        tracemalloc.start()
        try:
            print_json(value)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(json.dumps(SHARED)) * 20_000 > 4 << 20
    assert peak < 2 << 20


@pytest.mark.parametrize("number", (0, 1, WRITTEN_AT_ONCE // 100, WRITTEN_AT_ONCE // 50))
def test_pieces_are_the_text(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """However many pieces there are, together they are the text and the end of its line."""
    print_json([SHARED] * number)
    assert capsys.readouterr().out == json.dumps([SHARED] * number, indent=2) + "\n"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none(), inner, max_size=3)
        ),
        max_leaves=20,
    )
)
def test_the_text_is_that_of_the_encoder_of_python(value: Any) -> None:
    """Tables and lists of every kind and depth are indented as json.dumps does it, with the same names and numbers."""
    with redirect_stdout(StringIO()) as printed:
        print_json(value)
    assert printed.getvalue() == json.dumps(value, indent=2) + "\n"


def test_only_names_begin_the_lines_of_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """A value with a line end cannot look like another field."""
    print_fields([("reason", "x\nstatus  200"), ("a", 1)])
    assert capsys.readouterr().out == "reason  x\n        status  200\na       1\n"


def test_further_lines_of_notes_and_errors_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    """A foreign text with a line end cannot look like a line of the command on standard error."""
    text = "a\nverified: 9 records\n  indented\n\nb"
    print_note(text)
    WrongInput(text, "x\nerror: y").show()
    echo(text, err=True)
    said = capsys.readouterr().err
    assert not any(line.startswith(("verified", "error: y", "b")) for line in said.splitlines()), said
    assert "\n  verified: 9 records\n  indented\n\n  b\n" in said


def test_only_the_module_of_output_prints_on_standard_error() -> None:
    """Commands print notes by ``print_note``; what Click asks and the progress of a copy are the exceptions."""
    found = {
        f"{file.relative_to(CLI)}: {line.strip()}"
        for file in CLI.rglob("*.py")
        for line in file.read_text().splitlines()
        if "click.echo(" in line and "err=True" in line and file.name not in ("output.py", "failures.py")
    }
    assert found == {
        "agent/agent_list.py: click.echo(click.style(visible_line(said), fg=colour), err=True)",
        'backup/commands.py: click.echo(f"\\rcopied {100 * done // max(pages, 1)} %", nl=done == pages, err=True)',
    }


def test_the_first_cell_of_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a line end cannot look like another row; further cells may have several lines, with a margin."""
    print_table(("TOOL", "SCOPES"), (("files.x\nfiles.safe  9", "a\nb"),))
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 3 and shown[1].startswith(r"files.x\x0afiles.safe  9  a")
    assert shown[2].strip() == "b" and shown[2].startswith(" ")


def test_a_cell_of_a_spreadsheet_has_no_line_end_and_no_control_character() -> None:
    """A reason cannot begin a line of its own, colour a terminal or reorder a row; no cell is a formula."""
    written = StringIO()
    write_table(
        csv.writer(written), (("x\n2026-11-30,files.safe\x1b[31m\u202e", "\t=1", "=1", 5),), ("reason", "a", "b", "c")
    )
    assert written.getvalue().splitlines()[1:] == [r""""x\x0a2026-11-30,files.safe\x1b[31m\u202e",\x09=1,'=1,5"""]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("\uff1d1", "'\uff1d1"),
        (" +1", "' +1"),
        ("QUERY /a;=1+1;b", "QUERY /a;'=1+1;b"),
        ("/a; @b;c;\uff0b1", "/a;' @b;c;'\uff0b1"),
        ('/a; "=1+1;b', '"/a;\' ""=1+1;b"'),
        ("a=1; b-c", "a=1; b-c"),
    ],
)
def test_no_spreadsheet_reads_a_formula(value: str, cell: str) -> None:
    """Wide signs begin a formula too, and a semicolon begins a cell where a comma is the decimal sign."""
    written = StringIO()
    write_table(csv.writer(written), ((value,),), ("reason",))
    assert written.getvalue().splitlines()[1] == cell


def test_rows_on_several_lines_begin_with_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A table too wide for its terminal is printed as lines of fields, and no cell begins one of them."""
    output._stack(("TOOL", "WHAT"), (("files.x", "y\nTOOL  files.safe"),))
    assert capsys.readouterr().out == "TOOL  files.x\nWHAT  y\n      TOOL  files.safe\n"
