"""
The pages under docs/, and the one way in which tests type what they show: as somebody does who has just come.

Their home is empty, their ``PATH`` has the system's programs and ours, and another host has the usual port:
:func:`tests.system.hosting.newcomer`.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from tests.system.up_host import Up, typed

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.rst"))
STATUSES = tomllib.loads((Path(__file__).parent / "exit_statuses.toml").read_text())
"""By page and command, the exit status of each time that the page has it; all others end with 0."""

Statuses = Mapping[str, Iterator[int]]
STANDS_FOR = {r"\b[0-9a-f]{4}\.\.\.": "[0-9a-f]{8,}", r"\b\d{4}-\.\.\.Z": r"\d{4}-[0-9T:.-]+Z", r"\.\.\.": ".*"}
"""What a page writes for an identifier, for a time, and for any text of a line that it leaves out."""


@dataclass(frozen=True)
class Step:
    """One command of a page, the exit status it should have, and what its output should show, in order."""

    command: str
    status: int
    shown: tuple[str, ...]


def blocks(page: str) -> list[str]:
    """The literal blocks of a page, without their indentation."""
    return blocks_of((DOCS / page).read_text())


def blocks_of(text: str) -> list[str]:
    """The same of a text."""
    return [dedent(block).strip("\n") for block in re.findall(r"::\n\n((?:(?: {4}.*)?\n)+?)(?=\S|\Z)", text + "\n")]


def steps(page: str) -> list[Step]:
    """Return the commands of a page, each ``$ command``, with the lines of output that follow it."""
    statuses = statuses_of(page)
    return [step for block in blocks(page) for step in steps_of(block, statuses)]


def statuses_of(page: str) -> Statuses:
    """Return the exit statuses of a page's commands, to be taken one after the other by :func:`steps_of`."""
    return {command: iter(statuses) for command, statuses in STATUSES.get(page, {}).items()}


def steps_of(block: str, statuses: Statuses | None = None) -> list[Step]:
    """
    Return the commands of one block, in which they come first or not at all.

    :param statuses: of the page's commands; what is not in there ends with 0.
    """
    found: list[Step] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            command = line[2:]
            found.append(Step(command, next((statuses or {})[command]) if command in (statuses or {}) else 0, ()))
        elif found and block.startswith("$ ") and line:
            last = found.pop()
            found.append(Step(last.command, last.status, (*last.shown, line.rstrip())))
    return found


class Player:
    """Types the commands of a page, and knows which."""

    def __init__(self) -> None:
        self.typed: list[Step] = []

    def type(
        self, step: Step, folder: Path, *, line: str | None = None, environ: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """
        One command.

        :param line: its words, where identifiers or the directory are others than the page's.
        :param environ: of what the page says before, such as a home that has a file already.
        :return: exit status, and all that it said.
        """
        self.typed.append(step)
        return typed(folder, line or step.command, environ)

    def up(self, step: Step, folder: Path, *, last: str, environ: dict[str, str] | None = None) -> Up:
        """A host that goes on while others are typed."""
        assert step.command.startswith("agtp up ")
        self.typed.append(step)
        return Up(folder, *shlex.split(step.command)[2:], environ=environ, last=last)

    def system(self, step: Step) -> list[str]:
        """What only a whole machine does: the test plays the part of its ``systemctl``."""
        assert step.command.startswith("systemctl ")
        self.typed.append(step)
        return shlex.split(step.command)[1:]


@contextmanager
def playing(wanted: Sequence[Step]) -> Iterator[Player]:
    """Commands of a page; at the end each has been typed, in the page's order; again, if it had to be waited for."""
    player = Player()
    yield player
    typed = [step for step, _ in groupby(player.typed)]
    assert typed == [step for step, _ in groupby(wanted)], "not every command was typed"


def shows(step: Step, status: int, output: str) -> None:
    """
    Check that a command ended as its page says, and printed each line that the page shows, in this order.

    A line is whole, or says with ``...`` where it is cut: :data:`STANDS_FOR`. Widths of columns do not count.
    """
    assert status == step.status, f"{step.command}\n{output}"
    lines = iter(_squeeze(line) for line in output.splitlines())
    for shown in map(_squeeze, step.shown):
        wanted = _line_pattern(shown)
        assert any(wanted.fullmatch(line) for line in lines), f"{shown!r} is not shown by\n{step.command}\n{output}"


def _squeeze(line: str) -> str:
    return " ".join(line.split())


def _line_pattern(shown: str) -> re.Pattern[str]:
    parts = re.split("|".join(f"({form})" for form in STANDS_FOR), shown)
    # Each part of text is followed by one group a form, of which the one that was found is not None.
    step = len(STANDS_FOR) + 1
    found = re.escape(parts[0])
    for at in range(1, len(parts), step):
        cut = next(number for number, each in enumerate(parts[at : at + step - 1]) if each is not None)
        found += [*STANDS_FOR.values()][cut] + re.escape(parts[at + step - 1])
    return re.compile(found)
