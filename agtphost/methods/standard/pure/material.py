"""What the callers of pure methods send, read within bounds: rows, texts, numbers, and places inside of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters

MAX_ROWS = 10_000
"""Rows, items or records of one call."""

MAX_TEXT = 200_000
"""Characters of a text of one call."""

MAX_DEPTH = 16
"""Names of a place such as ``order.customer.city``."""

_PLACE = re.compile(r"[^.\s][^.]{0,127}(?:\.[^.]{1,128})*")

MISSING: Any = object()
"""What is at a place that a value does not have."""


def given(call: Mapping[str, Any], name: str) -> Any:
    """
    A parameter that the method cannot do without.

    :raises Refusal: 422 where it is missing.
    """
    if name not in call:
        raise parameters.invalid(name, f"The parameter {name} is missing.", f"Send {name}.", missing=True)
    return call[name]


def rows(call: Mapping[str, Any], name: str, *, least: int = 0, most: int = MAX_ROWS) -> list[Any]:
    """
    A list of so many members.

    :raises Refusal: 422 for anything else.
    """
    value = given(call, name)
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise parameters.invalid(
            name, f"{name} is not a list of {least} to {most} members.", "Send a list, in parts where it is longer."
        )
    return value


def text(call: Mapping[str, Any], name: str, most: int = MAX_TEXT) -> str:
    """
    A text of so many characters, and not of spaces alone.

    :raises Refusal: 422 for anything else.
    """
    value = given(call, name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise parameters.invalid(name, f"{name} is not a text of 1 to {most} characters.", f"Send {name} as text.")
    return value


def flag(call: Mapping[str, Any], name: str) -> bool:
    """
    An optional true or false; false where it is missing.

    :raises Refusal: 422 for anything else.
    """
    value = call.get(name, False)
    if not isinstance(value, bool):
        raise parameters.invalid(name, f"{name} is neither true nor false.", f"Send {name} as true or false.")
    return value


def share(call: Mapping[str, Any], name: str, default: float) -> float:
    """An optional number from 0 to 1."""
    return parameters.fraction(call, name) if call.get(name) is not None else default


def is_place(value: Any) -> bool:
    """Whether it is names with dots between them."""
    return isinstance(value, str) and value.count(".") < MAX_DEPTH and _PLACE.fullmatch(value) is not None


def at(value: Any, place: str) -> Any:
    """
    What stands at a place; :data:`MISSING` where there is nothing.

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
    """Write a value to a place, and make what is above it; False where something else stands in the way."""
    *above, last = place.split(".")
    for name in above:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            return False
    into[last] = value
    return True


def number(value: Any) -> float | None:
    """A number as such; None for what is none, true and false included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return float(value)


def numeric_places(records: Sequence[Any], most: int) -> list[str]:
    """The members that are numbers in at least half of the records, in the order in which they first stand."""
    counts: dict[str, int] = {}
    for record in records:
        if isinstance(record, Mapping):
            for name, value in record.items():
                if number(value) is not None:
                    counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if 2 * count >= len(records)][:most]


def unknown(name: str, value: str, allowed: Sequence[str], what: str) -> Refusal:
    """The refusal of a word that is none of a few."""
    return parameters.invalid(name, f"{value[:64]!r} is no {what}.", f"Use {', '.join(allowed)}.")
