"""
Where a schema breaks its dialect: every place, with a readable path.

The compiled validator stops at the first fault, and is what instances are
validated with; this is for people, at load, and on no request's path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from agtphost.contract.foreign_schemas import schema_error
from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_rules import SchemaFault
from agtphost.contract.schemas import DIALECT, DIALECTS, SchemaError, dialect_of

MOST = 16
"""Faults that are told of one schema."""

MOST_VALUES = 1_000
"""Values of a foreign schema up to which every fault of it is looked for; the metaschemas compare items by pairs."""


def metaschema_faults(schema: Mapping[str, Any], dialect: str) -> list[SchemaFault]:
    """
    What the dialect's own schema says against one, in the schema's order.

    :param dialect: its URI, without ``#`` at the end; one that is not known is taken for 2020-12.
    :return: empty where there is nothing.
    """
    # Needed by nobody whose schemas are sound.
    from jsonschema import validators

    known: Any = validators.validator_for({"$schema": dialect}, default=validators.Draft202012Validator)
    found: dict[str, SchemaFault] = {}
    # One that is nested beyond what it can follow is nested beyond what the rules allow, and they say so.
    with suppress(RecursionError):
        for error in islice(_innermost(known(known.META_SCHEMA).iter_errors(schema)), MOST):
            pointer = "".join(f"/{escape(token)}" for token in error.absolute_path)[:160]
            message = f"breaks the dialect: {error.message.partition(chr(10))[0][:160]}"
            found.setdefault(pointer, SchemaFault(pointer=pointer, message=message))
    return list(found.values())


def all_faults(schema: Mapping[str, Any], error: SchemaError) -> list[SchemaFault]:
    """What kept a schema of the operator's from being compiled, and what else the metaschema says against it."""
    known = {fault.pointer for fault in error.faults}
    # The compiler stops at the first place where the dialect is broken; the metaschema knows them all.
    return [*error.faults, *(fault for fault in metaschema_faults(schema, DIALECT) if fault.pointer not in known)]


def foreign_faults(schema: Mapping[str, Any]) -> list[SchemaFault]:
    """
    Where somebody else's schema breaks its dialect; for a thread of its own.

    Whether it does is decided by the compiled metaschema, whatever its size. Only what does and is small is looked at
    once more, for all places and in words: a larger one has its first fault alone.

    :return: empty where there is nothing, and where the dialect is none that this host runs.
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
    """Of an error that is made of others, those: ``is not valid under any of the given schemas`` helps nobody."""
    for error in errors:
        if error.context:
            yield min(error.context, key=lambda each: (-len(each.absolute_path), str(each.message)))
        else:
            yield error
