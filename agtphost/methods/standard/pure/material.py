"""What the callers of pure methods send, read within bounds: rows, texts, numbers, and places inside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.vocabulary.json_paths import MISSING as MISSING
from agtphost.vocabulary.json_paths import at as at
from agtphost.vocabulary.json_paths import is_place as is_place
from agtphost.vocabulary.json_paths import put as put

MAX_ROWS = 10_000
"""Rows, items or records of one call."""

MAX_TEXT = 200_000
"""Characters of a text of one call."""


def require(call: Mapping[str, Any], name: str) -> Any:
    """
    Return a required parameter.

    :raises Refusal: 422 where it is missing.
    """
    if name not in call:
        raise parameters.invalid(name, f"The parameter {name} is missing.", f"Send {name}.", missing=True)
    return call[name]


def rows(call: Mapping[str, Any], name: str, *, least: int = 0, most: int = MAX_ROWS) -> list[Any]:
    """
    Return a parameter that must be a list of a permitted length.

    :raises Refusal: 422 for anything else.
    """
    value = require(call, name)
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise parameters.invalid(
            name, f"{name} is not a list of {least} to {most} members.", "Send a list, in parts where it is longer."
        )
    return value


def text(call: Mapping[str, Any], name: str, most: int = MAX_TEXT) -> str:
    """
    Return a parameter that must be a text of a permitted length and not blank.

    :raises Refusal: 422 for anything else.
    """
    value = require(call, name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise parameters.invalid(name, f"{name} is not a text of 1 to {most} characters.", f"Send {name} as text.")
    return value


def flag(call: Mapping[str, Any], name: str) -> bool:
    """
    Return an optional parameter that must be true or false; false if it is missing.

    :raises Refusal: 422 for anything else.
    """
    value = call.get(name, False)
    if not isinstance(value, bool):
        raise parameters.invalid(name, f"{name} is neither true nor false.", f"Send {name} as true or false.")
    return value


def share(call: Mapping[str, Any], name: str, default: float) -> float:
    """Return a parameter that is a number from 0 to 1; ``default`` where it is absent."""
    return parameters.fraction(call, name) if call.get(name) is not None else default


LARGEST = 1e100
"""Of a number that is calculated with: the squares of ten thousand such can be added up."""


def number(value: Any) -> float | None:
    """Return a value as a number; None for any other value, for true and false, and beyond :data:`LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        return None
    return float(value)


def numeric_places(records: Sequence[Any], most: int) -> list[str]:
    """Return the members that are numbers in at least half of the records, in the order in which they first stand."""
    counts: dict[str, int] = {}
    for record in records:
        if isinstance(record, Mapping):
            for name, value in record.items():
                if number(value) is not None:
                    counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if 2 * count >= len(records)][:most]


def unknown(name: str, value: str, allowed: Sequence[str], what: str) -> Refusal:
    """Return the refusal of a value that is not one of the permitted words."""
    return parameters.invalid(name, f"{value[:64]!r} is no {what}.", f"Use {', '.join(allowed)}.")
