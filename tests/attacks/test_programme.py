"""
The programme, shortened: each attack for a moment, most of them on one host.

What is wrong with an answer, with memory, with disk or with a call of an honest caller fails here as it does in
``python -m tests.attacks``. Of time, on a machine that runs other tests meanwhile, only a host that stands still does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attacks.attack import Attack
from tests.attacks.catalogue import (
    attacks,
    computing,
    crowds,
    doors,
    earlier,
    headers,
    held,
    parsers,
    people,
    schemas,
    shares,
    unread,
    upstreams,
    ways,
)
from tests.attacks.cores import cores
from tests.attacks.runner import NICE, Result, Stand, attempt, standing
from tests.attacks.site import made
from tests.programmes import CHOSEN, length

ROOT = Path(__file__).resolve().parents[2]
SECONDS, QUIET, LEAST = length((0.15, 0.1, 0.2), (5.0, 2.0, 5.0))
SHARE = length(0.2, 1.0)
"""Of the honest calls: twenty-five a second are enough to notice that none is answered."""

NICENESS = length(0, NICE)
SLOWER, FLOOR = 10.0, length(2.0, 0.5)
"""
Twenty seconds in which honest callers are not answered, on a machine that other tests keep busy; five at full length.
"""

UNREACHED = "messages reached the host"

ATTACKS = attacks()

Configure = Callable[[Path], None]


HOSTS: dict[str, tuple[Configure, ...]] = {
    "as it is made": (),
    "with more to call": (
        parsers.asking_for_yaml,
        schemas.endpoints,
        unread.with_large_answers,
        unread.with_streams,
        upstreams.beside,
        doors.with_doors,
        people.with_people,
    ),
    "with the standard methods": (computing.with_methods,),
    "with a server that does as it is told": (upstreams.shared, earlier.with_bindings, headers.with_collections),
    "with two providers": (ways.with_ways,),
    "filled by one": (held.needs_approval, crowds.few_keys, held.few_keys),
    "filled by many": (crowds.crowd,),
    "with few calls a minute": (shares.sharing,),
    "with room for gifts": (shares.generous,),
}
"""The hosts of the shortened run, and how each is configured."""

LAST = ("crowded-keys", "revoked-meanwhile")
"""After which another attack on the same host would find nothing to fill, or no caller."""


def sharing(attack: Attack) -> str:
    """The name of a host: attacks for which it is the same are made on it, one after the other."""
    if CHOSEN.whole:
        return f"{getattr(attack.configure, '__qualname__', '')} {attack.name if attack.alone else ''}"
    if attack.configure is shares.sharing:
        return "with few calls a minute"
    if attack.configure is shares.generous:
        return "with room for gifts"
    if attack.alone and attack.configure is not crowds.crowd:
        return "filled by one"
    if attack.alone:
        return "filled by many"
    return next(name for name, configured in HOSTS.items() if not attack.configure or attack.configure in configured)


def configuring(attack: Attack) -> Configure:
    """What is done to the host of an attack before it starts."""
    own = () if attack.configure is None else (attack.configure,)
    parts = own if CHOSEN.whole else HOSTS[sharing(attack)]

    def configure(folder: Path) -> None:
        for part in parts:
            part(folder)

    return configure


class Hosts:
    """One host at a time: of one name, or a new one where an attack has ended it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = made(folder)
        self._stand: Stand | None = None
        self._of = ""
        self.open = ExitStack()

    def attacked(self, attack: Attack) -> Result:
        stand = self._stand
        if stand is None or self._of != sharing(attack) or stand.site.host.process.poll() is not None:
            self.open.close()
            place = self._folder / attack.name
            configure = configuring(attack)
            beside = standing(self._template, place, cores(), configure, honest=attack.honest, share=SHARE)
            stand = self.open.enter_context(beside)
            self._stand, self._of = stand, sharing(attack)
        return self._attempt(stand, attack)

    @staticmethod
    def _attempt(stand: Stand, attack: Attack) -> Result:
        """Once more, for longer, where a busy machine left an attack no time to reach the host at all."""
        lenient = replace(attack, slower=max(attack.slower, SLOWER))
        for seconds in (SECONDS, 5 * SECONDS, 25 * SECONDS):
            result = attempt(stand, lenient, seconds=seconds, quiet=QUIET, floor=FLOOR, least=LEAST, nice=NICENESS)
            if not any(UNREACHED in failure for failure in result.failures):
                break
        return result


SHORT = sorted(
    (attack for attack in ATTACKS if not attack.lasts), key=lambda attack: (sharing(attack), attack.name in LAST)
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    found = Hosts(tmp_path_factory.mktemp("programme"))
    with found.open:
        yield found


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.parametrize("attack", SHORT, ids=lambda attack: attack.name)
def test_the_host_withstands(hosts: Hosts, attack: Attack) -> None:
    """Its bounds of memory and disk hold, its answers are right, and no honest call fails."""
    result = hosts.attacked(attack)
    print(f"p99 {result.quiet * 1000:.0f} -> {result.during * 1000:.0f} ms, {result.memory} and {result.disk} octets")
    assert [*result.failures, *result.slow] == []


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
