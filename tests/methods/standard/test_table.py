"""The rows of the fifty standard methods, compared with Table 51 and with what the draft says of each method."""

from __future__ import annotations

import re
from pathlib import Path

from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary.catalog import Catalog
from tests.rows import each_row

LINES = {
    said.partition(" ")[0]: said
    for line in (Path(__file__).parents[2] / "REQUIREMENTS.tsv").read_text(encoding="utf-8").splitlines()
    if re.match(r"METH-\d{3}\t", line) and re.match(r"[A-Z]+ \([A-Z]", said := line.split("\t")[2])
}
"""What the draft says of each method, in one line."""


FURTHER = {"CHAIN": {"background", "start_at", "every", "runs"}}
"""What this host takes besides the draft's parameters: the draft pauses schedules, and has no way to make one."""


def named(said: str, word: str) -> set[str]:
    """The parameters of one kind: required, optional."""
    found = re.search(rf"{word} ([^;]*)(?:;|$)", re.sub(r"\([^)]*\)", "", said))
    if found is None:
        return set()
    parts = found[1].split(", ")
    return {re.match(r"[a-z_]+", part.strip())[0] for part in parts if part.strip()}  # type: ignore[index]


def flag(value: bool | str) -> str:
    return {True: "Yes", False: "No"}.get(value, "Conditional")  # type: ignore[call-overload, no-any-return]


def test_the_rows_are_those_of_table_51() -> None:
    """METH-001 to METH-050: names, categories, and what Table 51 says of changing and repeating."""
    catalog = {name: entry.standard for name, entry in Catalog.load().entries.items() if entry.standard is not None}
    assert len(STANDARD) == 50
    told = {
        name: {"category": row.category, "state_modifying": row.changes, "idempotent": row.idempotent}
        for name, row in STANDARD.items()
    }
    assert told == catalog


@each_row("name", list(STANDARD), ids=str)
def test_a_row_is_the_drafts_table(name: str) -> None:
    """METH-001 to METH-050: parameters, required ones, flags and status codes, method by method."""
    row, said = STANDARD[name], LINES[name]
    required, optional = named(said, "required"), named(said, "optional")
    if name == "RESUME":
        required, optional = {"workflow_id"}, {"resumption_nonce", "checkpoint"}
    assert set(row.required) == required, said
    assert set(row.parameters) - set(row.required) == optional | FURTHER.get(name, set()), said
    assert said.split("(", 1)[1].lower().startswith(row.category)
    assert f"idempotent: {flag(row.idempotent)}" in said
    assert f"state-modifying: {flag(row.changes)}" in said
    codes = re.search(r"errors ([0-9, ]+)", said)
    assert codes is not None
    assert row.errors == tuple(int(code) for code in codes[1].replace(" ", "").strip(",").split(",") if code)


@each_row("name", list(STANDARD), ids=str)
def test_the_schemas_of_a_row_are_sound(name: str) -> None:
    """Each compiles under the rules of operators' endpoints; what is required is a parameter; outcomes differ."""
    row = STANDARD[name]
    assert row.input_schema().schema["additionalProperties"] is False
    assert set(row.required) <= set(row.parameters)
    assert row.table_schema().is_valid({**dict.fromkeys(row.required, "x"), "further": 1}) or row.required
    assert not row.input_schema().is_valid({"further": 1})
    row.output_schema()
    assert [other.name for other in STANDARD.values() if other.outcome == row.outcome] == [name]
