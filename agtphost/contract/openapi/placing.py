"""
Where an operation stands: which of HTTP's methods carries a method of AGTP, and what has to be said besides.

As the HTTP gateway takes it. OpenAPI knows HTTP's own methods alone; what none of these stands for is named by
``X-AGIS-Method`` (AGIS v01 section 6), and HTTP's method is transport then. Of that there are few for one path, so the
last ones share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.vocabulary.tool_paths import is_tool_path

VERBS = ("get", "put", "post", "delete", "patch")
"""HTTP's methods that a description of an API may have, and that stand for others here."""

BODILESS = ("get", "delete")
"""Those whose input is in the address."""

METHOD, GRAMMAR = "X-AGIS-Method", "X-AGIS-Grammar"
AGIS = "AGIS/1.0"

_SCALARS = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, kw_only=True)
class Verbs:
    """What HTTP's methods are at one host."""

    own: Mapping[str, str]
    """By method of AGTP: the one that stands for it by itself, in lower case."""

    reads: Callable[[str], bool]
    """Whether a method of AGTP changes nothing, so that GET may carry it."""

    @classmethod
    def of(cls, aliases: Mapping[str, str], reads: Callable[[str], bool]) -> Verbs:
        """
        Those of a host's aliases.

        :param aliases: by what is on the wire (AGTP-API section 9.2).
        """
        own: dict[str, str] = {}
        for wire, method in aliases.items():
            if wire.lower() in VERBS:
                own.setdefault(method, wire.lower())
        return cls(own=own, reads=reads)

    def places(self, endpoint: Mapping[str, Any]) -> Iterator[Place]:
        """Where an endpoint may stand, best first; what may be sent twice by somebody on the way is told so."""
        method, plain = endpoint["method"], is_plain(endpoint["input_schema"])
        own = self.own.get(method)
        if own == "post" and is_tool_path(endpoint["path"]):
            own = None  # There a plain POST calls a hosted tool.
        if own is not None and (plain or own not in BODILESS):
            yield Place(own, named=False)
        if plain and self.reads(method):
            yield Place("get", named=True)
        yield from (Place("post", named=True), Place("patch", named=True))
        if endpoint["semantic"]["is_idempotent"]:
            yield Place("put", named=True)


@dataclass(frozen=True, slots=True)
class Place:
    """One of HTTP's methods."""

    verb: str
    named: bool
    """Whether the method of AGTP is named beside it."""


def is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether an address can say all that the schema asks for."""
    properties = schema.get("properties", {}).values()
    return not set(schema) & {"allOf", "anyOf", "oneOf", "not", "if"} and all(
        isinstance(item, Mapping) and item.get("type") in _SCALARS for item in properties
    )


def naming(methods: list[str], *, required: bool) -> list[dict[str, Any]]:
    """
    The two fields that name a method.

    :param methods: one of which is meant.
    """
    said = {METHOD: methods, GRAMMAR: [AGIS]}
    found = []
    for name, values in said.items():
        schema = {"type": "string", "enum": values}
        # Generated clients say by themselves what there is but one of.
        only = {"default": values[0]} if required and len(values) == 1 else {}
        found.append({"name": name, "in": "header", "required": required, "schema": {**schema, **only}})
    return found
