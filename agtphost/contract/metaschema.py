"""
Where an operator's schema breaks its dialect: every place, with a readable path.

The compiled validator stops at the first fault, and is what instances are
validated with; this is for people, at load, and on no request's path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_rules import SchemaFault

MOST = 16
"""Faults that are told of one schema."""


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


def _innermost(errors: Any) -> Iterator[Any]:
    """Of an error that is made of others, those: ``is not valid under any of the given schemas`` helps nobody."""
    for error in errors:
        if error.context:
            yield min(error.context, key=lambda each: (-len(each.absolute_path), str(each.message)))
        else:
            yield error
