"""Asking before calls that cannot be undone: on a terminal, and where the caller says how sure it is (AGIS v01)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import visible

if TYPE_CHECKING:
    from agtphost.client.confirming import Confirm, Consequence


def confirming(confidence: float | None, yes: bool) -> Confirm | None:
    """
    What asks about the call of a command; None where nobody is asked.

    Scripts that say nothing of their confidence are not: whoever wrote them has decided, and the host has its own ways
    to have a person decide.
    """
    if yes or (confidence is None and not _terminal()):
        return None
    return _ask


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(asked: Consequence) -> bool:
    """:raises WrongInput: nobody can be asked here."""
    if not _terminal():
        raise WrongInput(
            f"{visible(f'{asked.method} {asked.path}')} was not sent: {visible(asked.why)}",
            "Ask the person that it is for; --yes says that somebody has agreed.",
        )
    click.echo(visible(str(asked)), err=True)
    return click.confirm("Make this call?", err=True)
