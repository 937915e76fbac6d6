"""The supported keywords of JSON Schema, by the kind of their values (JSON Schema 2020-12, 2019-09)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of endpoints' schemas, and of tools' schemas without ``$schema``."""

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"

ONE = frozenset(
    {
        *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
    }
)
"""Keywords with one schema."""

LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAP = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
NUMBERS = frozenset({"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"})
PLAIN = NUMBERS | frozenset(
    {
        *("type", "enum", "const"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains"),
        *("minContains", "maxProperties", "minProperties", "required", "dependentRequired", "format"),
        *("contentEncoding", "contentMediaType", "title", "description", "default", "deprecated"),
        *("readOnly", "writeOnly", "examples", "$comment", "$ref"),
    }
)
"""Keywords with plain values."""

SUPPORTED = ONE | LIST | MAP | PLAIN

MOVING = frozenset(
    {"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}
)
"""Keywords that change the meaning of references or of other keywords."""


def moving_of(dialect: str) -> frozenset[str]:
    """Return the supported ones of :data:`MOVING` in a dialect; ``$vocabulary`` is for dialects, not for schemas."""
    if dialect == DIALECT:
        return frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor"})
    if dialect == DRAFT_2019:
        return frozenset({"$id", "$anchor", "$recursiveRef", "$recursiveAnchor"})
    return frozenset({"$id"})


def escape(token: str | int) -> str:
    """Return a token escaped for a JSON pointer (RFC 6901 section 3)."""
    return str(token).replace("~", "~0").replace("/", "~1")


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, str | int | None, Any]]:
    """Yield the schemas directly inside one: keyword, name or index below it or None, and schema."""
    for keyword, value in schema.items():
        if keyword in ONE and not isinstance(value, list):
            yield keyword, None, value
        elif (keyword in LIST or keyword == "items") and isinstance(value, list):
            for index, item in enumerate(value):
                yield keyword, index, item
        elif keyword in MAP and isinstance(value, Mapping):
            for name, item in value.items():
                if not isinstance(item, list):
                    yield keyword, name, item


def subschema_pointer(pointer: str, keyword: str, inner: str | int | None) -> str:
    """Return the JSON pointer of one of :func:`subschemas`."""
    here = f"{pointer}/{escape(keyword)}"
    return here if inner is None else f"{here}/{escape(inner)}"
