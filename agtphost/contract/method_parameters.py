"""
Parameters without which no endpoint of some methods may exist: core v08 section 7.4, methods v01 sections 5, 8 and 10.

What RUN runs is named by a ``procedure_id`` out of a registry, and by nothing
else: the registry is the list of values that the endpoint's input schema
takes. What the procedure works on is ``input``, an object; beside it no
parameter takes any text whatever. TRANSFER says from whom to whom, AUTHORIZE what is granted to whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PROCEDURE, INPUT = "procedure_id", "input"

CARRIED = frozenset({"context", "session_id", "task_id"})
"""
What every method takes beside its parameters (core v08 section 7.2).

Named here once more: manifests are judged by this module, and what judges them has nothing of what makes them.
"""

BOUNDING = frozenset({"enum", "const", "pattern", "format"})
"""Keywords of a schema that takes certain texts alone."""

ANYTHING = ""
"""In the place of a type where a schema names none."""

DEMANDED: Mapping[str, tuple[str, ...]] = {
    "RUN": (PROCEDURE,),
    "TRANSFER": ("resource_id", "from_principal", "to_principal"),
    "AUTHORIZE": ("subject", "resource", "scope"),
}
"""By method: what its input schema must require (methods v01 tables 23, 25 and 49)."""


def parameter_faults(method: str, schema: object) -> Iterator[tuple[str, str]]:
    """
    What an endpoint's input schema lacks for its method.

    :param schema: the schema as written; anything that is none has no parameters.
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
            yield name, f"{method} needs the parameter {name}, and input_schema does not require it"
        elif name == PROCEDURE and not _registered(properties[name]):
            yield name, f"{name} takes any text; {method} runs what stands in a registry, and no free-form strings"
    if PROCEDURE in demanded:
        yield from _free_texts(method, properties)


def _free_texts(method: str, properties: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, schema in properties.items():
        if name == INPUT and _types(schema) - {"object", "null"}:
            yield name, f"{name} is no object; {method} hands parameters to a procedure, and no free-form strings"
        elif name not in (PROCEDURE, INPUT) and name not in CARRIED and _takes_any_text(schema):
            yield name, f"{name} takes any text; {method} runs what stands in a registry, and no free-form strings"


def _types(schema: object) -> set[object]:
    found = schema.get("type", ANYTHING) if isinstance(schema, Mapping) else ANYTHING
    return set(found) if isinstance(found, list) else {found}


def _takes_any_text(schema: object) -> bool:
    """Whether a text is taken that no list, pattern or format bounds."""
    if isinstance(schema, Mapping) and schema.keys() & BOUNDING:
        return False
    types = _types(schema)
    if "array" in types and isinstance(schema, Mapping):
        return _takes_any_text(schema.get("items", {}))
    return bool(types & {ANYTHING, "string"})


def _registered(schema: object) -> bool:
    """Whether a parameter takes certain texts alone."""
    if not isinstance(schema, Mapping):
        return False
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) and value for value in values)


REGISTRY = f'list the procedures: properties.{PROCEDURE} = {{ enum = ["nightly-backup"] }}, and {PROCEDURE} in required'
"""How an operator mends a RUN endpoint."""


def hint(name: str) -> str:
    """What to do about a parameter that is missing."""
    if name == PROCEDURE:
        return REGISTRY
    if name not in {each for demanded in DEMANDED.values() for each in demanded}:
        return f"put {name} into the object {INPUT}, or bound it by enum, pattern or format"
    return f"declare {name} in input_schema.properties, and name it in required"
