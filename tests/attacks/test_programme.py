"""The programme, shortened: each attack for a moment, those of this module on two hosts; and the page of threats."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.attacks.attack import Attack
from tests.attacks.shared_hosts import (
    ATTACKS,
    COSTLY,
    FIRST,
    FURTHER,
    IN_MEMORY,
    SHORT,
    Hosts,
    as_parameters,
    withstands,
)
from tests.attacks.shared_hosts import hosts as hosts

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.parametrize("attack", as_parameters(FIRST))
def test_the_host_withstands(hosts: Hosts, attack: Attack) -> None:
    """Its bounds of memory and disk hold, its answers are right, and no honest call fails."""
    withstands(hosts, attack)


def test_both_modules_have_all_attacks() -> None:
    """Each attack of the programme is a test of one of the two modules."""
    assert sorted(attack.name for attack in (*FIRST, *FURTHER)) == sorted(attack.name for attack in SHORT)
    assert min(len(FIRST), len(FURTHER)) > 40
    assert {attack.name for attack in SHORT} >= COSTLY


def test_attacks_without_a_shortened_form_are_made_in_memory() -> None:
    """Each of them is an attack, and its test in memory exists; no other attack is left out but by its length."""
    names = {attack.name for attack in ATTACKS}
    assert set(IN_MEMORY) <= names
    assert [wrong for test in IN_MEMORY.values() for wrong in missing(f"``{test}``", names)] == []
    short = {attack.name for attack in ATTACKS if not attack.lasts} - set(IN_MEMORY)
    assert {attack.name for attack in SHORT} - set(IN_MEMORY) == short


def rows(text: str) -> list[tuple[str, str, str]]:
    """Attack, bound and test of every row of the page's tables."""
    cells = re.findall(
        r"^   \* - (.+(?:\n {7}.+)*)\n     - (.+(?:\n {7}.+)*)\n     - (.+(?:\n {7}.+)*)", text, re.MULTILINE
    )
    flat = [tuple(" ".join(cell.split()) for cell in row) for row in cells]
    return [row for row in flat if row != ("attack", "bound", "test")]  # type: ignore[misc]


def missing(test: str, names: set[str]) -> list[str]:
    """What a cell names that there is not: tests by file and function, attacks by name."""
    found = re.findall(r"``([^`]+)``", test)
    wrong = [] if found else [f"no test in {test!r}"]
    for name in found:
        if not name.startswith("tests/"):
            if name not in names:
                wrong.append(f"no attack {name!r}")
            continue
        file, _, function = name.partition("::")
        path = ROOT / file
        if not path.is_file():
            wrong.append(f"no file {file!r}")
        elif function and function.split("[")[0] not in functions(path):
            wrong.append(f"no test {name!r}")
    return wrong


def named_attacks(row: tuple[str, str, str]) -> set[str]:
    """Return the attacks that a row names: in its last cell, and in parentheses or before a colon in its first."""
    first = re.findall(r"\(([^()]*)\)", row[0]) + re.findall(r"^((?:``[^`]+``(?:, )?)+):", row[0])
    marks = {mark for part in first for mark in re.findall(r"``([^`]+)``", part) if "-" in mark}
    marks |= {mark for mark in re.findall(r"``([^`]+)``", row[2]) if not mark.startswith("tests/")}
    return {mark for mark in marks if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", mark)}


def functions(path: Path) -> set[str]:
    """Of a module; those of a class with its name, and alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
    return found


def test_the_page_of_threats_names_what_there_is() -> None:
    """Every row names tests or attacks that exist, and every attack has a row."""
    page = rows((ROOT / "docs" / "threats.rst").read_text())
    names = {attack.name for attack in ATTACKS}
    assert [wrong for row in page for wrong in missing(row[2], names)] == []
    named = {name for row in page for name in named_attacks(row)}
    assert sorted(names - named) == [], "attacks without a row"
    assert sorted(named - names) == [], "rows of attacks that do not exist"
    assert len(page) > 40


def test_a_row_that_names_nothing_is_noticed() -> None:
    """The control."""
    text = (
        "   * - attack\n     - bound\n     - test\n"
        "   * - one\n       more\n     - none\n     - ``tests/attacks/test_rig.py::test_gone``,\n       ``nothing``\n"
        "   * - two\n     - some\n     - ``real``, ``tests/attacks/test_rig.py::test_the_command``\n"
        "   * - three\n     - some\n     - a feeling\n"
    )
    found = rows(text)
    assert [row[0] for row in found] == ["one more", "two", "three"]
    assert [len(missing(row[2], {"real"})) for row in found] == [2, 0, 1]
    assert named_attacks(("octets (``in-row``), see ``else-where``", "``no-attack``", "``real``")) == {"in-row", "real"}
    assert named_attacks(("``one-of``, ``two-of``: what is done", "", "``tests/x.py``")) == {"one-of", "two-of"}


def test_attacks_are_told_apart() -> None:
    """Names are unique and have the form that the page and the command use; there are forty at least."""
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 40
    assert [name for name in names if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) is None] == []
    assert {attack.who for attack in ATTACKS} <= {"stranger", "agent", "upstream", "operator", "fault"}
