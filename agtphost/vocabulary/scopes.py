"""
Authority-Scope tokens: core v08 appendix C; matching is companion section 7.3.

::

    Authority-Scope = scope-token *( OWS "," OWS scope-token )
    scope-token     = scope-segment 1*( ":" scope-segment )
    scope-segment   = 1*( lowercase / DIGIT / "-" / "_" ) / "*"
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

_TOKEN = re.compile(r"(?:[a-z0-9_-]+|\*)(?::(?:[a-z0-9_-]+|\*))+", re.ASCII)

MAX_TOKENS = 256
"""Tokens in one list: more than any document grants."""

EXPLICIT = {"rcns:negotiate": "rcns:*", "inspect:all": "inspect:*"}
"""Grants that only the literal token or its own domain's wildcard gives, never ``*:*``."""

_THEIR_WILDCARDS = frozenset(EXPLICIT.values())


class ScopeError(ValueError):
    """A scope list that does not follow the grammar; the message names the token."""


def is_token(text: str) -> bool:
    """Return whether ``text`` is one scope token."""
    return _TOKEN.fullmatch(text) is not None


def are_tokens(value: object) -> bool:
    """Return whether a member of a JSON object is a list of scope tokens, and not too long a one."""
    if not isinstance(value, list) or len(value) > MAX_TOKENS:
        return False
    return all(isinstance(token, str) and is_token(token) for token in value)


def parse(value: str) -> frozenset[str]:
    """
    Read an Authority-Scope header value.

    :param value: the comma-separated list; an empty one claims nothing.
    :raises ScopeError: naming the first malformed token.
    """
    if not value.strip(" \t"):
        return frozenset()
    tokens = [token.strip(" \t") for token in value.split(",")]
    if len(tokens) > MAX_TOKENS:
        raise ScopeError(f"more than {MAX_TOKENS} scope tokens")
    for token in tokens:
        if _TOKEN.fullmatch(token) is None:
            raise ScopeError(f"{token[:64]!r} is not a scope token (two or more lower-case segments joined by ':')")
    return frozenset(tokens)


def render(tokens: Iterable[str]) -> str:
    """Return tokens in the form of the header: sorted, one space after each comma (core v08 appendix C)."""
    return ", ".join(sorted(tokens))


def _covers(grant: str, wanted: str) -> bool:
    if grant == wanted:
        return True
    held, asked = grant.split(":"), wanted.split(":")
    open_ended = held[-1] == "*"
    if len(held) > len(asked) or (len(held) < len(asked) and not open_ended):
        return False
    return all(segment in ("*", want) for segment, want in zip(held, asked, strict=False))


def covers(granted: Collection[str], wanted: str) -> bool:
    """
    Return whether any grant covers ``wanted``.

    A ``*`` segment covers any one segment, a final one covers one or more.
    The tokens of :data:`EXPLICIT` need the literal token or their domain's
    wildcard.
    """
    if wanted in granted:
        return True
    if wanted in EXPLICIT:
        return EXPLICIT[wanted] in granted
    if wanted in _THEIR_WILDCARDS:
        # Otherwise a caller with ``*:*`` could claim the wildcard, and with it scopes that ``*:*`` never gives.
        return False
    return any("*" in grant and _covers(grant, wanted) for grant in granted)


def missing(granted: Collection[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the tokens of ``wanted`` that no grant covers, in the order given."""
    return tuple(token for token in wanted if not covers(granted, token))


def intersect(held: Collection[str], bound: Collection[str]) -> frozenset[str]:
    """Return the scopes that both sets allow: tokens of either that the other covers."""
    return frozenset(
        [token for token in held if covers(bound, token)] + [token for token in bound if covers(held, token)]
    )


def is_asked(token: str, asked: Collection[str]) -> bool:
    """Return whether a scope gives something: whether it covers one of those that something asks for."""
    return token in asked or any(covers((token,), each) for each in asked)


def nearest(token: str, asked: Iterable[str], most: int = 3) -> list[str]:
    """Return scopes that may be meant in place of one that nothing asks for."""
    known = sorted(asked)
    close = difflib.get_close_matches(token, known, most, 0.6)
    domain = token.partition(":")[0]
    return list(dict.fromkeys([*close, *(each for each in known if each.partition(":")[0] == domain)]))[:most]
