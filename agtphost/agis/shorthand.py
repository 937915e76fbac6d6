"""
The draft's shorthand for contracts, converted to JSON Schemas (AGIS v01 section 7, reading D7-68).

``required: [party_size (integer, minimum: 1)]`` is the required property ``party_size`` of a closed object, with the
schema ``{type: integer, minimum: 1}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ITEM = re.compile(r"\s*+([A-Za-z_][A-Za-z0-9_.-]*+)\s*+(?:\((.*)\)\s*)?", re.DOTALL)
_KEYWORDS = frozenset(
    {
        "type",
        "properties",
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "enum",
        "const",
        "items",
        "$schema",
        "additionalProperties",
    }
)
_TYPES = {
    "string": {"type": "string"},
    "text": {"type": "string"},
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "float": {"type": "number"},
    "decimal": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "array": {"type": "array"},
    "list": {"type": "array"},
    "object": {"type": "object"},
    "iso8601": {"type": "string", "format": "date-time"},
    "iso 8601": {"type": "string", "format": "date-time"},
    "datetime": {"type": "string", "format": "date-time"},
    "date-time": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
_BOUNDS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}


def is_shorthand(contract: Any) -> bool:
    """Return whether a contract is in shorthand, not a JSON Schema."""
    if isinstance(contract, list):
        return all(isinstance(item, (str, Mapping)) for item in contract)
    if not isinstance(contract, Mapping) or _KEYWORDS & contract.keys():
        return False
    return all(
        _is_list(value) if name in ("required", "optional") else isinstance(value, (str, list, Mapping, type(None)))
        for name, value in contract.items()
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, (str, Mapping)) for item in value)


def schema_of(contract: Any, *, closed: bool) -> dict[str, Any]:
    """
    Return the JSON Schema of a contract in shorthand.

    :param contract: a contract for which :func:`is_shorthand` is true.
    :param closed: whether other members are refused, as for an input.
    """
    if isinstance(contract, list):
        properties = dict(_properties(contract))
        required: list[str] = []
    elif "required" in contract or "optional" in contract:
        wanted = dict(_properties(contract.get("required") or []))
        properties = {**wanted, **dict(_properties(contract.get("optional") or []))}
        required = [*wanted]
    else:
        properties, required = {name: _member_schema(value) for name, value in contract.items()}, []
    found: dict[str, Any] = {"type": "object", "additionalProperties": not closed, "properties": properties}
    return {**found, "required": required} if required else found


def doubts(contract: Any) -> Iterator[tuple[str, str]]:
    """
    Yield names and sentences about unknown types and duplicates of a contract in shorthand.

    :param contract: a contract for which :func:`is_shorthand` is true.
    """
    groups = (
        [contract] if isinstance(contract, list) else [contract.get(name) or [] for name in ("required", "optional")]
    )
    seen: set[str] = set()
    for item in (each for group in groups for each in _rejoin(group)):
        found = _ITEM.fullmatch(item) if isinstance(item, str) else None
        if found is None:
            continue  # An invalid name is reported elsewhere: it is not in snake_case.
        if found[1] in seen:
            yield found[1], f"{found[1][:64]} is declared twice"
        seen.add(found[1])
        if found[2] is not None and not _kind(found[2]):
            yield found[1], f"({found[2][:64]}) is not a type of JSON Schema, so {found[1][:64]} can be anything"


def _properties(items: Iterable[Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    for item in _rejoin(items):
        if isinstance(item, Mapping):
            # YAML reads `party_size (integer, minimum: 1)` as a mapping, because of the colon.
            for name, value in item.items():
                if "(" in name:
                    yield _property(f"{name}: {value}")
                else:
                    yield name, _member_schema(value)
        else:
            yield _property(item)


def _rejoin(items: Iterable[Any]) -> Iterable[Any]:
    """
    Yield items with their parentheses rejoined: YAML splits ``month (string, format: date)`` in brackets at its comma.
    """
    opened: list[str] = []
    for item in items:
        text = ", ".join(f"{name}: {value}" for name, value in item.items()) if isinstance(item, Mapping) else item
        if opened or ("(" in text and ")" not in text):
            opened.append(text)
            if ")" in text:
                yield ", ".join(opened)
                opened = []
        else:
            yield item
    if opened:
        yield ", ".join(opened)


def _property(text: str) -> tuple[str, dict[str, Any]]:
    found = _ITEM.fullmatch(text)
    if found is None:
        return text.strip(), {}
    return found[1], _kind(found[2] or "")


def _member_schema(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return schema_of(value, closed=False) if value and is_shorthand(value) else dict(value)
    if isinstance(value, list):
        return {"type": "array"}
    return _kind(str(value)) if isinstance(value, str) else {}


def _kind(text: str) -> dict[str, Any]:
    """Return the schema of ``integer, minimum: 1, maximum: 20`` or ``string, enum: [A, B]``, without unknown words."""
    schema: dict[str, Any] = {}
    choices = re.search(r"enum:\s*+\[([^\[\]]*+)\]", text)
    if choices is not None:
        schema["enum"] = [choice.strip().strip("\"'") for choice in choices[1].split(",")]
        text = text.replace(choices[0], "")
    for part in text.split(","):
        word, colon, value = (piece.strip() for piece in part.partition(":"))
        if colon and word in _BOUNDS and re.fullmatch(r"-?[0-9]{1,15}", value):
            schema[word] = int(value)
        elif colon and word == "format":
            schema["format"] = value
        elif word.lower() in _TYPES:
            schema = {**_TYPES[word.lower()], **schema}
    return schema
