"""Colour for verdicts: on a terminal that shows it, unless ``NO_COLOR`` says otherwise; ``FORCE_COLOR`` insists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import Enum
from typing import IO, Any

import click

from agtphost.cli.output import visible


class Verdict(Enum):
    """What a line comes to, and its colour."""

    GOOD = "green"
    BAD = "red"
    WAITS = "yellow"


def coloured(stream: IO[Any] | None = None) -> bool:
    """Whether what is printed there has colours (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, verdict: Verdict | None, stream: IO[Any] | None = None) -> str:
    """``text`` in the colour of its verdict, where that stream has colours."""
    return click.style(text, fg=verdict.value) if verdict is not None and coloured(stream) else text


def echo(text: str, verdict: Verdict | None = None, *, err: bool = False) -> None:
    """Print a line in the colour of its verdict; what hosts wrote into it cannot steer the terminal."""
    stream = sys.stderr if err else sys.stdout
    # Click would take the colours away again where the stream is no terminal.
    click.echo(paint(visible(text), verdict, stream), err=err, color=coloured(stream))


def of_status(status: object) -> Verdict | None:
    """The verdict that a status of AGTP is."""
    if not isinstance(status, int):
        return None
    if status == 202:
        return Verdict.WAITS
    # 262 is a refusal: the caller has to be authorized first.
    return Verdict.GOOD if 200 <= status < 300 and status != 262 else Verdict.BAD


_BEGINNINGS = (
    ("no: ", Verdict.BAD),
    ("yes: ", Verdict.GOOD),
    ("verified", Verdict.GOOD),
    ("refused ", Verdict.BAD),
    ("held ", Verdict.WAITS),
)


def tell(lines: Iterable[str]) -> None:
    """Print a story whose verdicts are known by how their lines begin."""
    for line in lines:
        begun = line.strip()
        verdict = next((each for text, each in _BEGINNINGS if begun.startswith(text)), None)
        if begun.startswith("answer "):
            status = begun.split()[1]
            verdict = of_status(int(status)) if status.isdigit() else None
        if verdict is Verdict.GOOD and begun.endswith("once a person has approved it"):
            verdict = Verdict.WAITS
        echo(line, verdict)
