"""Schemas as components of an OpenAPI document: each definition is a component, which client generators need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.schema_keywords import DIALECT, LIST, MAP, MOVING
from agtphost.contract.schema_rules import self_contained
from agtphost.vocabulary import jsontext

_NUMBERS = frozenset({"integer", "number"})

PLACES = ("$defs", "definitions")
"""Members of a schema that contain definitions."""

VALUE = "JsonValue"
_VALUES: Mapping[str, str] = {"$ref": f"#/components/schemas/{VALUE}"}
_EVERY_MEMBER: Mapping[str, Any] = {"": _VALUES}
"""Patterns of members' names; the empty one matches each."""

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    VALUE: {
        # With a type, openapi-python-client 0.29 drops it as recursive; without, it is any value to generators.
        "description": "Any value of JSON that this host reads: an integer beyond 2**53 is refused in every body.",
        "minimum": -jsontext.MAX_INTEGER,
        "maximum": jsontext.MAX_INTEGER,
        "items": _VALUES,
        "additionalProperties": _VALUES,
    }
}
"""Components of bodies that clients send."""

_DEFINITION = re.compile(r"#/(\$defs|definitions)/([^/~%]+)")
_ITEMS = ("items", "prefixItems")
_SCHEMAS = LIST | {"items", "not"}
_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"not": {}}
_NAMES = "x-enum-varnames"
_SLUG = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class _References:
    """The targets of a schema's references."""

    names: tuple[str, ...]
    """Names of definitions in ``$defs``, without duplicates."""

    plain: bool
    """Whether all references lead there, and no keyword changes their meaning."""

    numbers: bool
    """Whether it declares a number, which has bounds where clients send it."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A definition that is a component already."""

    component: str
    closure: Mapping[str, int]
    """The identities of the definitions that it refers to, by name, its own among them."""

    sent: bool | None
    """Whether its numbers are bounded; None where it has none."""


class Components:
    """
    The components of a document; a definition that several schemas share becomes one component.

    Definitions are compared with everything that they refer to. They are equal if they are the same objects, as in
    endpoints and in manifests that were parsed.
    """

    def __init__(self) -> None:
        self.schemas: MutableMapping[str, Any] = _Schemas()
        self._read: dict[int, tuple[Any, _References]] = {}
        self._known: dict[tuple[bool, str, int], list[_Known]] = {}

    def add(self, name: str, schema: Mapping[str, Any], *, titled: bool, sent: bool = False) -> None:
        """
        Add a schema and the definitions that it refers to.

        :param name: name of the schema's own component.
        :param titled: whether titles are kept. Client generators use them as class names, and two tools may have the
            same.
        :param sent: whether clients send it, so that it declares the numbers that the host reads.
        """
        definitions = schema.get("$defs", {})
        own = {key: value for key, value in schema.items() if key != "$defs"}
        found = _references_of(own)
        if not found.plain or not isinstance(definitions, Mapping) or "definitions" in schema:
            self.schemas.update(_Components(name, self_contained(schema), titled, sent).to_components())
            return
        places = {key: id(body) for key, body in definitions.items()}
        names: dict[str, str] = {}
        unknown: list[str] = []
        waiting = list(found.names)
        while waiting:
            key = waiting.pop()
            if key in names:
                continue
            if key not in definitions or not self._cached_references(definitions[key]).plain:
                self.schemas.update(_Components(name, self_contained(schema), titled, sent).to_components())
                return
            component = self._find(key, places, titled, sent)
            if component is None:
                unknown.append(key)
                component = self._unused_name(f"{name}.{_SLUG.sub('_', key)}", names.values())
                waiting.extend(self._cached_references(definitions[key]).names)
            names[key] = component
        moving = _Moving(names, titled, sent)
        self.schemas[name] = _Unmoved(moving, schema, whole=False)
        for key in unknown:
            self.schemas[names[key]] = _Unmoved(moving, definitions[key], whole=True)
            closure = {each: places[each] for each in self._closure(key, definitions)}
            numbers = any(self._cached_references(definitions[each]).numbers for each in closure)
            known = _Known(names[key], closure, sent if numbers else None)
            self._known.setdefault((titled, key, places[key]), []).append(known)

    def _find(self, key: str, places: Mapping[str, int], titled: bool, sent: bool) -> str | None:
        """Return the component of the same definition, if everything that it refers to is the same too."""
        for known in self._known.get((titled, key, places[key]), ()):
            if known.sent in (None, sent) and known.closure.items() <= places.items():
                return known.component
        return None

    def _closure(self, key: str, definitions: Mapping[str, Any]) -> set[str]:
        found, waiting = {key}, [key]
        while waiting:
            for name in self._cached_references(definitions[waiting.pop()]).names:
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def _cached_references(self, body: Any) -> _References:
        known = self._read.get(id(body))
        if known is None:
            known = self._read[id(body)] = body, _references_of(body)
        return known[1]

    def _unused_name(self, wanted: str, taken: Iterable[str]) -> str:
        # The dot is a separator that no other component's name contains.
        found, number, others = wanted, 2, set(taken)
        while found in self.schemas or found in others:
            found, number = f"{wanted}_{number}", number + 1
        return found


