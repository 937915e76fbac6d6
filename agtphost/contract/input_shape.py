"""
The shape of an input that a record keeps: which known members it had, and their JSON types.

A shape contains no values, and no names that the schema lacks, so it cannot contain a credential. It is enough to
decide later whether a call of that shape would still be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 16
"""Members of one shape."""

LONGEST = 64
"""Characters of a member's name; longer names are left out."""

OTHERS = "..."
"""Represents the members that the schema does not name."""

_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def shape_of(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each member of an input that its schema names, and the count of all others."""
    known = schema.get("properties")
    if not known or not given:
        return {}
    shape: dict[str, str] = {}
    others = 0
    for name, value in given.items():
        if name in known and len(name) <= LONGEST and len(shape) < MOST:
            shape[name] = _TYPES.get(type(value), "unknown")
        else:
            others += 1
    if others:
        shape[OTHERS] = str(others)
    return shape


def faults_of(schema: Mapping[str, Any], shape: Mapping[str, Any]) -> list[dict[str, str]]:
    """
    Return why an input of this shape would be refused, as far as a shape shows that; entries are as in ``faults``.
    """
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    required = schema.get("required")
    faults = []
    if OTHERS not in shape:
        missing = [name for name in required if name not in shape] if isinstance(required, list) else []
        faults += [{"path": "", "message": f"{name!r} is a required property"} for name in missing]
    for name, kind in shape.items():
        if name == OTHERS:
            continue
        if name not in known:
            if schema.get("additionalProperties") is False:
                faults.append({"path": f"/{name}", "message": "is not expected"})
            continue
        types = known[name].get("type") if isinstance(known[name], Mapping) else None
        allowed = [types] if isinstance(types, str) else types
        # 1.0 is an integer in JSON Schema, and the record does not have the value.
        numbers = kind in ("integer", "number") and isinstance(allowed, list) and {"integer", "number"} & {*allowed}
        if isinstance(allowed, list) and kind not in allowed and not numbers:
            faults.append({"path": f"/{name}", "message": f"is {kind}, not {' or '.join(map(str, allowed))}"})
    return faults
