"""
Python types as JSON Schemas, and values of theirs read from JSON and written back.

Supported types: ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any``, ``Optional`` and other unions, ``Literal``,
``Enum``, ``NewType``, lists, tuples of any length and sets, dictionaries with text as keys, ``TypedDict``, dataclasses,
models of pydantic, and ``Annotated`` with a description (text) or further keywords (a dictionary).
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import AsyncIterable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

_SIMPLE: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    type(None): "null",
    dict: "object",
    list: "array",
}
_AS_TEXT = frozenset({"bytes", "bytearray", "date", "datetime", "time", "timedelta", "Decimal", "Path", "UUID"})
"""Classes whose values authors expect to get from a text, which only models of pydantic do."""

_LISTS: tuple[object, ...] = (list, Sequence, Collection, tuple, set, frozenset)
_DICTS: tuple[object, ...] = (dict, Mapping)
_DEEPEST = 16


class UnsupportedType(TypeError):
    """
    A type that no JSON Schema is made of; the message names it.

    :param hint: what to write instead.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def schema_of(kind: Any, depth: int = 0) -> dict[str, Any]:
    """
    Return the JSON Schema of a type.

    :raises UnsupportedType: there is none, or it leads back to itself.
    """
    if depth > _DEEPEST:
        raise UnsupportedType(
            "the type leads back to itself, or is nested too deeply",
            "write dict[str, Any] or Any where it begins anew, or the schema in the declaration",
        )
    kind = _without_name(kind)
    if kind is Any or kind is object:
        return {}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        # Before all else: what it is annotated with may have no hash.
        return {**schema_of(arguments[0], depth), **_annotations(arguments[1:])}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if origin in (typing.Required, typing.NotRequired):
        return schema_of(arguments[0], depth)
    if origin in (Union, types.UnionType):
        return _union([schema_of(each, depth + 1) for each in arguments])
    if origin is Literal:
        return _choice(list(arguments))
    if origin in _LISTS or kind in (tuple, set, frozenset):
        return _list(kind, origin, arguments, depth)
    if origin in _DICTS:
        if arguments and arguments[0] is not str:
            raise UnsupportedType(f"{kind}: keys of a JSON object are text")
        inner = schema_of(arguments[1], depth + 1) if len(arguments) > 1 else {}
        return {"type": "object", **({"additionalProperties": inner} if inner else {})}
    if isinstance(kind, type):
        return _of_class(kind, depth)
    raise UnsupportedType(f"{kind!r} cannot be expressed as a JSON Schema", _instead_of(origin))


def _without_name(kind: Any) -> Any:
    """Return the type that a ``NewType`` or a declared alias means."""
    if kind is typing.LiteralString:
        return str
    while True:
        meant = getattr(kind, "__supertype__", None)
        if meant is None and type(kind).__name__ == "TypeAliasType":
            meant = kind.__value__
        if meant is None:
            return kind
        kind = meant


def _instead_of(kind: object) -> str:
    """Return what to write in place of a type that cannot be expressed."""
    name = kind.__name__ if isinstance(kind, type) else ""
    if name in _AS_TEXT:
        return "write str and convert the text in the function, or make it a member of a model of pydantic"
    if isinstance(kind, type) and issubclass(kind, (AsyncIterable, Iterator)):
        return "a call has one answer: return it whole, and send interim messages by `await context.emit({...})`"
    return "write str, int, float, bool, list[T], dict[str, T], a TypedDict, a dataclass or a model of pydantic"