def _references_of(schema: Any) -> _References:
    names: dict[str, None] = {}
    plain, numbers = True, False
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            reference = item.get("$ref")
            if isinstance(reference, str):
                match = _DEFINITION.fullmatch(reference)
                plain = plain and match is not None and match[1] == "$defs"
                names[reference.rpartition("/")[2]] = None
            plain = plain and not (item.keys() & MOVING)
            numbers = numbers or _is_number(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return _References(tuple(names), plain, numbers)


def _is_number(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    return kinds in _NUMBERS if isinstance(kinds, str) else isinstance(kinds, list) and not _NUMBERS.isdisjoint(kinds)


def bound_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the schema of a number, bounded by the integers that the host reads; a closer bound stays.

    A client writes most numbers beyond them as integers, which are refused with 400 in every body.
    """
    found = dict(schema)
    if "enum" in found or "const" in found:
        return found
    for bound, exclusive, sign in (("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)):
        given = [each for each in (found.get(bound), found.get(exclusive)) if isinstance(each, (int, float))]
        if not any(sign * each <= jsontext.MAX_INTEGER for each in given):
            found.pop(exclusive, None)
            found[bound] = sign * jsontext.MAX_INTEGER
    return found


def bound_members(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the schema of a body, all of whose members are values that the host reads, also those that it leaves open.

    :param schema: a reference, or a schema; its own ``additionalProperties`` is kept.
    """
    # openapi-generator 7 takes a reference with additionalProperties for a map, and forgets the type that it refers to.
    if "additionalProperties" not in schema and "patternProperties" not in schema:
        return {**schema, "patternProperties": _EVERY_MEMBER}
    return {**schema, "allOf": [*schema.get("allOf", ()), {"patternProperties": _EVERY_MEMBER}]}


def _generator_hints(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return members that change nothing of a schema's meaning, and without which openapi-python-client 0.29 fails.

    It takes no array without ``items``, and no enumeration whose values differ only in case or in signs.
    """
    hints: dict[str, Any] = {}
    kind, values = schema.get("type"), schema.get("enum")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and schema.keys().isdisjoint(_ITEMS):
        hints["items"] = {}
    if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
        plain = [_SLUG.sub("", each).replace("_", "").upper() for each in values]
        if len(set(plain)) < len(plain):
            hints[_NAMES] = [f"VALUE_{number}_{each}" for number, each in enumerate(plain, 1)]
    return hints


class _Moving:
    """
    Writer of schemas whose references lead to components.

    :param names: names of components, by the definitions' names.
    :param sent: whether numbers are bounded by those that the host reads.
    """

    def __init__(self, names: Mapping[str, str], titled: bool, sent: bool) -> None:
        self._names, self._titled, self._sent = names, titled, sent

    def move(self, schema: Any) -> Any:
        """
        Return a schema, or a list of them; the same object if nothing changes.

        A boolean becomes an object: openapi-python-client 0.29 refuses a document with a boolean in a schema's place.
        """
        if isinstance(schema, bool):
            return _ANYTHING if schema else _NOTHING
        if isinstance(schema, list):
            items = [self.move(item) for item in schema]
            return items if any(one is not other for one, other in zip(items, schema, strict=True)) else schema
        if not isinstance(schema, Mapping):
            return schema
        moved = dict(self._members(schema))
        if self._sent and _is_number(schema):
            moved = bound_numbers(moved)
        hints = _generator_hints(schema)
        if _NAMES in hints:
            # openapi-generator 7 writes the name of the default value where it has none of that name.
            moved.pop("default", None)
        moved.update(hints)
        same = moved.keys() == schema.keys() and all(moved[name] is schema[name] for name in moved)
        return schema if same else moved

    def _members(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str) and value.startswith("#"):
                yield name, self._reference(value)
            elif name in ("const", "default", "enum", "examples"):
                yield name, value
            elif name == "title" and isinstance(value, str) and not self._titled:
                continue
            elif name in MAP and isinstance(value, Mapping):
                yield name, self.move_each(value)
            elif name in _SCHEMAS or isinstance(value, Mapping):
                yield name, self.move(value)
            elif name != "$schema" or value == DIALECT:
                # An older dialect in a tool's schema has no meaning inside a document that has its own.
                yield name, value

    def move_each(self, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return schemas by names, which may be those of keywords; the same object if nothing changes."""
        moved = {name: self.move(schema) for name, schema in schemas.items()}
        return schemas if all(moved[name] is schema for name, schema in schemas.items()) else moved

    def _reference(self, pointer: str) -> str:
        return f"#/components/schemas/{self._names[pointer.rpartition('/')[2]]}"


@dataclass(frozen=True, slots=True)
class _Unmoved:
    """A schema as its endpoint has it, to be moved whenever it is read."""

    moving: _Moving
    schema: Any
    whole: bool
    """Whether ``$defs`` stay; those of an endpoint's schema are separate components."""

    def move(self) -> Any:
        """Return the component."""
        own = self.schema if self.whole else {name: each for name, each in self.schema.items() if name != "$defs"}
        return self.moving.move(own)


class _Schemas(MutableMapping[str, Any]):
    """
    The components by name.

    Most are copies with other references. Those of 5,000 endpoints would take 12 MB together; each is made when it is
    read.
    """

    def __init__(self) -> None:
        self._schemas: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        found = self._schemas[name]
        return found.move() if type(found) is _Unmoved else found

    def __setitem__(self, name: str, schema: Any) -> None:
        self._schemas[name] = schema

    def __delitem__(self, name: str) -> None:
        del self._schemas[name]

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)


class _Components(_Moving):
    """The components of one schema whose references may lead to any place in it."""

    def __init__(self, name: str, schema: Mapping[str, Any], titled: bool, sent: bool) -> None:
        super().__init__({}, titled, sent)
        self._name, self._schema = name, schema
        self._pointers: dict[str, str] = {}
        self._within = False
        for place in PLACES:
            inner = schema.get(place)
            for key in inner if isinstance(inner, Mapping) else ():
                pointer = f"#/{place}/{key}"
                if _DEFINITION.fullmatch(pointer):
                    self._pointers[pointer] = self._unused_name(key)

    def _unused_name(self, key: str) -> str:
        # The dot is a separator that no other component's name contains.
        wanted = found = f"{self._name}.{_SLUG.sub('_', key)}"
        number = 2
        while found in self._pointers.values():
            found, number = f"{wanted}_{number}", number + 1
        return found

    def to_components(self) -> dict[str, Any]:
        """Return the components."""
        own = {name: value for name, value in self._schema.items() if name not in PLACES}
        found = {self._name: self.move(own)}
        for pointer, component in self._pointers.items():
            _, place, key = pointer.split("/")
            found[component] = self.move(self._schema[place][key])
        if self._within:
            # A reference leads to a place inside a definition.
            found[self._name] |= {
                place: self.move_each(self._schema[place]) for place in PLACES if place in self._schema
            }
        return found

    def _reference(self, pointer: str) -> str:
        component = self._pointers.get(pointer)
        if component is not None:
            return f"#/components/schemas/{component}"
        self._within = self._within or pointer.startswith(tuple(f"#/{place}" for place in PLACES))
        return f"#/components/schemas/{self._name}{pointer[1:]}"
