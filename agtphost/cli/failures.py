"""Exit statuses, and errors that say what to do."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import IO, Any

import click

from agtphost.cli.colour import Verdict, coloured, paint
from agtphost.cli.output import visible
from agtphost.errors import ConfigurationError

JSON_MODE = "agtphost.json"
"""Where a click context remembers that machines are reading."""


class ExitStatus(IntEnum):
    """Interface section 2."""

    SUCCESS = 0
    REFUSED = 1
    """The host refused or failed: a status outside 2xx."""

    USAGE = 2
    """Wrong usage, or local input that cannot be read."""

    CONNECTION = 3
    """No connection, or TLS did not come about."""

    VERIFICATION = 4
    """Something was received or read, and is not to be believed."""

    HELD = 5
    """Nothing was done: a person has to approve the call first."""


class CommandError(click.ClickException):
    """
    A command that ends without success; subclasses say which exit status.

    :param message: one sentence: what happened.
    :param remedy: one sentence: what to do about it.
    :param answer: what ``--json`` prints; None where the error itself is all there is.
    """

    def __init__(self, message: str, remedy: str = "", *, answer: object = None) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.answer = answer
        context = click.get_current_context(silent=True)
        self._json = context is not None and bool(context.meta.get(JSON_MODE))

    def show(self, file: IO[Any] | None = None) -> None:
        begun = paint("error:", Verdict.BAD, sys.stderr)
        click.echo(f"{begun} {visible(self.format_message())}", err=True, color=coloured(sys.stderr))
        if self.remedy:
            click.echo(f"  {visible(self.remedy)}", err=True)
        if self._json:
            answer = self.answer
            if answer is None:
                answer = {"error": self.message, "remedy": self.remedy, "exit_status": self.exit_code}
            click.echo(json.dumps(answer, indent=2))


class HostRefused(CommandError):
    """The host refused or failed."""

    exit_code = int(ExitStatus.REFUSED)


class HeldForApproval(HostRefused):
    """The host keeps the call for a person to approve."""

    exit_code = int(ExitStatus.HELD)


class WrongInput(CommandError):
    """The command line, or local input, is wrong."""

    exit_code = int(ExitStatus.USAGE)


class NoConnection(CommandError):
    """There is no connection, or it broke."""

    exit_code = int(ExitStatus.CONNECTION)


class Unverified(CommandError):
    """Something is not to be believed."""

    exit_code = int(ExitStatus.VERIFICATION)


@contextmanager
def local_file(
    file: Path | str | None = None, *wrong: type[Exception], doing: str = "read", remedy: str = ""
) -> Iterator[None]:
    """
    Tell what is wrong with a file on this machine.

    :param file: its name; None: the one that the error names.
    :param wrong: errors of its content, whose message says it all.
    :raises WrongInput: in place of these, and of every OSError.
    """
    try:
        yield
    except wrong as error:
        raise WrongInput(str(error), remedy) from None
    except FileExistsError:
        raise WrongInput(f"{file} exists", "Choose another name, or move it away.") from None
    except OSError as error:
        raise WrongInput(f"{file or error.filename} cannot be {doing}: {error.strerror}", remedy) from None


def misconfigured(error: ConfigurationError) -> CommandError:
    """Every problem of a configuration."""
    problems = error.problems
    listed = "\n".join(f"  {problem}" for problem in problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    answer = {
        "problems": [
            {"message": item.message, "file": item.file, "line": item.line, "hint": item.hint} for item in problems
        ]
    }
    places = Counter(item.file or "elsewhere" for item in problems)
    summary = ", ".join(f"{number} in {file}" for file, number in places.items())
    more = f"\n  {summary}" if len(places) > 1 else ""
    return WrongInput(f"the configuration has {count}:\n{listed}{more}", answer=answer)