def _annotations(said: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in said:
        if isinstance(each, str):
            found["description"] = each
        elif isinstance(each, Mapping):
            found.update(each)
    return found


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Join several schemas to one: a list of types if they have nothing else."""
    if any(not each for each in schemas):
        return {}
    if all(set(each) == {"type"} and isinstance(each["type"], str) for each in schemas):
        kinds = list(dict.fromkeys(each["type"] for each in schemas))
        return {"type": kinds[0] if len(kinds) == 1 else kinds}
    return {"anyOf": schemas}


def _choice(values: list[Any]) -> dict[str, Any]:
    if not all(type(value) in _SIMPLE for value in values):
        raise UnsupportedType(f"{values!r}: a choice in JSON is of text, numbers, true, false and null")
    kinds = list(dict.fromkeys(_SIMPLE[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _list(kind: Any, origin: Any, arguments: tuple[Any, ...], depth: int) -> dict[str, Any]:
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        raise UnsupportedType(f"{kind}: write tuple[T, ...] or list[T]")
    inner = schema_of(arguments[0], depth + 1) if arguments else {}
    unique = {"uniqueItems": True} if (origin or kind) in (set, frozenset) else {}
    return {"type": "array", **({"items": inner} if inner else {}), **unique}


def _of_class(kind: type, depth: int) -> dict[str, Any]:
    if issubclass(kind, enum.Enum):
        return _choice([member.value for member in kind])
    if _is_typed_dict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        required: Collection[str] = getattr(kind, "__required_keys__", ())
        return _object(hints, [name for name, each in hints.items() if _is_key_required(name, each, required)], depth)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = [each for each in dataclasses.fields(kind) if each.init]
        needed = [each.name for each in fields if _is_required(each)]
        return _object({each.name: hints[each.name] for each in fields}, needed, depth)
    if is_model(kind):
        return _inline_references(kind.model_json_schema())  # type: ignore[attr-defined]
    raise UnsupportedType(f"{kind.__qualname__} cannot be expressed as a JSON Schema", _instead_of(kind))


def _is_typed_dict(kind: Any) -> bool:
    """Return whether a type is a TypedDict; typing_extensions has its own class before Python 3.12."""
    return typing.is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _is_key_required(name: str, kind: Any, required: Collection[str]) -> bool:
    """
    Return whether a TypedDict requires a key. With ``from __future__ import annotations`` the class itself does not
    know, because hints are texts.
    """
    origin = get_origin(kind)
    return origin is typing.Required or (name in required and origin is not typing.NotRequired)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _object(hints: Mapping[str, Any], required: Sequence[str], depth: int) -> dict[str, Any]:
    properties = {name: schema_of(kind, depth + 1) for name, kind in hints.items()}
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def is_model(kind: object) -> bool:
    """Return whether a class is a model of pydantic, which is not imported for the question."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of pydantic without references and titles."""
    shared = schema.get("$defs", {})

    def walk(value: Any, depth: int, *, members: bool = False) -> Any:
        if depth > 4 * _DEEPEST:
            raise UnsupportedType("the model leads back to itself, or is nested too deeply")
        if isinstance(value, list):
            return [walk(each, depth + 1) for each in value]
        if not isinstance(value, Mapping):
            return value
        if "$ref" in value and not members:
            return walk(shared[str(value["$ref"]).rpartition("/")[2]], depth + 1)
        kept = value.items() if members else ((k, v) for k, v in value.items() if k not in ("title", "$defs"))
        return {name: walk(inner, depth + 1, members=name == "properties") for name, inner in kept}

    found: dict[str, Any] = walk(schema, 0)
    return found


# Values


def read(kind: Any, value: Any) -> Any:
    """Convert a JSON value that is valid against the schema of a type to that type."""
    kind = _without_name(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return read(arguments[0], value)
    if origin in (Union, types.UnionType):
        fitting = [each for each in arguments if _fits(each, value)]
        return read(fitting[0], value) if fitting else value
    if isinstance(value, list) and (origin in _LISTS or kind in (tuple, set, frozenset)):
        items = [read(arguments[0], each) for each in value] if arguments else value
        return items if (origin or kind) in (list, Sequence, Collection) else (origin or kind)(items)
    if isinstance(value, Mapping):
        return _read_object(kind, origin, arguments, value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, enum.Enum) else value


def _read_object(kind: Any, origin: Any, arguments: tuple[Any, ...], value: Mapping[str, Any]) -> Any:
    if origin in _DICTS and len(arguments) == 2:
        return {name: read(arguments[1], inner) for name, inner in value.items()}
    if is_model(kind):
        return kind.model_validate(dict(value))
    if _is_typed_dict(kind) or dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        members = {name: read(hints.get(name, Any), inner) for name, inner in value.items()}
        return members if _is_typed_dict(kind) else kind(**members)
    return value


def _fits(kind: Any, value: Any) -> bool:
    """Return whether a JSON value looks like one of a type, which tells the members of a union apart."""
    try:
        schema = schema_of(kind)
    except UnsupportedType:
        return False
    kinds = schema.get("type")
    named = {"string": str, "integer": int, "boolean": bool, "array": list, "object": Mapping, "null": type(None)}
    allowed = [kinds] if isinstance(kinds, str) else kinds or []
    if "enum" in schema:
        return value in schema["enum"]
    if isinstance(value, bool):
        return "boolean" in allowed
    if "number" in allowed and isinstance(value, (int, float)):
        return True
    if not any(isinstance(value, named[each]) for each in allowed if each in named):
        return False
    return not isinstance(value, Mapping) or all(name in value for name in schema.get("required", ()))


def to_json(value: Any) -> Any:
    """Return a value that a function returned, as JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if is_model(type(value)):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: to_json(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(each) for each in value]
    return value
