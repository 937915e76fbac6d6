"""
CORS: which pages elsewhere may read the answers of a surface, as the Fetch standard has it.

Only the origins that the operator lists are told anything; an origin is compared whole, with its scheme and port. No
answer allows credentials, so a browser sends no cookie and no client certificate: a page shows a token of its own.
A preflight is answered before anybody has shown who calls, because browsers send none with it; so it is bounded, and
limited for each address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from agtphost.http.exchange import BoundedRequest, field_of, set_status
from agtphost.http.refusals import refused
from agtphost.vocabulary.reasons import Reason

MAX_AGE = 600
"""Seconds for which a browser remembers the answer to a preflight."""

MOST_FIELDS = 64
"""Names of one preflight that are looked at."""

PER_MINUTE = 120
"""Preflights of one address."""

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class CrossOriginRules:
    """What pages may send to a surface, and read of its answers."""

    fields: Iterable[str]
    """Header fields of requests, besides those that browsers always send."""

    exposed: Iterable[str]
    """Header fields of answers."""

    prefixes: tuple[str, ...] = ()
    """How further fields of requests begin, in lower case."""

    methods: str = METHODS
    further: bool = True
    """Whether methods besides these are taken."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossOrigin:
    """CORS of one surface, for the origins that its section lists."""

    origins: frozenset[str]
    """In lower case, as browsers write them."""

    rules: Callable[[], CrossOriginRules]
    """Those of the moment."""

    wait: Callable[[str], float] = lambda address: 0.0
    """Takes an address that sends a preflight; the seconds until it may send another, 0 for now."""

    def admit(self, request: BoundedRequest, origin: str) -> bytes | None:
        """
        Let a page read the answer, if its origin is listed.

        :param origin: of the page; empty where none is told.
        :return: the body of the answer to a preflight; None for every other request.
        """
        if origin not in self.origins:
            return None
        rules, put = self.rules(), request.responseHeaders.put
        put("Access-Control-Allow-Origin", origin)
        put("Access-Control-Expose-Headers", ", ".join(rules.exposed))
        method = field_of(request, "access-control-request-method")
        if request.method != b"OPTIONS" or method is None:
            return None
        wait = self.wait(request.channel.address)
        if wait:
            said = f"More than {PER_MINUTE} preflights in a minute from one address."
            again = ("Retry-After", str(max(1, ceil(wait))))
            return refused(request, 429, Reason.RATE_LIMITED, said, again)
        return _preflight(request, rules, method)


def _preflight(request: BoundedRequest, rules: CrossOriginRules, method: str) -> bytes:
    put = request.responseHeaders.put
    set_status(request, 204)
    further = rules.further and _METHOD.fullmatch(method) is not None and method not in rules.methods.split(", ")
    put("Access-Control-Allow-Methods", f"{rules.methods}, {method}" if further else rules.methods)
    put("Access-Control-Allow-Headers", ", ".join((*rules.fields, *_prefixed(request, rules.prefixes))))
    put("Access-Control-Max-Age", str(MAX_AGE))
    if field_of(request, "access-control-request-private-network") == "true":
        put("Access-Control-Allow-Private-Network", "true")
    put("Cache-Control", "no-store")
    return b""


def _prefixed(request: BoundedRequest, prefixes: tuple[str, ...]) -> Iterator[str]:
    """The fields that a preflight asks for whose names begin as one of these."""
    asked = field_of(request, "access-control-request-headers") or ""
    for each in asked.split(",", MOST_FIELDS)[:MOST_FIELDS]:
        name = each.strip().lower()
        if prefixes and name.startswith(prefixes) and _NAME.fullmatch(name):
            yield name
