"""What ``agtp tools approve`` and ``agtp upstreams approve`` show before they approve: what changed, line by line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from typing import Any

import click

from agtphost.cli.failures import HostRefused, NoConnection
from agtphost.cli.output import visible


def difference(shown: Mapping[str, Any]) -> Iterable[str]:
    """The approved definition and the present one as a unified diff; the whole of it where the old one is not kept."""
    before, present = shown.get("approved_definition"), shown.get("definition")
    old = f"approved {shown.get('approved_digest') or '(none)'}"
    new = f"present {shown.get('definition_digest')}"
    if before is None:
        yield "the approved definition is not kept here; the present one is:"
        yield from _lines(present)
    elif before == present:
        yield f"the definition is the approved one, {shown.get('definition_digest')}"
    else:
        yield from unified_diff(_lines(before), _lines(present), old, new, lineterm="")


def _lines(definition: Any) -> list[str]:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def decide(shown: Any, name: str, expected: str | None, *, sure: bool) -> str:
    """
    Show what there is to approve, on stderr, and ask where a person is there to answer.

    :param expected: the only digest that is to be approved; None: the present one.
    :param sure: whether nobody is asked.
    :return: the digest to send: the expected one, else that of what was shown.
    :raises HostRefused: the answer was no.
    """
    if not isinstance(shown, Mapping) or not isinstance(shown.get("definition_digest"), str):
        raise NoConnection("the answer does not show what there is to approve", "Is this an AGTP host of this version?")
    for line in difference(shown):
        click.echo(visible(line), err=True)
    digest = str(shown["definition_digest"])
    if expected is not None:
        return expected
    asked = not sure and sys.stdin.isatty() and sys.stderr.isatty()
    if asked and not click.confirm(f"approve {visible(name)}?", default=False, err=True):
        raise HostRefused(f"{name} was not approved", "It stays off.")
    return digest
