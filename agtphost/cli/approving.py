"""``agtp tools approve`` and ``agtp upstreams approve``: what is approved is what was shown."""

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
from agtphost.cli.options import collected
from agtphost.cli.output import visible
from agtphost.cli.target import Target

TARGET = "upstream-definition"
"""Of INSPECT."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What the command line says about approving."""

    sha256: str | None
    """The digest of a definition that was looked at before: nothing is shown."""

    yes: bool
    """Approve what is shown without a question."""


consent_options = collected(
    Consent,
    "consent",
    (
        click.option("--sha256", metavar="DIGEST", help="Approve the definition of this digest, and show nothing."),
        click.option("--yes", is_flag=True, help="Approve what is shown, and do not ask."),
    ),
)
"""Adds ``--sha256`` and ``--yes``; the function gets a :class:`Consent` as ``consent``."""


def digest_to_approve(target: Target, upstream: str, name: str, consent: Consent) -> str:
    """
    The digest of what the user has agreed to.

    :param upstream: ``PROTOCOL.NAME``.
    :param name: of the tool or agent; empty for the card of an A2A agent.
    :raises CommandError: nothing waits for approval, nobody can be asked, or the answer is no.
    """
    if consent.sha256 is not None:
        return consent.sha256
    given = {"target": TARGET, "upstream": upstream, **({"name": name} if name else {})}
    shown = result_of(ask(target, "INSPECT", "/", given)).get("upstream_definition")
    what = f"{upstream} {name}".strip()
    present = shown.get("present") if isinstance(shown, dict) else None
    approved = shown.get("approved") if isinstance(shown, dict) else None
    if not isinstance(shown, dict) or not isinstance(present, dict):
        raise NoConnection(f"the host does not say what {what} is now", "Is the upstream up? agtp upstreams ls")
    text, digest = present.get("definition"), str(present.get("sha256"))
    if not isinstance(text, str) or sha256(text.encode()).hexdigest() != digest:
        raise Unverified("the digest of the answer is not that of the definition in it", "Nothing was approved.")
    if isinstance(approved, dict) and approved.get("sha256") == digest:
        raise HostRefused(f"{visible(what)} is not off because it changed: it is as it was approved")
    for line in _told(what, approved if isinstance(approved, dict) else {}, text, digest):
        click.echo(visible(line), err=True)
    if consent.yes:
        return digest
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongInput(
            "nobody can be asked here whether to approve what is shown above",
            f"Look at it, then say --sha256 {digest}; or --yes to approve whatever is shown.",
        )
    if not click.confirm("Approve this definition?", err=True):
        raise HostRefused("nothing was approved")
    return digest


def _told(what: str, approved: Mapping[str, Any], text: str, digest: str) -> Iterator[str]:
    """The difference, or where the approved definition is not known, all of the new one."""
    kept, known = approved.get("definition"), str(approved.get("sha256", ""))
    if isinstance(kept, str) and sha256(kept.encode()).hexdigest() == known:
        yield from difference(kept, text, f"approved {known[:16]}", f"present {digest[:16]}")
    else:
        yield f"of the approved definition of {what} only the digest is known: {known or 'none'}"
        yield "the present one:"
        yield from _lines(text)
    yield f"SHA-256 of the present definition: {digest}"


def difference(old: str, new: str, old_name: str = "approved", new_name: str = "present") -> list[str]:
    """Two JSON texts as a unified difference of their lines, members in order of name."""
    return list(difflib.unified_diff(_lines(old), _lines(new), old_name, new_name, lineterm=""))


def _lines(text: str) -> list[str]:
    """One member a line, and a text of several lines with one of them a line; controls stay escaped."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.splitlines()
    lines = []
    for line in json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n"):
        # JSON has a newline within a text as \\n: shown where it is, so that a long description can be compared.
        lines += line.replace("\\\\", "\0").replace("\\n", "\\n\n    ").replace("\0", "\\\\").split("\n")
    return [visible(line) for line in lines]
