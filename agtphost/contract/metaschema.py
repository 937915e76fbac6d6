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

import jsonschema_rs

from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_references import BASE, join
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


def remote_references(schema: Any) -> Iterator[str]:
    """What a schema refers to outside itself: addresses that none of its ``$id`` is."""
    addresses, references = set[str | None](), list[tuple[str, str | None]]()
    waiting: list[tuple[Any, str]] = [(schema, BASE)]
    while waiting:
        item, base = waiting.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$id"), str):
                base = join(base, item["$id"].partition("#")[0]) or base
                addresses.add(base)
            for keyword in ("$ref", "$dynamicRef"):
                reference = item.get(keyword)
                if isinstance(reference, str) and not reference.startswith("#"):
                    references.append((reference, join(base, reference.partition("#")[0])))
            waiting.extend((value, base) for value in item.values())
        elif isinstance(item, list):
            waiting.extend((value, base) for value in item)
    yield from (reference for reference, address in references if address not in addresses)


def schema_error(schema: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """Where a schema breaks its dialect, and how; None where it does not."""
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        return tuple(error.instance_path), error.message.partition("\n")[0][:160]
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return (), str(error).partition("\n")[0][:160]
    return None


def is_part_sound(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a schema follows 2020-12, and refers to nothing but places in the schema."""
    named = "$schema" not in part or part["$schema"] == DIALECT
    return named and schema_error(part) is None and next(remote_references(part), None) is None
