"""
The schemas of proposals and contracts, compiled while others wait for the reactor.

One proposal has two, and what comes of it is bound twice: when it is answered
and when it is in force. Each schema is compiled once for all of that, and what
an agent proposes has smaller bounds than what an operator wrote.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agtphost.contract.schema_rules import MAX_OCTETS, plausible
from agtphost.contract.schemas import CompiledSchema, Role, compile_schema
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.newest import keep

SHARE = 4
"""A proposed schema may have a quarter of the size of an operator's: both together cost less than one of those."""

MOST = 64
"""Schemas that are remembered, the last to be asked for."""


class Memo:
    """Compiled schemas by their JSON text and role."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, Role], CompiledSchema] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def compiled(self, schema: Mapping[str, Any], *, role: Role, share: int = 1) -> CompiledSchema:
        """
        :func:`compile_schema`, or what it made of the same schema a moment ago.

        :raises agtphost.contract.schemas.SchemaError: as that does.
        """
        if not plausible(schema, MAX_OCTETS // share):
            return compile_schema(schema, role=role, share=share)
        try:
            key = jsontext.encode(schema), role
        except (TypeError, ValueError):
            return compile_schema(schema, role=role, share=share)
        found = self._known.get(key) or compile_schema(schema, role=role, share=share)
        return keep(self._known, key, found, MOST)


memo = Memo()
compiled = memo.compiled
