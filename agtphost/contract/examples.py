"""Samples of members of an endpoint's or a recipe's file, for findings without a better hint."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

from agtphost.vocabulary.tomltext import Location

ENDPOINT: Mapping[str, str] = {
    "method": 'write method = "QUERY", or another method of the catalog; `agtp methods` lists them',
    "path": 'write path = "/room", nouns in lower case',
    "description": 'write description = "Books a room.", one line',
    "semantic": "write [semantic] with intent, actor, outcome, capability, confidence, impact, is_idempotent",
    "input_schema": 'write [input_schema] with type = "object", properties, required, additionalProperties = false',
    "output_schema": 'write [output_schema] with type = "object" and properties',
    "errors": "write errors = [], or the names of the errors that it raises",
    "type": 'write type = "registered_function", or another of these',
    "handler": 'write [handler] with type = "registered_function" and function = "package.module.function"',
    "function": 'write function = "package.module.function"',
    "recipe": 'write recipe = "NAME" of a recipe in [recipes] file',
    "intent": 'write intent = "Book a room for the given nights."',
    "actor": 'write actor = "agent"',
    "outcome": 'write outcome = "The room is taken for these nights."',
    "capability": 'write capability = "retrieval", or another of these',
    "impact": 'write impact = "irreversible", or "reversible" or "informational" if that is true',
    "confidence": "write confidence = 0.9",
    "is_idempotent": "write is_idempotent = false, or true if a second call changes nothing more",
    "required_scopes": 'write required_scopes = ["booking:room"], or []',
    "data_classes": 'write data_classes = ["NAME"] of [[data_class]], or leave it out',
    "agents": "leave it out to serve every agent",
    "definitions": 'write definitions = "NAME.definitions.json", a file in this folder, or leave it out',
    "namespace": "leave it out if the endpoint has no namespace",
    "strict_output": "write strict_output = true or false",
    "min_assurance": 'write min_assurance = "certificate", or leave it out',
    "timeout": "write timeout = 30, or leave it out",
    "cost": 'write cost = "tokens=500, USD=0.02", or leave it out',
    "action": 'write action = "reserve-flight", or leave it out',
}
"""Members of an endpoint's table, and of the tables in it."""

RECIPE: Mapping[str, str] = {
    **{name: ENDPOINT[name] for name in ("method", "path", "description", "errors", "timeout")},
    **{name: ENDPOINT[name] for name in ("semantic", "input_schema", "output_schema")},
    "name": 'write name = "look-up-and-book"',
    "version": 'write version = "1.0"',
    "step": "write [[recipe.step]] with method and path",
    "parameters": 'write parameters = { isbn = "=input.isbn" }, a value for each parameter of the path',
    "capture": 'write capture = "first_room", a name that later steps use',
    "retries": "write retries = 0, up to 5",
    "on_error": 'write on_error = "fail" or on_error = "continue"',
    "when": "leave it out if the step always runs",
}
"""Members of a recipe's table, and of its steps."""

KEYWORDS: Mapping[str, str] = {
    "type": 'write type = "object", "array", "string", "integer", "number", "boolean" or "null"',
    "additionalProperties": "write additionalProperties = false",
    "pattern": 'write pattern = "^[a-z]+$", a regular expression as text',
    "required": 'write required = ["NAME"], names of properties',
    "properties": "write properties = {}, a table of properties, each with a schema",
}
"""Keywords of a JSON Schema."""

_MEANT = re.compile(r"did you mean '([^']+)'\?")
_NEEDED = re.compile(r"must be (\"\w+\"|true|false)(?!\w)")


def suggest_methods(names: Sequence[str]) -> str:
    """Return a hint with the methods that were probably meant, likeliest first; empty without any."""
    others = f", or a similar one: {', '.join(names[1:])}" if names[1:] else ""
    return f'write method = "{names[0]}"{others}' if names else ""


def meant_members(table: Mapping[str, object], known: Collection[str]) -> dict[str, str]:
    """
    Return, for each unknown member that resembles a known one, the known one.

    A known member that is there is not meant, unless both are tables, or lists of tables, which may be continued.
    """
    found: dict[str, str] = {}
    for name, value in table.items():
        close = difflib.get_close_matches(name.lower(), known, 1) if name not in known else []
        if close and (close[0] not in table or (_is_continued(value) and type(value) is type(table[close[0]]))):
            found[name] = close[0]
    return found


def _is_continued(value: object) -> bool:
    """Return whether a file may have more of a value further down."""
    tables = value if isinstance(value, list) else [value]
    return all(isinstance(each, Mapping) for each in tables)


def example(known: Mapping[str, str], location: Location, missing: str = "") -> str:
    """
    Return a sample of a member; empty if none is known.

    :param known: :data:`ENDPOINT` or :data:`RECIPE`.
    :param location: location of the fault.
    :param missing: the missing member, if one is missing.
    """
    named: Sequence[str] = [missing] if missing else [step for step in reversed(location) if isinstance(step, str)]
    return next((known[name] for name in named if name in known), "")


def keyword_example(pointer: Sequence[str | int], message: str) -> str:
    """
    Return a sample of a schema's keyword.

    :param pointer: the steps to the keyword.
    :param message: what is wrong with it.
    """
    steps = list(map(str, pointer))
    while len(steps) > 1 and steps[-1].isdigit() and steps[-2] not in ("properties", "$defs"):
        steps.pop()  # Items of lists are not keywords.
    last = steps[-1] if steps else ""
    meant = _MEANT.search(message)
    if meant is not None:
        return f"write {meant[1]} instead of {last}"
    needed = _NEEDED.search(message)
    if needed is not None:
        return f"write {last} = {needed[1]}"
    return KEYWORDS.get(last, f"leave {last} out" if last else "write it in JSON Schema 2020-12")


def header_cure(table: object, prefix: str, location: Location) -> str:
    """
    Return a cure for the header of a table that is written as that of a list of tables; empty for others.

    :param table: the endpoint.
    :param prefix: the beginning of its tables' headers.
    :param location: the place of the table in it.
    """
    for step in location:
        table = table.get(step) if isinstance(table, Mapping) else None
    if not isinstance(table, list) or not table or not all(isinstance(each, Mapping) for each in table):
        return ""
    header = prefix + ".".join(map(str, location))
    return f"replace [[{header}]] by [{header}]"
