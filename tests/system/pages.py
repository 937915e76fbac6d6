"""
The pages under docs/, and the one way in which tests type what they show: as somebody does who has just come.

Their home is empty, their ``PATH`` has the system's programs and ours, and another host has the usual port:
:func:`tests.system.hosting.newcomer`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from tests.system.up_host import Up, typed

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.rst"))


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
    """The commands of a page: ``$ command  # status``, then lines that its output has."""
    return [step for block in blocks(page) for step in steps_of(block)]


def steps_of(block: str) -> list[Step]:
    """The same of one block, in which they come first or not at all."""
    found: list[Step] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            command, _, status = line[2:].partition("  # ")
            found.append(Step(command, int(status or 0), ()))
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
    """It ended as the page says, and each line that the page shows is part of what it said, in this order."""
    assert status == step.status, f"{step.command}\n{output}"
    at = 0
    for part in map(str.strip, step.shown):
        at = output.find(part, at)
        assert at >= 0, f"{part!r} is not shown by\n{step.command}\n{output}"
