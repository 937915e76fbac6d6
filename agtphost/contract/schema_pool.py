"""
A pool of equal schemas of many endpoints, which are examined and stored once.

Endpoints of an imported document share most of their outputs: of 400 with the schemas of public documents, 218 outputs
differ, but their definitions repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agtphost.contract.definitions import DefinitionFile, DefinitionsError
from agtphost.contract.schema_check import SchemaChecks
from agtphost.contract.schemas import CompiledSchema, Role, compile_schema, defer_compilation, form_faults, is_pattern
from agtphost.vocabulary import jsontext

MAX_COMPILED = 1 << 18
"""Octets of JSON of the schemas that are compiled at load; further ones are compiled when they are needed."""


MAX_SHARED = 64
"""Tables and arrays inside each other whose texts are shared; schemas of more levels are refused."""


class SchemaPool:
    """The schemas of one loading; a serving host does not keep the pool."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[Any, ...], CompiledSchema] = {}
        self._parts: dict[bytes, Any] = {}
        self._held: set[int] = set()
        self._texts: dict[str, str] = {}
        self._files: dict[Path, DefinitionFile | DefinitionsError] = {}
        self._checks = SchemaChecks(is_pattern)
        self._compiled = 0

    def compile(self, schema: Mapping[str, Any], role: Role, *, strict: bool) -> CompiledSchema:
        """
        Return a compiled schema, shared by equal schemas of the same role; compile it at its first use if it is sound.

        :raises agtphost.contract.schemas.SchemaError: with every fault found.
        """
        digest = _digest({name: value for name, value in schema.items() if name != "$defs"})
        definitions = schema.get("$defs", {})
        if digest is None or not isinstance(definitions, dict):
            return compile_schema(schema, role=role, strict=strict)
        parts = {name: self._part(part) for name, part in definitions.items()}
        key = digest, tuple((name, id(part)) for name, part in parts.items()), "$defs" in schema, role, strict
        found = self._schemas.get(key)
        if found is None:
            found = self._schemas[key] = self._make(schema, parts, role, strict=strict)
        return found

    def _make(
        self, schema: Mapping[str, Any], definitions: Mapping[str, Any], role: Role, *, strict: bool
    ) -> CompiledSchema:
        own = self._share_properties({name: value for name, value in schema.items() if name != "$defs"})
        shared = {name: definitions if name == "$defs" else own[name] for name in schema}
        if self._compiled < MAX_COMPILED:
            self._compiled += len(jsontext.encode(shared))
        elif not any(form_faults(schema, role)) and (octets := self._checks.measure(own, definitions)):
            return defer_compilation(shared, octets, role=role, strict=strict)
        return compile_schema(shared, role=role, strict=strict)

    def share(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an equal schema that shares definitions and properties with earlier equal ones."""
        shared = self._share_properties(schema)
        definitions = shared.get("$defs")
        if isinstance(definitions, dict):
            shared["$defs"] = {name: self._part(part) for name, part in definitions.items()}
        return shared

    def _share_properties(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        shared = dict(schema)
        properties = shared.get("properties")
        if isinstance(properties, dict):
            shared["properties"] = {name: self._part(part) for name, part in properties.items()}
        return shared

    def _part(self, part: Any) -> Any:
        if not isinstance(part, dict) or id(part) in self._held:
            return part  # Parts that are known by identity are kept alive, so that no other object gets the same id.
        digest = _digest(part)
        if digest is None:
            return part
        found = self._parts.setdefault(digest, part)
        self._held.add(id(found))
        return found

    def share_texts(self, value: Any, depth: int = MAX_SHARED) -> Any:
        """
        Return an equal value whose names and texts are the same objects as equal ones that were shared before.

        5,000 endpoints of public documents have 400,000 names and texts with 27 MB, of which 59,000 with 6 MB differ.

        :param value: of TOML.
        :param depth: of tables and arrays that are looked into; what is inside of more stays as it is.
        """
        kind = type(value)
        if kind is str:
            return self._texts.setdefault(value, value)
        if kind is dict and depth:
            known = self._texts.setdefault
            return {known(name, name): self.share_texts(item, depth - 1) for name, item in value.items()}
        if kind is list and depth:
            return [self.share_texts(item, depth - 1) for item in value]
        return value

    def definitions(self, file: Path) -> DefinitionFile:
        """
        Return the definitions of a file; each file is read once.

        :raises DefinitionsError: the file cannot be used.
        """
        if file not in self._files:
            try:
                self._files[file] = DefinitionFile.read(file)
            except DefinitionsError as error:
                self._files[file] = error
        found = self._files[file]
        if isinstance(found, DefinitionsError):
            raise found
        return found


def _digest(value: Any) -> bytes | None:
    """Return a digest of a value's JSON, including the order of names; None if it is not JSON."""
    try:
        text = jsontext.encode(value)
    except (TypeError, ValueError):
        return None
    return blake2b(text, digest_size=20).digest()
