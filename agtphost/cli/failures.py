"""Exit statuses, and errors that tell the user what to do."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import IO, Any

import click

from agtphost.cli.colour import Verdict, has_colours, paint
from agtphost.cli.output import hang, print_note, visible
from agtphost.errors import ConfigurationError
from agtphost.vocabulary.foreign_errors import original_of, split, to_sentence

JSON_MODE = "agtphost.json"
"""Key of a click context's ``meta`` that is true if the output is JSON."""


_NO_FILE = "elsewhere"
"""The place of problems that no file is to blame for."""


class ExitStatus(IntEnum):
    """The exit statuses of commands (interface section 2)."""

    SUCCESS = 0
    REFUSED = 1
    """The host refused or failed: its status is outside 2xx."""

    USAGE = 2
    """Wrong usage, or local input that cannot be read."""

    CONNECTION = 3
    """No connection, or TLS failed."""

    VERIFICATION = 4
    """Something that was received or read does not verify."""

    HELD = 5
    """The call was not made: a person has to approve it first."""


class CommandError(click.ClickException):
    """
    A command that ends without success; subclasses define the exit status.

    :param message: one sentence on what happened.
    :param remedy: one sentence on what to do about it.
    :param answer: the value that ``--json`` prints; None for the error itself.
    :param original: the text of a foreign library that the message translates; by default it is found in the exception
        that this one was raised from.
    """

    def __init__(self, message: str, remedy: str = "", *, answer: object = None, original: str = "") -> None:
        super().__init__(message)
        self.original = original
        self.remedy = remedy
        self.answer = answer
        context = click.get_current_context(silent=True)
        self._json = context is not None and bool(context.meta.get(JSON_MODE))

    def show(self, file: IO[Any] | None = None) -> None:
        begun = paint("error:", Verdict.BAD, sys.stderr)
        click.echo(f"{begun} {hang(visible(self.format_message()))}", err=True, color=has_colours(sys.stderr))
        if self.remedy:
            print_note(f"  {self.remedy}")
        if self._json:
            answer = self.answer
            if answer is None:
                answer = {"error": self.message, "remedy": self.remedy, "exit_status": self.exit_code}
                if original := self.original or original_of(self):
                    answer["original"] = original
            # The text is on standard error already, if the error is that standard output takes nothing more.
            with contextlib.suppress(OSError):
                click.echo(json.dumps(answer, indent=2))


class HostRefused(CommandError):
    """The host refused or failed."""

    exit_code = int(ExitStatus.REFUSED)


class HeldForApproval(HostRefused):
    """The host holds the call until a person approves it."""

    exit_code = int(ExitStatus.HELD)


class WrongInput(CommandError):
    """The command line or local input is wrong."""

    exit_code = int(ExitStatus.USAGE)


class NoConnection(CommandError):
    """The connection failed or broke."""

    exit_code = int(ExitStatus.CONNECTION)


class Unverified(CommandError):
    """A record, signature or other evidence does not verify."""

    exit_code = int(ExitStatus.VERIFICATION)


@contextmanager
def local_file(
    file: Path | str | None = None, *wrong: type[Exception], doing: str = "read", remedy: str = ""
) -> Iterator[None]:
    """
    Report an unusable local file as a command's error.

    :param file: name of the file; None for the name in the error.
    :param wrong: exceptions about its content, whose message is complete.
    :raises WrongInput: in place of these exceptions and of every OSError.
    """
    try:
        yield
    except wrong as error:
        raise WrongInput(str(error), remedy) from error
    except FileExistsError as error:
        raise WrongInput(f"{file or error.filename} exists", "Choose another name, or move the file away.") from None
    except OSError as error:
        raise unusable_file(error, file, doing, remedy) from error


def unusable_file(
    error: OSError, file: Path | str | None = None, doing: str = "written", remedy: str = ""
) -> CommandError:
    """
    Return the error of a command that cannot use a file.

    :param file: its name; None for the name in the error, which has none when a disk fills up.
    """
    what, cure = split(error)
    # Of a copy, the second name is the one that is written.
    name = file or error.filename2 or error.filename or "a file"
    if str(name).startswith(("https:/", "http:/")):
        return WrongInput(f"{name} is a URL, and a file is needed", "Download it first, for example with curl -O.")
    return WrongInput(f"{name} cannot be {doing}: {what}", remedy or to_sentence(cure))


def catalog_error(file: Path | None, error: Exception) -> CommandError:
    """Return the error of a command with a faulty method catalog; ``error`` names its first fault."""
    return WrongInput(
        f"{file} is not a method catalog: {error}", f"`agtp catalog validate {file}` lists every fault of it."
    )


def configuration_error(error: ConfigurationError) -> CommandError:
    """Return an error that lists every problem of a configuration."""
    problems = error.problems
    listed = "\n".join(f"  {problem}" for problem in problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    answer = {
        "problems": [
            {"message": item.message, "file": item.file, "line": item.line, "hint": item.hint}
            | ({"original": item.original} if item.original else {})
            for item in problems
        ]
    }
    places = Counter(item.file or _NO_FILE for item in problems)
    summary = ", ".join(f"{number} {file if file == _NO_FILE else f'in {file}'}" for file, number in places.items())
    more = f"\n  {summary}" if len(places) > 1 else ""
    return WrongInput(f"the configuration has {count}:\n{listed}{more}", answer=answer)
