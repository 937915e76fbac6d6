"""
Compatibility of fields: which fields of one schema can feed which fields of another.

Compatible fields have matching types. Further constraints of the receiving schema (lengths, patterns, ranges) are
checked at the call, so a wrong match costs only a refused call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SEPARATORS = re.compile(r"[^a-z0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A property of an object schema."""

    name: str
    schema: Any
    required: bool


def plain(name: str) -> str:
    """Return a name for comparisons: ``guestName``, ``guest-name`` and ``guest_name`` are equal."""
    return _SEPARATORS.sub("", name.lower())


def fields_of(schema: Mapping[str, Any]) -> dict[str, Field]:
    """
    Return the properties of an object schema by :func:`plain` name.

    Properties with the same plain name are left out, because they are ambiguous.
    """
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = frozenset(required) if isinstance(required, list) else frozenset()
    found: dict[str, Field] = {}
    twice: set[str] = set()
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        key = plain(name)
        if not key or key in found:
            twice.add(key)
        found[key] = Field(name=name, schema=inner, required=name in wanted)
    return {key: field for key, field in found.items() if key not in twice}


def feeds(given: Any, taken: Any, depth: int = 0) -> bool:
    """Return whether values of the schema ``given`` have a type that ``taken`` allows."""
    if given == taken or taken is True or taken == {}:
        return True
    if depth > 8 or not isinstance(given, Mapping) or not isinstance(taken, Mapping):
        return False
    allowed, offered = _types(taken), _types(given)
    if allowed is not None and (offered is None or not offered <= allowed):
        return False
    if allowed is None and not taken.keys() <= _ANNOTATIONS | {"enum", "const"}:
        return False
    return _values_feed(given, taken) and _inside_feeds(given, taken, depth)


_ANNOTATIONS = frozenset({"title", "description", "examples", "default", "deprecated", "$comment"})


def _types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        kinds = [kinds]
    if not isinstance(kinds, list):
        return None
    widened = frozenset(kinds)
    return widened | {"integer"} if "number" in widened else widened


def _values_feed(given: Mapping[str, Any], taken: Mapping[str, Any]) -> bool:
    """Return whether all values of ``given`` are allowed, if ``taken`` allows only certain values."""
    wanted = _values(taken)
    if wanted is None:
        return True
    offered = _values(given)
    return offered is not None and all(value in wanted for value in offered)


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _inside_feeds(given: Mapping[str, Any], taken: Mapping[str, Any], depth: int) -> bool:
    items = taken.get("items")
    if isinstance(items, Mapping) and items and not feeds(given.get("items"), items, depth + 1):
        return False
    if "properties" not in taken:
        return True
    offered, wanted = _members(given), _members(taken)
    closed = taken.get("additionalProperties") is False
    if closed and not offered.keys() <= wanted.keys():
        return False
    return all(
        (name in offered and (offered[name].required or not field.required))
        or (name not in offered and not field.required)
        for name, field in wanted.items()
    ) and all(feeds(offered[name].schema, field.schema, depth + 1) for name, field in wanted.items() if name in offered)


def _members(schema: Mapping[str, Any]) -> dict[str, Field]:
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    if not isinstance(properties, Mapping):
        return {}
    return {name: Field(name=name, schema=inner, required=name in wanted) for name, inner in properties.items()}
