"""Exit statuses, and errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from typing import IO, Any

import click

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


class CommandError(click.ClickException):
    """
    A command that ends without success.

    :param status: the exit status.
    :param message: one sentence: what happened.
    :param remedy: one sentence: what to do about it.
    :param answer: what ``--json`` prints; None where the error itself is all there is.
    """

    def __init__(
        self, status: ExitStatus, message: str, remedy: str = "", *, answer: object = None
    ) -> None:
        super().__init__(message)
        self.exit_code = int(status)
        self.remedy = remedy
        self.answer = answer
        context = click.get_current_context(silent=True)
        self._json = context is not None and bool(context.meta.get(JSON_MODE))

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {visible(self.format_message())}", err=True)
        if self.remedy:
            click.echo(f"  {visible(self.remedy)}", err=True)
        if self._json:
            answer = self.answer if self.answer is not None else {
                "error": self.format_message(), "remedy": self.remedy, "exit_status": self.exit_code
            }  # fmt: skip
            click.echo(json.dumps(answer, indent=2))


def usage(message: str, remedy: str = "") -> CommandError:
    """Local input that is wrong."""
    return CommandError(ExitStatus.USAGE, message, remedy)


def unverified(message: str, remedy: str = "", *, answer: object = None) -> CommandError:
    """Something that is not to be believed."""
    return CommandError(ExitStatus.VERIFICATION, message, remedy, answer=answer)


def misconfigured(error: ConfigurationError) -> CommandError:
    """Every problem of a configuration."""
    problems = error.problems
    listed = "\n".join(f"  {line}" for line in _lines(problems))
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    answer = {
        "problems": [
            {"message": item.message, "file": item.file, "line": item.line, "hint": item.hint}
            for item in problems
        ]
    }
    return CommandError(ExitStatus.USAGE, f"the configuration has {count}:\n{listed}", answer=answer)


def _lines(problems: Iterable[object]) -> Iterable[str]:
    return (str(problem) for problem in problems)
