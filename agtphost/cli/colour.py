"""Coloured verdicts on terminals; ``NO_COLOR`` turns colours off, and ``FORCE_COLOR`` on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import Enum
from typing import IO, Any

import click

from agtphost.cli.output import hang, visible, visible_line


class Verdict(Enum):
    """The verdict of a line, with its colour."""

    GOOD = "green"
    BAD = "red"
    WAITS = "yellow"


def has_colours(stream: IO[Any] | None = None) -> bool:
    """Return whether output to a stream has colours (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, verdict: Verdict | None, stream: IO[Any] | None = None) -> str:
    """Return ``text`` in the colour of its verdict, if the stream has colours."""
    return click.style(text, fg=verdict.value) if verdict is not None and has_colours(stream) else text


def echo(text: str, verdict: Verdict | None = None, *, err: bool = False) -> None:
    """Print a line in the colour of its verdict, with control characters from hosts escaped."""
    stream = sys.stderr if err else sys.stdout
    # Click would remove the colours if the stream is not a terminal.
    shown = hang(visible(text)) if err else visible(text)
    click.echo(paint(shown, verdict, stream), err=err, color=has_colours(stream))


def verdict_of_status(status: object) -> Verdict | None:
    """Return the verdict for an AGTP status."""
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
    """Print lines in the colours of the verdicts that their first words show."""
    for line in lines:
        begun = line.strip()
        verdict = next((each for text, each in _BEGINNINGS if begun.startswith(text)), None)
        if begun.startswith("answer "):
            status = begun.split()[1]
            verdict = verdict_of_status(int(status)) if status.isdigit() else None
        if verdict is Verdict.GOOD and begun.endswith("once a person has approved it"):
            verdict = Verdict.WAITS
        echo(visible_line(line), verdict)
