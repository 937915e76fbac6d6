"""The commands ``agtp tools approve`` and ``agtp upstreams approve``: approve exactly what was shown."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import click

from agtphost.cli.exchange import ask, result_of
from agtphost.cli.failures import HostRefused, NoConnection, Unverified, WrongInput
from agtphost.cli.options import add_options
from agtphost.cli.output import print_note, visible
from agtphost.cli.target import Target

TARGET = "upstream-definition"
"""Target of INSPECT for upstream definitions."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The approval options of a command line."""

    sha256: str | None
    """The digest of a definition that was reviewed earlier; nothing is shown."""

    yes: bool
    """Approve the shown definition without asking."""


consent_options = add_options(
    Consent,
    "consent",
    (
        click.option("--sha256", metavar="DIGEST", help="Approve the definition with this digest without showing it."),
        click.option("--yes", is_flag=True, help="Approve the shown definition without asking."),
    ),
)
"""Adds ``--sha256`` and ``--yes``; the function gets a :class:`Consent` as ``consent``."""


def digest_to_approve(target: Target, upstream: str, name: str, consent: Consent) -> str:
    """
    Return the digest of the definition that the user agreed to.

    :param upstream: ``PROTOCOL.NAME``.
    :param name: name of the tool or agent; empty for the card of an A2A agent.
    :raises agtphost.cli.failures.CommandError: nothing waits for approval, no person can be asked, or the person
        declines.
    """
    if consent.sha256 is not None:
        return consent.sha256
    given = {"target": TARGET, "upstream": upstream, **({"name": name} if name else {})}
    shown = result_of(ask(target, "INSPECT", "/", given)).get("upstream_definition")
    what = f"{upstream} {name}".strip()
    present = shown.get("present") if isinstance(shown, dict) else None
    approved = shown.get("approved") if isinstance(shown, dict) else None
    if not isinstance(shown, dict) or not isinstance(present, dict):
        raise NoConnection(f"the host has no definition of {what}", "See whether it is up: agtp upstreams ls")
    text, digest = present.get("definition"), str(present.get("sha256"))
    if not isinstance(text, str) or sha256(text.encode()).hexdigest() != digest:
        raise Unverified("the digest in the answer does not match its definition", "Nothing was approved.")
    if isinstance(approved, dict) and approved.get("sha256") == digest:
        raise HostRefused(f"{visible(what)} does not need approval: its definition is the approved one")
    for line in _render_change(what, approved if isinstance(approved, dict) else {}, text, digest):
        print_note(line)
    if consent.yes:
        return digest
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongInput(
            "cannot ask for approval of the definition above: this is not a terminal",
            f"Review the definition, then add --sha256 {digest}; or --yes to approve any definition that is shown.",
        )
    if not click.confirm("Approve this definition?", err=True):
        raise HostRefused("nothing was approved")
    return digest


def _render_change(what: str, approved: Mapping[str, Any], text: str, digest: str) -> Iterator[str]:
    """Yield the difference between the definitions, or all of the new one if the approved one is not known."""
    kept, known = approved.get("definition"), str(approved.get("sha256", ""))
    if isinstance(kept, str) and sha256(kept.encode()).hexdigest() == known:
        yield from difference(kept, text, f"approved {known[:16]}", f"present {digest[:16]}")
    else:
        yield f"only the digest of the approved definition of {what} is known: {known or 'none'}"
        yield "the present definition:"
        yield from _lines(text)
    yield f"SHA-256 of the present definition: {digest}"


def difference(old: str, new: str, old_name: str = "approved", new_name: str = "present") -> list[str]:
    """Return the unified difference of two JSON texts by lines, with members sorted by name."""
    return list(difflib.unified_diff(_lines(old), _lines(new), old_name, new_name, lineterm=""))


def _lines(text: str) -> list[str]:
    """Return one line for each member, and for each line within a text; control characters stay escaped."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.splitlines()
    lines = []
    for line in json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n"):
        # JSON writes a newline within a text as \\n: break the line there, so that long descriptions can be compared.
        lines += line.replace("\\\\", "\0").replace("\\n", "\\n\n    ").replace("\0", "\\\\").split("\n")
    return [visible(line) for line in lines]
