"""
Equal schemas of many endpoints, compiled once and kept once.

Endpoints of an imported document share most of what they return: of 400 with
the schemas of public documents, 218 outputs differ, and their definitions
repeat even where the schemas as a whole do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from agtphost.contract.schemas import CompiledSchema, Role, compile_schema


class SchemaPool:
    """The schemas of one loading: no part of a host that serves holds on to it."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[bytes, Role, bool], CompiledSchema] = {}
        self._parts: dict[bytes, Any] = {}

    def compile(self, schema: Mapping[str, Any], role: Role, *, strict: bool) -> CompiledSchema:
        """
        Return a compiled schema; the same object for equal schemas in the same role.

        :raises agtphost.contract.schemas.SchemaError: with every fault found.
        """
        digest = _digest(schema)
        if digest is None:
            return compile_schema(schema, role=role, strict=strict)
        key = digest, role, strict
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = compile_schema(self.share(schema), role=role, strict=strict)
        return found

    def share(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an equal schema whose definitions and properties are those of earlier ones, where they are equal."""
        shared = dict(schema)
        for keyword in ("$defs", "properties"):
            parts = shared.get(keyword)
            if isinstance(parts, dict):
                shared[keyword] = {name: self._part(part) for name, part in parts.items()}
        return shared

    def _part(self, part: Any) -> Any:
        digest = _digest(part) if isinstance(part, dict) else None
        return part if digest is None else self._parts.setdefault(digest, part)


def _digest(value: Any) -> bytes | None:
    """Return a digest of a value's JSON, the order of names included; None for what is no JSON."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
    return blake2b(text.encode("ascii"), digest_size=20).digest()
