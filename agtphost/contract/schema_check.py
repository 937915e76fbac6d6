"""
A check of whether the schemas of thousands of endpoints can be compiled, without compiling them.

Compiled, they would take most of a host's memory and most of its start. A definition that several schemas share is
examined once: its parts, whether it follows the dialect, whether its regular expressions compile. For each schema only
the combination of definitions is checked: size, targets of references, and how many schemas apply at one place. In
doubt, :func:`~agtphost.contract.schemas.compile_schema` decides and reports the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from agtphost.contract.schema_cost import Cost
from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_places import MAX_APPLIED, MAX_WAYS, AppliedSchemas, SchemaPlace, growth_faults
from agtphost.contract.schema_rules import MAX_EXPRESSIONS, MAX_OCTETS, MAX_SCHEMAS, Walk, tokens
from agtphost.vocabulary import jsontext

MARGIN = 1_024
"""Octets below the largest size within which the exact size is computed."""

_NONE: list[str] = []
_COST = Cost()
_LEAF = SchemaPlace(same=_NONE, named={}, other=_NONE, every=_NONE, indexed=_NONE, rest=_NONE, items=_NONE, cost=_COST)
"""The value of most places, from which nothing leads on; it is never changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The facts about a schema without its definitions, or about one definition."""

    sound: bool
    octets: int = 0
    places: Mapping[str, SchemaPlace] = field(default_factory=dict)
    """Places by pointer from the top of the schema."""

    names: tuple[str, ...] = ()
    """Names of definitions that its references lead to."""

    targets: frozenset[str] = frozenset()
    """Pointers outside the part that its references lead to, other than definitions."""

    single: bool = False
    """Whether each step down leads either to one schema of the part, or to one definition."""

    states: Mapping[str, int] = field(default_factory=dict)


_UNSOUND = _Part(sound=False)

_Closure = frozenset[tuple[str, int]]
"""A definition with everything that it leads to: names, and identities of the objects."""


class SchemaChecks:
    """
    Checker of schemas whose equal definitions are the same objects.

    :param is_pattern: returns whether a regular expression can be compiled.
    """

    def __init__(self, is_pattern: Callable[[str], bool]) -> None:
        self._is_pattern = is_pattern
        self._definitions: dict[tuple[str, int], tuple[Any, _Part]] = {}
        self._patterns: dict[str, bool] = {}
        self._applied: dict[tuple[str, _Closure], tuple[int, int]] = {}

    def measure(self, own: Mapping[str, Any], definitions: Mapping[str, Any]) -> int:
        """
        Return the approximate size in octets of a schema that certainly compiles as an endpoint's schema.

        :param own: the schema without its definitions.
        :param definitions: definitions by name; the objects must live as long as this checker.
        :return: 0 if it does not compile, or only a compilation can tell.
        """
        top = self._part(own, "", 1)
        parts = {name: self._definition(name, each) for name, each in definitions.items()}
        every = (top, *parts.values())
        if not all(part.sound and definitions.keys() >= set(part.names) for part in every):
            return 0
        octets = sum(part.octets for part in every) + sum(len(name.encode()) + 4 for name in definitions)
        if octets > MAX_OCTETS - MARGIN or sum(len(part.places) for part in every) >= MAX_SCHEMAS:
            return 0
        states = {pattern: count for part in every for pattern, count in part.states.items()}
        if sum(states.values()) > MAX_EXPRESSIONS:
            return 0
        if top.single and not any(part.targets for part in every):
            return octets if self._is_bounded(top, parts, definitions) else 0
        places = _merge_places(every)
        if not all(places.keys() >= part.targets for part in every):
            return 0
        return octets if next(growth_faults(AppliedSchemas(places, MAX_WAYS)), None) is None else 0

    def _is_bounded(self, top: _Part, parts: Mapping[str, _Part], definitions: Mapping[str, Any]) -> bool:
        """
        Return whether few enough schemas apply at one place, by what each definition leads to.

        The count of a definition with everything that it leads to is shared by all schemas that have it.
        """
        most, ways = 1, 2 * len(top.places)
        for name in top.names:
            reached = {name: parts[name]}
            waiting = [name]
            while waiting:
                for each in parts[waiting.pop()].names:
                    if each not in reached:
                        reached[each] = parts[each]
                        waiting.append(each)
            key = name, frozenset((each, id(definitions[each])) for each in reached)
            known = self._applied.get(key)
            if known is None:
                applied = AppliedSchemas(_merge_places(reached.values()), MAX_WAYS, f"/$defs/{escape(name)}")
                faulty = next(growth_faults(applied), None) is not None
                known = self._applied[key] = MAX_APPLIED if faulty else applied.found, applied.ways
            most = max(most, 1 + known[0])
            ways += known[1]
        return most <= MAX_APPLIED and ways <= MAX_WAYS

    def _definition(self, name: str, body: Any) -> _Part:
        key = name, id(body)
        known = self._definitions.get(key)
        if known is None:
            known = self._definitions[key] = body, self._part(body, f"/$defs/{escape(name)}", 2)
        return known[1]

    def _part(self, part: Any, pointer: str, depth: int) -> _Part:
        walk = Walk.over_part(part, pointer, depth)
        if walk.faults or walk.moving or not self._follows_dialect(walk):
            return _UNSOUND
        names: dict[str, None] = {}
        targets = set()
        for place, target in walk.references:
            walk.places[place].same.append(target)
            if target in walk.places:
                continue
            before, _, name = target.rpartition("/")
            if before == "/$defs":
                names[tokens(f"/{name}")[0]] = None
            else:
                targets.add(target)
        beyond = {f"/$defs/{escape(name)}" for name in names}
        return _Part(
            sound=True,
            octets=len(jsontext.encode(part)),
            # Places of the schema itself are used once, so they are not compacted.
            places=walk.places if not pointer else {at: _compact(place) for at, place in walk.places.items()},
            names=tuple(names),
            targets=frozenset(targets),
            single=all(_is_single(place, beyond) for place in walk.places.values()),
            states=walk.states,
        )

    def _follows_dialect(self, walk: Walk) -> bool:
        try:
            # Without $schema, a schema has the dialect of endpoints' schemas.
            return jsonschema_rs.meta.is_valid(walk.cleaned) and all(map(self._compiles, walk.states))
        except (ValueError, TypeError, jsonschema_rs.ReferencingError):
            return False

    def _compiles(self, pattern: str) -> bool:
        """Return whether a regular expression that RE2 compiles also compiles in the validator."""
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = self._is_pattern(pattern)
        return known


def _is_single(place: SchemaPlace, definitions: Collection[str]) -> bool:
    """Return whether a place is only a reference to a definition, or has one schema for each step down."""
    if place.every or place.items or len(place.other) > 1 or len(place.rest) > 1:
        return False
    if not place.same:
        return True
    leads_on = place.named or place.other or place.indexed or place.rest
    return len(place.same) == 1 and place.same[0] in definitions and not leads_on


def _merge_places(parts: Iterable[_Part]) -> dict[str, SchemaPlace]:
    places: dict[str, SchemaPlace] = {}
    for part in parts:
        places.update(part.places)
    return places


def _compact(place: SchemaPlace) -> SchemaPlace:
    """Return the place without members that only a compilation needs, and with shared empty lists."""
    lists = (place.same, place.other, place.every, place.indexed, place.rest, place.items)
    if not place.named and not any(lists):
        return _LEAF
    same, other, every, indexed, rest, items = (each or _NONE for each in lists)
    return SchemaPlace(
        same=same,
        named=place.named or _LEAF.named,
        other=other,
        every=every,
        indexed=indexed,
        rest=rest,
        items=items,
        cost=_COST,
    )
