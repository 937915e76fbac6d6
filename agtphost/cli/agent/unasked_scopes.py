"""Question scopes that nothing of a host asks for, before they are issued."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_note
from agtphost.errors import ConfigurationError
from agtphost.vocabulary import scopes

if TYPE_CHECKING:
    from agtphost.config import Config


def unasked_scopes(config: Config, tokens: Iterable[str]) -> list[dict[str, Any]]:
    """
    Return the scopes that no endpoint, tool or method of a host asks for, each with the nearest ones.

    Reads the host's files, and asks no server: the scopes of tools are settings. Of a host whose files are faulty
    nothing is known, and nothing is questioned.
    """
    from agtphost.host.host_loader import load_host
    from agtphost.host.scope_names import named_scopes

    named = [token for token in tokens if scopes.is_token(token)]
    try:
        loaded = load_host(config, os.environ)
    except ConfigurationError:
        return []
    known = {*named_scopes(config), *(scope for each in loaded.endpoints for scope in each.required_scopes)}
    return [
        {"scope": token, "nearest": scopes.nearest(token, known)}
        for token in named
        if not scopes.is_asked(token, known)
    ]


def confirm_unasked(found: object, *, yes: bool, question: str) -> None:
    """
    Warn of scopes that nothing asks for, and ask on a terminal whether to go on.

    :param found: the scopes, each with the nearest ones.
    :param yes: go on without a question.
    :raises WrongInput: the person declines.
    """
    listed = [each for each in found if isinstance(each, Mapping)] if isinstance(found, (list, tuple)) else []
    for each in listed:
        near = [str(name) for name in each.get("nearest") or ()]
        meant = f"; nearest: {', '.join(near)}" if near else ""
        said = f"no endpoint, tool or method of this host asks for {each.get('scope')}{meant}"
        print_note(f"warning: {said}")
    if listed and not yes and on_terminal() and not click.confirm(question, err=True):
        raise WrongInput(
            "nothing was changed", "`agtp tools ls` and `agtp methods ls` show the scopes that are asked for."
        )


def on_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
