"""Errors of the command line in our words: which option or argument is wrong, with its value, and what to write."""

from __future__ import annotations

import difflib
import json
import re
import shlex
import sys
from collections.abc import Iterable
from typing import IO, Any

import click

from agtphost.cli.colour import Verdict, has_colours, paint
from agtphost.cli.groups import SuggestingGroup
from agtphost.cli.output import hang, visible

_PATH = re.compile(r"(?:File|Directory|Path) '(?P<path>.*)' (?P<fault>does not exist|is .+?)\.?", re.DOTALL)
_PATH_FAULTS = {
    "does not exist": ("does not exist", "Correct the path."),
    "is not readable": ("cannot be read: this user has no right to", "Change its owner or mode."),
    "is not writable": (
        "cannot be written: this user has no right to",
        "Change its owner or mode.",
    ),
    "is a directory": ("is a directory", "Name a file."),
    "is a file": ("is a file", "Name a directory."),
}
"""What Click says of a path that does not suit, in our words, and what to do."""

_VALUE = re.compile(r"(?P<value>.+?) is not (?:in the range |one of |a valid )(?P<rest>.+?)\.?", re.DOTALL)


class WrongUsage(click.UsageError):
    """
    A wrong command line, as Click found it.

    :param found: Click's error; its text is the member ``original`` of ``--json``.
    :param as_json: whether the command line has ``--json``: an option before it may be wrong.
    """

    def __init__(self, found: click.UsageError, as_json: bool) -> None:
        message, self.remedy = translate_usage(found)
        super().__init__(message, found.ctx)
        self._original = f"{type(found).__name__}: {found.format_message()}"
        self._json = as_json

    def show(self, file: IO[Any] | None = None) -> None:
        stream = file or sys.stderr
        if self.ctx is not None:
            click.echo(visible(self.ctx.get_usage()), file=stream)
        begun = paint("error:", Verdict.BAD, stream)
        click.echo(f"{begun} {hang(visible(self.message))}", file=stream, color=has_colours(stream))
        if self.remedy:
            click.echo(f"  {hang(visible(self.remedy))}", file=stream)
        if self._json:
            answer = {
                "error": self.message,
                "remedy": self.remedy,
                "exit_status": self.exit_code,
                "original": self._original,
            }
            click.echo(json.dumps(answer, indent=2))


def translate_usage(error: click.UsageError) -> tuple[str, str]:
    """Return what is wrong with a command line, and what to do; our own usage errors keep their text."""
    path = error.ctx.command_path if error.ctx is not None else "agtp"
    listed = f"`{path} --help` lists them."
    option, command = getattr(error, "option_name", None), getattr(error, "command_name", None)
    if isinstance(error, click.NoSuchOption):
        return f"{path} has no option {error.option_name}", _suggest(error) or listed
    if command is not None:
        return f"{path} has no command {command!r}", _suggest(error) or listed
    if isinstance(error, click.BadOptionUsage) and option:
        if "does not take" in error.message:
            return f"{option} takes no value", f"Write {option} alone."
        return f"{option} needs a value", f"Write {option} VALUE; --help says which."
    if isinstance(error, click.MissingParameter):
        if error.param is not None and error.param.param_type_name == "option" and error.ctx is not None:
            return f"{_name(error)} is missing", f"Add {_name(error)} {error.param.make_metavar(error.ctx)}."
        return f"{_name(error)} is missing", f"Write: {_usage(error)}"
    if isinstance(error, click.BadParameter):
        return _translate_value(error, path)
    if error.message.startswith("Got unexpected extra argument"):
        extra = error.message.partition("(")[2].rstrip(").")
        options = () if error.ctx is None else error.ctx.command.params
        filters = ":" in extra and any("--filter" in option.opts for option in options)
        cure = f"Write: {path} --filter {shlex.quote(extra)}" if filters else f"Write: {_usage(error)}"
        return f"{path} does not take the further argument {extra!r}", cure
    if error.message.startswith("No such command"):
        return f"{path} has no command {error.message.partition(' command ')[2].rstrip('.')}", listed
    if error.message == "Missing command.":
        return f"{path} needs a command", listed
    return error.message, f"`{path} --help` explains it."


def _translate_value(error: click.BadParameter, path: str) -> tuple[str, str]:
    """Return what is wrong with the value of an option or an argument."""
    name, kind = _name(error), getattr(error.param, "type", None)
    unsuitable = _PATH.fullmatch(error.message)
    if unsuitable is not None and unsuitable["fault"] in _PATH_FAULTS:
        what, cure = _PATH_FAULTS[unsuitable["fault"]]
        return f"{name}: {unsuitable['path']} {what}", cure
    match = _VALUE.fullmatch(error.message)
    if match is None or kind is None:
        return f"{name}: {error.message}", f"`{path} --help` explains it."
    value = match["value"]
    if isinstance(kind, click.Choice):
        return f"{name} must be one of {match['rest']}, not {value}", "Correct the value."
    whole = isinstance(kind, (click.types.IntRange, click.types.IntParamType))
    what = "a whole number" if whole else "a number"
    lowest, highest = getattr(kind, "min", None), getattr(kind, "max", None)
    if lowest is not None and highest is not None:
        bounds = f" from {lowest} to {highest}"
    elif lowest is not None:
        bounds = f" of at least {lowest}"
    else:
        bounds = f" of at most {highest}" if highest is not None else ""
    if not isinstance(kind, (click.types.IntParamType, click.types.FloatParamType)):
        return f"{name} is {value}, which is not {match['rest']}", f"`{path} --help` explains it."
    return f"{name} must be {what}{bounds}, not {value}", "Correct the value."


def _name(error: click.BadParameter) -> str:
    """Return the option or argument as it is written, such as ``--port`` or ``FILE``."""
    if error.param is None:
        return str(error.param_hint or "a value")
    if error.param.param_type_name == "argument":
        shown = error.param.make_metavar(error.ctx) if error.ctx is not None else ""
        return str(error.param.name).upper() if not shown or "|" in shown else shown.strip("[].")
    return max(error.param.opts, key=len)


def _usage(error: click.UsageError) -> str:
    usage = "" if error.ctx is None else error.ctx.get_usage()
    return " ".join(usage.removeprefix("Usage: ").split())


def _suggest(error: click.UsageError) -> str:
    near: Iterable[str] = getattr(error, "possibilities", None) or ()
    if isinstance(error, click.NoSuchOption):
        # Click counts the dashes as characters in common.
        bare = [name.strip("-") for name in near]
        near = [f"--{name}" for name in difflib.get_close_matches(error.option_name.strip("-"), bare)]
    elif isinstance(error, click.NoSuchCommand) and error.ctx is not None:
        # Click keeps only names that look like the word, and drops those that mean the same.
        group = error.ctx.command
        near = group.find_near(error.ctx, error.command_name) if isinstance(group, SuggestingGroup) else near
    return f"Did you mean {' or '.join(near)}?" if near else ""
