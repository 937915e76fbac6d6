"""
Whether the schemas of thousands of endpoints can be compiled, found out without compiling them.

Compiled, they would take most of a host's memory and most of its start. Each definition that several schemas have is
looked at once: what it consists of, whether it follows the dialect, whether its regular expressions can be compiled.
For each schema there remains what follows from the definitions together: their size, where references lead, and how
many schemas apply at one place. Any doubt is left to :func:`~agtphost.contract.schemas.compile_schema`, which says
what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from agtphost.contract.schema_cost import Cost
from agtphost.contract.schema_keywords import escape
from agtphost.contract.schema_places import MAX_WAYS, Applied, Place, growth_faults
from agtphost.contract.schema_rules import MAX_EXPRESSIONS, MAX_OCTETS, MAX_SCHEMAS, Walk

MARGIN = 1_024
"""Octets below the largest size within which the exact one is looked for."""

_NONE: list[str] = []
_COST = Cost()
_LEAF = Place(same=_NONE, named={}, other=_NONE, every=_NONE, indexed=_NONE, rest=_NONE, items=_NONE, cost=_COST)
"""What most places are: nothing leads on from them. None of these is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is known of a schema without its definitions, or of one definition."""

    sound: bool
    octets: int = 0
    places: Mapping[str, Place] = field(default_factory=dict)
    """By pointer from the top of the schema."""

    targets: frozenset[str] = frozenset()
    """Pointers beyond the part that its references lead to."""

    states: Mapping[str, int] = field(default_factory=dict)


_UNSOUND = _Part(sound=False)


class SchemaChecks:
    """
    Checks schemas whose definitions are the same objects where they are equal.

    :param is_pattern: whether a regular expression can be compiled.
    """

    def __init__(self, is_pattern: Callable[[str], bool]) -> None:
        self._is_pattern = is_pattern
        self._definitions: dict[tuple[str, int], tuple[Any, _Part]] = {}
        self._patterns: dict[str, bool] = {}

    def is_sound(self, own: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
        """
        Return whether a schema is certain to be compiled as that of an endpoint.

        :param own: the schema without its definitions.
        :param definitions: by name; the objects live as long as this one.
        :return: False where it cannot be compiled, or only a compilation can tell.
        """
        parts = [self._part(own, "", 1), *(self._definition(name, each) for name, each in definitions.items())]
        if not all(part.sound for part in parts):
            return False
        places: dict[str, Place] = {}
        for part in parts:
            places.update(part.places)
        octets = sum(part.octets for part in parts) + sum(len(name.encode()) + 4 for name in definitions)
        if octets > MAX_OCTETS - MARGIN or len(places) > MAX_SCHEMAS - 1:
            return False
        if not all(places.keys() >= part.targets for part in parts):
            return False
        states = {pattern: count for part in parts for pattern, count in part.states.items()}
        if sum(states.values()) > MAX_EXPRESSIONS:
            return False
        return next(growth_faults(Applied(places, MAX_WAYS)), None) is None

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
        targets = set()
        for place, target in walk.references:
            walk.places[place].same.append(target)
            if target not in walk.places:
                targets.add(target)
        return _Part(
            sound=True,
            octets=len(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()),
            places={at: _compact(place) for at, place in walk.places.items()},
            targets=frozenset(targets),
            states=walk.states,
        )

    def _follows_dialect(self, walk: Walk) -> bool:
        try:
            # Without $schema it is the dialect of endpoints' schemas.
            return jsonschema_rs.meta.is_valid(walk.cleaned) and all(map(self._compiles, walk.states))
        except (ValueError, TypeError, jsonschema_rs.ReferencingError):
            return False

    def _compiles(self, pattern: str) -> bool:
        """Return whether a regular expression that RE2 compiles is one for the validator too."""
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = self._is_pattern(pattern)
        return known


def _compact(place: Place) -> Place:
    """Return the place without what only a compilation needs, and without empty lists of its own."""
    lists = (place.same, place.other, place.every, place.indexed, place.rest, place.items)
    if not place.named and not any(lists):
        return _LEAF
    same, other, every, indexed, rest, items = (each or _NONE for each in lists)
    return Place(
        same=same,
        named=place.named or _LEAF.named,
        other=other,
        every=every,
        indexed=indexed,
        rest=rest,
        items=items,
        cost=_COST,
    )
