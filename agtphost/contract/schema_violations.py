"""
What a value breaks of its schema, and a schema of its dialect, in sentences; and the addresses that a schema refers to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs

from agtphost.contract.schema_keywords import DIALECT

MAX_NAMES = 5
"""Undeclared properties named in one fault."""

MAX_SHOWN = 64
"""Characters of a caller's name that are shown."""

BASE = "schema:///"
"""The address of a schema without ``$id``."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)

_LIMITS: Mapping[str, str] = {
    "minimum": "is less than {}",
    "maximum": "is more than {}",
    "exclusiveMinimum": "is not more than {}",
    "exclusiveMaximum": "is not less than {}",
    "minLength": "is shorter than {} characters",
    "maxLength": "is longer than {} characters",
    "minItems": "has fewer than {} items",
    "maxItems": "has more than {} items",
    "minProperties": "has fewer than {} properties",
    "maxProperties": "has more than {} properties",
}
_FIXED: Mapping[str, str] = {
    "anyOf": "does not match any of the alternatives",
    "oneOf": "does not match exactly one of the alternatives",
    "not": "matches a schema that it must not match",
    "const": "is not the one value allowed",
    "contains": "lacks the items that it must contain",
    "uniqueItems": "has an item twice",
    "propertyNames": "has a property whose name is not allowed",
    "falseSchema": "is not allowed",
}


def describe_break(error: jsonschema_rs.ValidationError) -> str:
    """Return what a part of a schema breaks, with its value: a schema is no secret."""
    shown = json.dumps(error.instance, ensure_ascii=False)[:64]
    if error.instance_path and error.instance_path[-1] == "type":
        return f"{shown} is not a type; write array, boolean, integer, null, number, object or string"
    return f"{shown} {describe_violation(error)}"


def describe_violation(error: jsonschema_rs.ValidationError) -> str:
    """Return what a value breaks, without the value."""
    keyword = error.kind.name
    if keyword in _FIXED:
        return _FIXED[keyword]
    members = error.kind.as_dict()
    if keyword in _LIMITS:
        return _LIMITS[keyword].format(members["limit"])
    match members:
        case {"types": types}:
            return f"is not of type {' or '.join(types)}"
        case {"property": name}:
            return f"has no property {_cut(name)}"
        case {"unexpected": names}:
            return _undeclared_message(names)
        case {"format": name}:
            return f"is not a {name}"
        case {"pattern": pattern}:
            return f"does not match the pattern {pattern}"
        case {"options": options}:
            return f"is not one of {json.dumps(options, ensure_ascii=False)[:256]}"
        case {"multiple_of": divisor}:
            return f"is not a multiple of {divisor}"
    return f"does not follow {keyword}"


def _cut(name: object) -> str:
    return repr(str(name)[:MAX_SHOWN])


def _undeclared_message(names: Sequence[object]) -> str:
    shown = ", ".join(_cut(name) for name in names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"has undeclared members: {shown}{more}"


def join(base: str, reference: str) -> str | None:
    """Return the address of a reference without its fragment (RFC 3986 section 5.2); None if the base has no path."""
    if not reference:
        return base
    if _ABSOLUTE.match(reference):
        return reference
    scheme, _, rest = base.partition(":")
    if not rest.startswith("/"):
        return None
    # urljoin supports only some schemes, but works alike for all.
    return scheme + urljoin(f"http:{rest}", reference).removeprefix("http")


_SCALARS = frozenset({str, int, float, bool, type(None)})
"""Most values of a schema, which refer to nothing."""


def remote_references(schema: Any) -> Iterator[str]:
    """Yield the references that lead outside a schema: to addresses that none of its ``$id`` has."""
    addresses, references = set[str | None](), list[tuple[str, str | None]]()
    waiting: list[tuple[Any, str]] = [(schema, BASE)]
    while waiting:
        item, base = waiting.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$id"), str):
                base = join(base, item["$id"].partition("#")[0]) or base
                addresses.add(base)
            for keyword in ("$ref", "$dynamicRef"):
                reference = item.get(keyword)
                if isinstance(reference, str) and not reference.startswith("#"):
                    references.append((reference, join(base, reference.partition("#")[0])))
            waiting.extend((value, base) for value in item.values() if type(value) not in _SCALARS)
        elif isinstance(item, list):
            waiting.extend((value, base) for value in item if type(value) not in _SCALARS)
    yield from (reference for reference, address in references if address not in addresses)


def schema_error(schema: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """Return where and how a schema breaks its dialect; None if it does not."""
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        return tuple(error.instance_path), describe_break(error)[:160]
    except (ValueError, jsonschema_rs.ReferencingError):
        return (), "it is not a schema of its dialect"
    return None


def is_part_sound(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a schema follows 2020-12, and refers only to places in the schema."""
    named = "$schema" not in part or part["$schema"] == DIALECT
    return named and schema_error(part) is None and next(remote_references(part), None) is None
