"""
A cache of compiled schemas of proposals and contracts, which are compiled in the reactor.

A proposal has two schemas, and its contract is bound twice: when it is answered and when it is in force. Each schema is
compiled once for all of that. The bounds of an agent's schema are smaller than those of an operator's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agtphost.contract.schema_rules import MAX_OCTETS, may_fit
from agtphost.contract.schemas import CompiledSchema, Role, compile_schema
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.lru import keep

SHARE = 5
"""Divisor of a proposed schema's size: both schemas together cost less than one of an operator's."""

MOST = 64
"""Schemas that are cached; the least recently used is evicted first."""


class SchemaCache:
    """Cache of compiled schemas by JSON text and role."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, Role], CompiledSchema] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Remove all schemas."""
        self._known.clear()

    def compile(self, schema: Mapping[str, Any], *, role: Role, share: int = 1) -> CompiledSchema:
        """
        Return a compiled schema, from the cache if possible; see :func:`compile_schema`.

        :raises agtphost.contract.schemas.SchemaError: as :func:`compile_schema` does.
        """
        if not may_fit(schema, MAX_OCTETS // share):
            return compile_schema(schema, role=role, share=share)
        try:
            key = jsontext.encode(schema), role
        except (TypeError, ValueError):
            return compile_schema(schema, role=role, share=share)
        found = self._known.get(key) or compile_schema(schema, role=role, share=share)
        return keep(self._known, key, found, MOST)


schema_cache = SchemaCache()
compile_cached = schema_cache.compile
