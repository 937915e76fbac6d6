"""Places inside of JSON: names of members with dots between them, ``order.customer.city``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 16
"""Names of a place."""

_PLACE = re.compile(r"[^.\s][^.]{0,127}(?:\.[^.]{1,128})*")

MISSING: Any = object()
"""What is at a place that a value does not have."""


def is_place(value: Any) -> bool:
    """Return whether a text is names with dots between them."""
    return isinstance(value, str) and value.count(".") < MAX_DEPTH and _PLACE.fullmatch(value) is not None


def at(value: Any, place: str) -> Any:
    """
    Return the value at a place; :data:`MISSING` where the place is empty.

    A member whose name has the dots itself comes first.
    """
    if isinstance(value, Mapping) and place in value:
        return value[place]
    for name in place.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = value[name]
    return value


def put(into: dict[str, Any], place: str, value: Any) -> bool:
    """Write a value to a place, and make the objects above it; return False where another value is in the way."""
    *above, last = place.split(".")
    for name in above:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            return False
    into[last] = value
    return True
