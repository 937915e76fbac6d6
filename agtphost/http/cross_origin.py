"""
Handle CORS: which pages of other origins may read the answers of a surface, by the Fetch standard.

Only origins that the operator lists are admitted; an origin is compared as a whole, with scheme and port. No answer
allows credentials, so a browser sends neither cookies nor a client certificate: a page presents its own token. Browsers
send no credentials with a preflight, so it is answered for anonymous clients; its size is bounded and its rate limited
per address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from agtphost.http.bounded_request import BoundedRequest, field_of, set_status
from agtphost.http.refusals import refuse
from agtphost.vocabulary.reasons import Reason

MAX_AGE = 600
"""Seconds for which a browser remembers the answer to a preflight."""

MOST_FIELDS = 64
"""Names of one preflight that are read."""

PER_MINUTE = 120
"""Preflights of one address."""

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class CrossOriginRules:
    """The fields and methods that pages may use with a surface."""

    fields: Iterable[str]
    """Header fields of requests, in addition to those that browsers always send."""

    exposed: Iterable[str]
    """Header fields of answers."""

    prefixes: tuple[str, ...] = ()
    """Prefixes of further header fields of requests, in lower case."""

    methods: str = METHODS
    other_methods: bool = True
    """Whether other methods are accepted too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossOrigin:
    """CORS of one surface, for the origins that its section lists."""

    origins: frozenset[str]
    """In lower case, as browsers write them."""

    rules: Callable[[], CrossOriginRules]
    """Returns the present rules."""

    wait: Callable[[str], float] = lambda address: 0.0
    """Returns the seconds until an address may send another preflight; 0 if it may now."""

    def allow_reading(self, request: BoundedRequest, origin: str) -> None:
        """
        Let a page read the answer, if its origin is listed.

        :param origin: of the page; empty if the request names none.
        """
        if origin in self.origins:
            put = request.responseHeaders.put
            put("Access-Control-Allow-Origin", origin)
            put("Access-Control-Expose-Headers", ", ".join(self.rules().exposed))

    def answer_preflight(self, request: BoundedRequest, origin: str) -> bytes | None:
        """
        Answer a preflight for a page whose origin is listed.

        :param origin: as for :meth:`allow_reading`.
        :return: the body of the answer; None for every other request.
        """
        if origin not in self.origins:
            return None
        rules = self.rules()
        method = field_of(request, "access-control-request-method")
        if request.method != b"OPTIONS" or method is None:
            return None
        wait = self.wait(request.channel.address)
        if wait:
            said = f"More than {PER_MINUTE} preflights in a minute from one address."
            again = ("Retry-After", str(max(1, ceil(wait))))
            return refuse(request, 429, Reason.RATE_LIMITED, said, again)
        return _preflight(request, rules, method)


def _preflight(request: BoundedRequest, rules: CrossOriginRules, method: str) -> bytes:
    put = request.responseHeaders.put
    set_status(request, 204)
    further = rules.other_methods and _METHOD.fullmatch(method) is not None and method not in rules.methods.split(", ")
    put("Access-Control-Allow-Methods", f"{rules.methods}, {method}" if further else rules.methods)
    put("Access-Control-Allow-Headers", ", ".join((*rules.fields, *_requested_fields(request, rules.prefixes))))
    put("Access-Control-Max-Age", str(MAX_AGE))
    if field_of(request, "access-control-request-private-network") == "true":
        put("Access-Control-Allow-Private-Network", "true")
    put("Cache-Control", "no-store")
    return b""


def _requested_fields(request: BoundedRequest, prefixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the fields that a preflight requests whose names have one of the prefixes."""
    asked = field_of(request, "access-control-request-headers") or ""
    for each in asked.split(",", MOST_FIELDS)[:MOST_FIELDS]:
        name = each.strip().lower()
        if prefixes and name.startswith(prefixes) and _NAME.fullmatch(name):
            yield name
