"""
The HTTP methods that carry operations, and the header fields that name the AGTP method.

This follows the HTTP gateway. OpenAPI knows only HTTP's own methods. An AGTP method that no HTTP method means is named
by ``X-AGIS-Method`` (AGIS v01 section 6), and the HTTP method is then only transport. Since there are few of these for
one path, further endpoints share one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.vocabulary.tool_paths import is_tool_path

VERBS = ("get", "put", "post", "delete", "patch")
"""HTTP methods that an OpenAPI document may have and that can carry other methods here."""

BODILESS = ("get", "delete")
"""HTTP methods whose input is in the address."""

METHOD, GRAMMAR = "X-AGIS-Method", "X-AGIS-Grammar"
AGIS = "AGIS/1.0"

_SCALARS = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, kw_only=True)
class Verbs:
    """The meaning of HTTP methods on one host."""

    own: Mapping[str, str]
    """Maps AGTP methods to the HTTP method that means them, in lower case."""

    reads: Callable[[str], bool]
    """Returns whether an AGTP method changes nothing, so that GET may carry it."""

    @classmethod
    def from_aliases(cls, aliases: Mapping[str, str], reads: Callable[[str], bool]) -> Verbs:
        """
        Return the meanings by a host's aliases.

        :param aliases: aliases by the method on the wire (AGTP-API section 9.2).
        """
        own: dict[str, str] = {}
        for wire, method in aliases.items():
            if wire.lower() in VERBS:
                own.setdefault(method, wire.lower())
        return cls(own=own, reads=reads)

    def places(self, endpoint: Mapping[str, Any]) -> Iterator[HttpPlace]:
        """Yield the HTTP methods that can carry an endpoint, best first; an idempotent endpoint can have PUT."""
        method, plain = endpoint["method"], is_plain(endpoint["input_schema"])
        own = self.own.get(method)
        if own == "post" and is_tool_path(endpoint["path"]):
            own = None  # On this path, a plain POST calls a hosted tool.
        if own is not None and (plain or own not in BODILESS):
            yield HttpPlace(own, named=False)
        if plain and self.reads(method):
            yield HttpPlace("get", named=True)
        yield from (HttpPlace("post", named=True), HttpPlace("patch", named=True))
        if endpoint["semantic"]["is_idempotent"]:
            yield HttpPlace("put", named=True)

    def free_place(self, endpoint: Mapping[str, Any], taken: Collection[str]) -> HttpPlace | None:
        """
        Return the best HTTP method for an endpoint among those that no other endpoint of its path has.

        :param taken: the HTTP methods that others have, in lower case.
        """
        return next((place for place in self.places(endpoint) if place.verb not in taken), None)

    def carry(self, endpoints: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the HTTP methods that carry the endpoints of one path, in lower case."""
        taken: list[str] = []
        for endpoint in endpoints:
            place = self.free_place(endpoint, taken)
            if place is not None:
                taken.append(place.verb)
        return taken


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """An HTTP method that carries an endpoint."""

    verb: str
    named: bool
    """Whether a header field names the AGTP method."""


def is_plain(schema: Mapping[str, Any]) -> bool:
    """Return whether an address can express the whole input."""
    properties = schema.get("properties", {}).values()
    return not set(schema) & {"allOf", "anyOf", "oneOf", "not", "if"} and all(
        isinstance(item, Mapping) and item.get("type") in _SCALARS for item in properties
    )


def naming(methods: list[str], *, required: bool) -> list[dict[str, Any]]:
    """
    Return the two header fields that name a method; that of the grammar, which has one value, may be omitted.

    :param methods: the methods that can be named.
    :param required: whether one has to be named.
    """
    found = []
    for name, values in ((METHOD, methods), (GRAMMAR, [AGIS])):
        schema = {"type": "string", "enum": values}
        # Generated clients fill in a single value automatically.
        only = {"default": values[0]} if required and len(values) == 1 else {}
        needed = required and name == METHOD
        found.append({"name": name, "in": "header", "required": needed, "schema": {**schema, **only}})
    return found
