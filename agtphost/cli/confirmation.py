"""Ask before irreversible calls: on a terminal, and if the caller states its confidence (AGIS v01)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_note, visible

if TYPE_CHECKING:
    from agtphost.client.confirmation import Confirm, Consequence


def confirming(confidence: float | None, yes: bool) -> Confirm | None:
    """
    Return the function that asks before a command's call, or None if no question is needed.

    Scripts that state no confidence are not asked: their authors have decided, and the host can still require
    approval.
    """
    if yes or (confidence is None and not _terminal()):
        return None
    return _ask


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(asked: Consequence) -> bool:
    """
    Ask on the terminal whether to make a call.

    :raises WrongInput: the command does not run on a terminal.
    """
    if not _terminal():
        raise WrongInput(
            f"{visible(f'{asked.method} {asked.path}')} was not sent: {visible(asked.why)}",
            "Ask the person concerned; then add --yes.",
        )
    print_note(str(asked))
    return click.confirm("Make this call?", err=True)
