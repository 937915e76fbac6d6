"""Schemas as components of an OpenAPI document: each definition is a component, as generators of clients want it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.contract.schema_keywords import DIALECT

PLACES = ("$defs", "definitions")
"""Members of a schema that have definitions."""

_DEFINITION = re.compile(r"#/(\$defs|definitions)/([^/~%]+)")
_SLUG = re.compile(r"[^A-Za-z0-9_]+")


def components(name: str, schema: Mapping[str, Any], *, titled: bool) -> dict[str, Any]:
    """
    Return a schema, and the definitions that it refers to, by the names of their components.

    :param name: of the schema's own component.
    :param titled: whether titles stay. Generators take them for names of classes, and those of two tools may be equal.
    """
    return _Components(name, schema, titled).written()


class _Components:
    def __init__(self, name: str, schema: Mapping[str, Any], titled: bool) -> None:
        self._name, self._schema, self._titled = name, schema, titled
        self._names: dict[str, str] = {}
        self._within = False
        for place in PLACES:
            inner = schema.get(place)
            for key in inner if isinstance(inner, Mapping) else ():
                pointer = f"#/{place}/{key}"
                if _DEFINITION.fullmatch(pointer):
                    self._names[pointer] = self._free(key)

    def _free(self, key: str) -> str:
        # A point, which no other component has in its name.
        wanted = found = f"{self._name}.{_SLUG.sub('_', key)}"
        number = 2
        while found in self._names.values():
            found, number = f"{wanted}_{number}", number + 1
        return found

    def written(self) -> dict[str, Any]:
        """The components."""
        own = {name: value for name, value in self._schema.items() if name not in PLACES}
        found = {self._name: self._moved(own)}
        for pointer, component in self._names.items():
            _, place, key = pointer.split("/")
            found[component] = self._moved(self._schema[place][key])
        if self._within:
            # Something refers to a place inside of a definition.
            found[self._name] |= {place: self._moved(self._schema[place]) for place in PLACES if place in self._schema}
        return found

    def _moved(self, schema: Any) -> Any:
        """A schema whose references lead to where the document has what they mean."""
        if isinstance(schema, list):
            return [self._moved(item) for item in schema]
        return dict(self._members(schema)) if isinstance(schema, Mapping) else schema

    def _members(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str) and value.startswith("#"):
                yield name, self._reference(value)
            elif name in ("const", "default", "enum", "examples"):
                yield name, value
            elif name == "title" and isinstance(value, str) and not self._titled:
                continue
            elif name != "$schema" or value == DIALECT:
                # What tools of others say of older dialects means nothing inside of a document that has its own.
                yield name, self._moved(value)

    def _reference(self, pointer: str) -> str:
        component = self._names.get(pointer)
        if component is not None:
            return f"#/components/schemas/{component}"
        self._within = self._within or pointer.startswith(tuple(f"#/{place}" for place in PLACES))
        return f"#/components/schemas/{self._name}{pointer[1:]}"
