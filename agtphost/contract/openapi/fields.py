"""The fields of a request body of an OpenAPI document, collected from the parts and alternatives of its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.contract.openapi.bodies import is_binary
from agtphost.contract.openapi.schemas import OpenAPIReferences

_DEEPEST = 8
"""Depth of nested parts."""

_PROSE = frozenset({"title", "description", "example", "examples", "externalDocs", "default", "deprecated"})


@dataclass(kw_only=True)
class BodyFields:
    """The fields of a body that is an object."""

    schemas: dict[str, Any] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    """Remarks that a person has to review."""


class FieldGatherer:
    """
    Collector of the fields of bodies of one document.

    :param losses: counts what is lost.
    """

    def __init__(self, references: OpenAPIReferences, losses: Counter[str]) -> None:
        self._references = references
        self._losses = losses

    def gather(self, schema: Mapping[str, Any], depth: int = 0) -> BodyFields | None:
        """Return the fields of a body; None if it is not an object with named fields."""
        if depth > _DEEPEST or schema.get("type", "object") not in ("object", ["object"], ["object", "null"]):
            return None
        own = schema.get("properties")
        names = schema.get("required")
        found = BodyFields(
            schemas=dict(own) if isinstance(own, Mapping) else {},
            required={name for name in names if isinstance(name, str)} if isinstance(names, list) else set(),
        )
        known = bool(found.schemas)
        if schema.get("additionalProperties") not in (None, False):
            found.said.append("the upstream accepts further fields of any name, but this endpoint refuses them")
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            if not isinstance(parts, list) or not parts:
                continue
            gathered = [self.gather(self._references.follow(part), depth + 1) for part in parts]
            inner = [part for part in gathered if part is not None]
            if len(inner) < len(gathered):
                if keyword == "allOf" and known:
                    self._losses["parts of an allOf that is a body"] += len(gathered) - len(inner)
                    continue
                return None
            known = True
            self._add(found, inner, keyword)
        if found.schemas or found.required:
            return found
        further = schema.get("additionalProperties") not in (None, False)
        if depth:
            unknown = not known and schema.get("type") != "object" and (further or "properties" not in schema)
            return None if unknown else found
        closed = schema.get("additionalProperties") is False or (not further and not known and "properties" in schema)
        return found if closed else None

    def _add(self, found: BodyFields, parts: Sequence[BodyFields], keyword: str) -> None:
        for part in parts:
            found.said.extend(part.said)
        if keyword == "allOf":
            for part in parts:
                for name, schema in part.schemas.items():
                    found.schemas[name] = self._join_schemas([found.schemas.get(name, schema), schema], "allOf")
            found.required |= set().union(*(part.required for part in parts))
            return
        for name in dict.fromkeys(name for part in parts for name in part.schemas):
            schema = self._join_schemas([part.schemas[name] for part in parts if name in part.schemas], "anyOf")
            found.schemas[name] = self._join_schemas([found.schemas.get(name, schema), schema], "allOf")
        found.required |= set.intersection(*(part.required for part in parts))
        found.said.append(f"the alternatives of {keyword} are merged, so fields of single alternatives are optional")

    def _join_schemas(self, schemas: Sequence[Any], keyword: str) -> Any:
        """
        Return one schema for a field that several parts describe.

        Files stay unchanged. If the parts contradict each other, the first one applies.
        """
        distinct: list[Any] = []
        for schema in schemas:
            if not any(_constraints(schema) == _constraints(each) for each in distinct):
                distinct.append(schema)
        first = schemas[0]
        if len(distinct) == 1 or any(is_binary(each, self._references) and _is_file(each) for each in distinct):
            return first
        followed = [self._references.follow(each) for each in distinct]
        kinds = [each.get("type") for each in followed]
        if keyword == "allOf":
            agree = len({str(kind) for kind in kinds if kind is not None}) < 2
            return {"allOf": distinct} if agree else first
        if (
            all("enum" in each and not each.keys() - _PROSE - {"type", "enum"} for each in followed)
            and len(set(map(str, kinds))) == 1
        ):
            values = [value for each in followed for value in each["enum"]]
            return {**followed[0], "enum": [value for at, value in enumerate(values) if value not in values[:at]]}
        return {"anyOf": distinct}


def is_read_only(schema: Any, references: OpenAPIReferences) -> bool:
    """Return whether an upstream only returns a field."""
    found = references.follow(schema) if isinstance(schema, Mapping) else {}
    parts = found.get("allOf")
    return found.get("readOnly") is True or any(
        references.follow(part).get("readOnly") is True for part in (parts if isinstance(parts, list) else ())
    )


def _constraints(schema: Any) -> Any:
    """Return a schema without its prose."""
    if not isinstance(schema, Mapping):
        return schema
    return {name: value for name, value in schema.items() if name not in _PROSE}


def _is_file(schema: Any) -> bool:
    return isinstance(schema, Mapping) and ("format" in schema or "contentMediaType" in schema or "$ref" in schema)
