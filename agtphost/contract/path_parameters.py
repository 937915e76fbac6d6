"""Parameters in the path of an endpoint: each is declared in the input schema (AGTP-API section 5.3)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.vocabulary.tomltext import Location

IN_PATHS = ("string", "integer", "number", "boolean")
"""Types of a path's parameters; the text is converted to the type that the schema declares."""


def path_parameter_faults(path: str, schema: Any) -> Iterator[tuple[Location, str, str]]:
    """
    Yield faults of a path's parameters that are not declared, or with a type that a text cannot have.

    :param schema: the input schema of the endpoint.
    :return: the key at fault, what is wrong, and what to do.
    """
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    if not isinstance(properties, Mapping):
        return
    for name in re.findall(r"\{([A-Za-z0-9_]+)\}", path):
        if name not in properties:
            yield _describe_undeclared(name, properties)
            continue
        inner = properties[name]
        declared = inner.get("type", "string") if isinstance(inner, Mapping) else "string"
        if declared not in IN_PATHS and (not isinstance(declared, list) or "string" not in declared):
            yield (
                ("input_schema", "properties", name, "type"),
                f"the path's parameter {name!r} is declared as {declared}, which a part of a path cannot be",
                f'write type = "{IN_PATHS[0]}", or {", ".join(IN_PATHS[1:])}',
            )


def _describe_undeclared(name: str, properties: Mapping[Any, Any]) -> tuple[Location, str, str]:
    close = difflib.get_close_matches(name, map(str, properties), 1)
    if close:
        return (
            ("input_schema", "properties", close[0]),
            f"the path has the parameter {name!r}, and {close[0]} is unknown",
            f"did you mean {name!r}?",
        )
    return (
        ("input_schema",),
        f"the path's parameter {name!r} is not declared in input_schema",
        f'add [input_schema.properties.{name}] with type = "string"',
    )
