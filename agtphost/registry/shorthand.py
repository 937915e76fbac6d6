"""The draft's shorthand for inputs and outputs, ``{"text": "string"}``, converted to a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAME: Mapping[str, str] = {
    **dict.fromkeys(("text", "str"), "string"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("dict", "map"), "object"),
    "bool": "boolean",
    "list": "array",
}
_TYPES: Mapping[str, Mapping[str, Any]] = {
    **{name: {"type": name} for name in ("string", "number", "integer", "boolean", "array", "object", "null")},
    **{name: {"type": word} for name, word in _SAME.items()},
    **{name: {"type": "string", "format": "uri"} for name in ("url", "uri")},
    "base64": {"type": "string", "contentEncoding": "base64"},
    "any": {},
}

_KEYWORDS = frozenset(
    {"$schema", "$ref", "$defs", "properties", "required", "additionalProperties", "anyOf", "oneOf", "allOf"}
)
"""Members that only a JSON Schema has."""


class NotASchema(ValueError):
    """
    The value is neither a JSON Schema nor the shorthand.

    :param member: the faulty member below what was parsed; empty for the whole.
    """

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


def schema_of(given: Any) -> Mapping[str, Any]:
    """
    Return the JSON Schema of ``inputs``, ``outputs``, ``input_schema`` or ``output_schema``.

    In the shorthand every member is a required field, unless its type ends in ``?``; ``string[]`` is a list of strings.

    :raises NotASchema: the value is neither.
    """
    if not isinstance(given, Mapping):
        raise NotASchema("", 'is neither a JSON Schema nor an object such as {"text": "string"}')
    if _is_schema(given):
        return given
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, said in given.items():
        kind, optional = (said[:-1], True) if isinstance(said, str) and said.endswith("?") else (said, False)
        properties[name] = _type(name, kind)
        if not optional:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _is_schema(given: Mapping[str, Any]) -> bool:
    """Return whether a value has members that the shorthand lacks; an empty object means the same in both."""
    if any(name in given and not isinstance(given[name], str) for name in _KEYWORDS):
        return True
    if "$schema" in given or "$ref" in given or isinstance(given.get("type"), list):
        return True
    # `{"type": "object"}` is any object. `{"type": "string"}` is shorthand: an input with a field named type.
    return given.get("type") == "object" and all(
        name in ("type", "title", "description") or not isinstance(value, str) for name, value in given.items()
    )


def _type(name: str, declared: Any) -> Mapping[str, Any]:
    if isinstance(declared, Mapping):
        return declared if "type" in declared or _is_schema(declared) else schema_of(declared)
    if isinstance(declared, str):
        word = declared.strip().lower()
        if word.endswith("[]"):
            return {"type": "array", "items": _type(name, word[:-2])}
        if word in _TYPES:
            return _TYPES[word]
    raise NotASchema(
        name[:64], "is not a type: use string, number, integer, boolean, array or object, or a JSON Schema"
    )


MOST_PLAIN = 100
"""Fields of a shorthand whose schema does not need to be compiled to be accepted."""


def is_plain(given: Any) -> bool:
    """Return whether a value is a shorthand of a few words, which cannot make a costly schema."""
    return (
        isinstance(given, Mapping)
        and len(given) <= MOST_PLAIN
        and all(isinstance(value, str) for value in given.values())
        and not _is_schema(given)
    )
