"""
Parameters that endpoints of some methods must have: core v08 section 7.4, methods v01 sections 5, 8 and 10.

RUN runs only procedures of a registry: ``procedure_id`` names one, and the endpoint's input schema lists the allowed
values. The procedure's arguments are in ``input``, an object. No other parameter, and no member of one, may accept
arbitrary text. TRANSFER names both principals, AUTHORIZE what is granted to whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import re2

PROCEDURE, INPUT = "procedure_id", "input"

CARRIED = frozenset({"context", "session_id", "task_id"})
"""
Members that every method takes in addition to its parameters (core v08 section 7.2).

They are repeated here because this module checks manifests, and shares no code with what builds them.
"""

LISTED = ("enum", "const")
"""Keywords of a schema that accepts only certain values."""

LOOSE_FORMATS = frozenset({"json-pointer", "uri-reference"})
"""Formats that can contain a command."""

FREE = "/bin/sh -c 'id; rm -rf ~' | tee \"x\" && y = f(1)\n"
"""A sample of a free-form text. A pattern that matches it, or its beginning at some length, accepts any text."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

LENGTHS = tuple(range(4, 65)) + tuple(2**power for power in range(7, 17))

ANYTHING = ""
"""Used instead of a type if a schema has none."""

DEMANDED: Mapping[str, tuple[str, ...]] = {
    "RUN": (PROCEDURE,),
    "TRANSFER": ("resource_id", "from_principal", "to_principal"),
    "AUTHORIZE": ("subject", "resource", "scope"),
}
"""Parameters that the input schema must require, by method (methods v01 tables 23, 25 and 49)."""


def parameter_faults(method: str, schema: object) -> Iterator[tuple[str, str]]:
    """
    Yield what an endpoint's input schema lacks for its method.

    :param schema: the schema as written; a value that is not a schema has no parameters.
    :return: the parameter, and a sentence about it.
    """
    demanded = DEMANDED.get(method, ())
    if not demanded:
        return
    table = schema if isinstance(schema, Mapping) else {}
    written, required = table.get("properties"), table.get("required")
    properties = written if isinstance(written, Mapping) else {}
    for name in demanded:
        if name not in properties or not isinstance(required, list) or name not in required:
            yield name, f"{method} needs the parameter {name}, but input_schema does not require it"
        elif name == PROCEDURE and not _is_enumerated(properties[name]):
            yield name, f"{name} accepts any text; {method} runs only procedures of a registry, not free-form strings"
    if PROCEDURE in demanded:
        yield from _free_texts(method, table, properties)


def _free_texts(
    method: str, table: Mapping[str, object], properties: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    for name, schema in properties.items():
        if name == INPUT and _types(schema) - {"object", "null"}:
            yield name, f"{name} must be an object; {method} passes parameters to a procedure, not free-form strings"
        elif name not in (PROCEDURE, INPUT) and name not in CARRIED and _takes_any_text(schema):
            yield name, f"{name} accepts any text; {method} runs only procedures of a registry, not free-form strings"
    further = table.get("patternProperties")
    for name, schema in further.items() if isinstance(further, Mapping) else ():
        if _takes_any_text(schema):
            yield (
                str(name),
                f"{name} accepts any text; {method} runs only procedures of a registry, not free-form strings",
            )


def _types(schema: object) -> set[object]:
    found = schema.get("type", ANYTHING) if isinstance(schema, Mapping) else ANYTHING
    return set(found) if isinstance(found, list) else {found}


def _takes_any_text(schema: object) -> bool:
    """Return whether a schema accepts, at some depth, a text that no list, pattern or format restricts."""
    if not isinstance(schema, Mapping):
        return schema is not False
    if any(name in schema for name in LISTED):
        return False
    types = _types(schema)
    if ANYTHING in types or ("string" in types and not _is_restricted(schema)):
        return True
    inside: list[object] = []
    if "array" in types:
        inside += [schema.get("items", True), *_all(schema, "prefixItems")]
    if "object" in types:
        inside += [schema.get("additionalProperties", True), *_all(schema, "properties", "patternProperties")]
    return any(map(_takes_any_text, inside))


def _all(schema: Mapping[Any, object], *keywords: str) -> Iterator[object]:
    for keyword in keywords:
        value = schema.get(keyword)
        yield from value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _is_restricted(schema: Mapping[Any, object]) -> bool:
    """Return whether a text is restricted to a form that cannot contain a command."""
    form, pattern = schema.get("format"), schema.get("pattern")
    if isinstance(form, str) and form not in LOOSE_FORMATS:
        return True
    return isinstance(pattern, str) and not _takes_free(pattern)


@lru_cache(256)
def _takes_free(pattern: str) -> bool:
    try:
        search = re2.compile(pattern, _OPTIONS).search
    except re2.error:
        return False  # A schema with an invalid pattern is refused elsewhere.
    return any(search((FREE * (length // len(FREE) + 1))[:length]) for length in LENGTHS)


def _is_enumerated(schema: object) -> bool:
    """Return whether a parameter accepts only certain texts."""
    if not isinstance(schema, Mapping):
        return False
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) and value for value in values)


REGISTRY = f'list the procedures: properties.{PROCEDURE} = {{ enum = ["nightly-backup"] }}, and {PROCEDURE} in required'
"""The hint how to correct a RUN endpoint."""


def hint(name: str) -> str:
    """Return the hint about a missing parameter."""
    if name == PROCEDURE:
        return REGISTRY
    if name not in {each for demanded in DEMANDED.values() for each in demanded}:
        return f"put {name} into the object {INPUT}, or bound it by enum, pattern or format"
    return f"declare {name} in input_schema.properties, and name it in required"
