"""
The faults of a schema by its dialect's metaschema: every place, with a readable path.

The compiled validator stops at the first fault, and instances are validated with it. This module explains faults to
people when schemas are loaded; no request uses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_rules import SchemaFault
from agtphost.contract.schema_violations import schema_error
from agtphost.contract.schemas import DIALECT, DIALECTS, SchemaError, dialect_of

MOST = 16
"""Faults that are reported for one schema."""

MOST_VALUES = 1_000
"""Values up to which all faults of a foreign schema are searched; metaschemas compare items in pairs."""


def metaschema_faults(schema: Mapping[str, Any], dialect: str) -> list[SchemaFault]:
    """
    Return the faults of a schema by its dialect's metaschema, in the schema's order.

    :param dialect: its URI, without ``#`` at the end; an unknown one counts as 2020-12.
    """
    # Imported here, because sound schemas do not need it.
    from jsonschema import validators

    known: Any = validators.validator_for({"$schema": dialect}, default=validators.Draft202012Validator)
    found: dict[str, SchemaFault] = {}
    # The rules report excessive nesting themselves.
    with suppress(RecursionError):
        for error in islice(_innermost(known(known.META_SCHEMA).iter_errors(schema)), MOST):
            pointer = "".join(f"/{escape(token)}" for token in error.absolute_path)[:160]
            message = f"breaks the dialect: {json.dumps(error.instance)[:64]} {_explain(error)}"[:160]
            found.setdefault(pointer, SchemaFault(pointer=pointer, message=message))
    return list(found.values())


def _explain(error: Any) -> str:
    """Return what a part of a schema breaks, by the keyword of the metaschema."""
    wanted = error.validator_value
    match error.validator:
        case "type":
            return f"is not of type {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
        case "enum":
            return f"is not one of {json.dumps(wanted)}"
        case "minimum" | "exclusiveMinimum":
            return f"is less than {wanted}"
        case "minItems":
            return f"has fewer than {wanted} items"
        case "uniqueItems":
            return "has an item twice"
        case "pattern" | "format":
            return f"does not have the form {wanted}"
    return f"does not follow {error.validator}"


def all_faults(schema: Mapping[str, Any], error: SchemaError) -> list[SchemaFault]:
    """Return why an operator's schema was not compiled, and the metaschema's further faults."""
    known = {fault.pointer for fault in error.faults}
    # The compiler stops at the first violation of the dialect; the metaschema finds all.
    return [*error.faults, *(fault for fault in metaschema_faults(schema, DIALECT) if fault.pointer not in known)]


def foreign_faults(schema: Mapping[str, Any]) -> list[SchemaFault]:
    """
    Return where a foreign schema breaks its dialect; call this in a thread.

    The compiled metaschema decides, for every size. Only a small faulty schema is examined a second time, for all
    places and readable messages; for a larger one only the first fault is returned.

    :return: empty for a sound schema, and for a dialect that this host does not run.
    """
    dialect = dialect_of(schema)
    if dialect not in DIALECTS:
        return []
    first = schema_error({"$schema": dialect, **schema})
    if first is None:
        return []
    path, message = first
    found = metaschema_faults(schema, dialect) if _small(schema) else []
    pointer = "".join(f"/{escape(token)}" for token in path)[:160]
    return found or [SchemaFault(pointer=pointer, message=f"breaks the dialect: {message}")]


def _small(schema: Any) -> bool:
    waiting, count = [schema], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, (Mapping, list)):
            count += len(item)
            if count > MOST_VALUES:
                return False
            waiting.extend(item.values() if isinstance(item, Mapping) else item)
    return True


def _innermost(errors: Any) -> Iterator[Any]:
    """
    Yield the errors that a composed error consists of: ``is not valid under any of the given schemas`` does not help.
    """
    for error in errors:
        if error.context:
            yield min(error.context, key=lambda each: (-len(each.absolute_path), str(each.message)))
        else:
            yield error
