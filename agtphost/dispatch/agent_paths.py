"""
What a path under ``/agents/`` may and may not address: core v08 section 6.1.

A name that is a file name is redirected to the address it should have been,
one that cannot be a name is refused, and an alias never leads to another agent than the one that a request claims.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from agtphost.errors import Refusal
from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.uris import (
    PACKAGE_SUFFIXES,
    SCHEME,
    UriError,
    parse,
)

_MISTYPED_ID = re.compile(r"[0-9A-Za-z]{56,}", re.ASCII)
"""No label of people's choice is this long, and an Agent-ID has 64 digits."""

_SUFFIXED = re.compile(rf"(.+)\.(?:{'|'.join(PACKAGE_SUFFIXES)})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Authority:
    """The name and port at which a host is reached."""

    name: str
    port: int
    """0 where it is not known."""


NOWHERE = Authority("", 0)


def redirect_to(target: str, explanation: str) -> Refusal:
    """Return a 301 to ``target``."""
    return Refusal(
        Reason.MOVED_PERMANENTLY,
        explanation,
        remedy=f"Address {target} from now on.",
        details={"location": target},
        headers=(("Location", target),),
    )


def location(label: str, rest: str, host: str | None, own: Authority) -> str:
    """
    Return the address that an agent would have: an ``agtp:`` URI (core v08 section 6.1), or a path where the grammar
    has none.

    The grammar has none for paths below an agent except its status, and for hosts without a DNS name. The agent need
    not exist, so that the address reveals nothing.

    :param host: what the caller knows this host by; None where it did not say (no SNI).
    :param own: what this host calls itself, and its public port.
    """
    path = f"/agents/{label}" + (f"/{rest}" if rest else "")
    if own.port == 0:
        return path
    try:
        return str(parse(f"{SCHEME}://{host or own.name}:{own.port}{path}"))
    except UriError:
        return path


def refuse_label(label: str, rest: str, host: str | None = None, own: Authority = NOWHERE) -> NoReturn:
    """
    Refuse a label that no hosted agent has.

    :param label: the path segment after ``/agents/``.
    :param rest: what follows it; empty where nothing does.
    :param host: for :func:`location`, as is ``own``.
    :raises Refusal: 301, 400 or 404.
    """
    suffixed = _SUFFIXED.fullmatch(label)
    if suffixed is not None and is_agent_name(suffixed[1]):
        raise redirect_to(
            location(suffixed[1], rest, host, own),
            "URIs are addresses, not file names: a package's suffix is not part of one.",
        )
    if _MISTYPED_ID.fullmatch(label) is not None and not is_agent_id(label):
        raise Refusal(Reason.INVALID_CANONICAL_ID)
    if not is_agent_name(label):
        raise Refusal(Reason.INVALID_URI_FORM)
    raise Refusal(Reason.AGENT_NOT_HOSTED, "No agent of that name is hosted here.")


def redirect(domain: str, path: str) -> Refusal:
    """Return the 301 of a primary domain to the subdomain of its agents (core v08 section 6.1)."""
    # In one step: the target never has a package's suffix.
    label, slash, rest = path.removeprefix("/agents").removeprefix("/").partition("/")
    suffixed = _SUFFIXED.fullmatch(label)
    name = label if suffixed is None else suffixed[1]
    target = f"{SCHEME}://{domain}/agents" + (f"/{name}{slash}{rest}" if name else "")
    return redirect_to(target, f"The agents of this domain are at {domain}.")


def alias_conflict(label: str, claimed: str) -> Refusal:
    """Return the 401 for an alias of a different agent than the request's Agent-ID (AGTP-125)."""
    return Refusal(Reason.ALIAS_CONFLICT, details={"alias": f"/agents/{label}", "agent_id": claimed})
