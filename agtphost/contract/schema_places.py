"""
The places of a schema: which schemas of a document apply at one place of an instance, and how many.

Schemas that apply together are counted at every depth, over all ways down. Circular references and references that
multiply are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agtphost.contract.schema_cost import Cost, Step

MAX_APPLIED = 256
"""Most schemas that may apply at one place of an instance."""

MAX_WAYS = 20_000
"""Steps from a schema to another that counting may take."""

INSTANCE_DEPTH = 64
"""Depth of an instance: :data:`agtphost.vocabulary.jsontext.MAX_DEPTH`."""


@dataclass(slots=True)
class SchemaPlace:
    """A schema and where it leads, for counting."""

    same: list[str] = field(default_factory=list)
    """Schemas that apply at the same place of the instance."""

    named: dict[str, str] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)
    """Schemas of properties that are not in ``named``."""

    every: list[str] = field(default_factory=list)
    """Schemas of all properties."""

    indexed: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """Schemas of items beyond ``indexed``."""

    items: list[str] = field(default_factory=list)
    """Schemas of all items."""

    cost: Cost = field(default_factory=Cost)
    names: str | None = None
    """The schema that checks the names of properties."""


INTO: Mapping[str, str] = {
    **dict.fromkeys(("not", "if", "then", "else"), "same"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "propertyNames"), "same"),
    "additionalProperties": "other",
    "patternProperties": "every",
    "unevaluatedProperties": "every",
    "prefixItems": "indexed",
    "additionalItems": "rest",
    "contains": "items",
    "unevaluatedItems": "items",
}


def growth_faults(counting: AppliedSchemas) -> Iterator[tuple[str, str]]:
    """Yield the faults of circular references, and of references that multiply."""
    try:
        applied = counting.found = counting.largest()
    except _Circle as circle:
        message = "refers to itself without going down into the instance"
        yield circle.pointer, message
    except _TooManyWays:
        yield "", f"has more than {counting.most_ways} steps from a schema to another"
    else:
        if applied > MAX_APPLIED:
            yield "", f"may apply more than {MAX_APPLIED} schemas to one place of an instance"


class _Circle(Exception):
    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


class _TooManyWays(Exception):
    pass


_Ways = frozenset[frozenset[tuple[str, int]]]


def _distinct(ways: Iterable[Counter[str]], among: Mapping[str, object]) -> _Ways:
    """Return the distinct targets of these ways: the schemas of ``among``, and how many times each."""
    return frozenset(frozenset((at, times) for at, times in way.items() if at in among) for way in ways)


class AppliedSchemas:
    """
    Counter of the schemas that apply at one place of an instance.

    :param places: places by pointer.
    :param most_ways: most steps down that counting may take.
    :param start: pointer of the schema to begin with; empty: the whole schema.
    """

    def __init__(self, places: Mapping[str, SchemaPlace], most_ways: int, start: str = "") -> None:
        self._places = places
        self._start = start
        self.found = 1
        """The largest count, after it was computed."""

        self.most_ways = most_ways
        self._together: dict[str, Counter[str]] = {}
        self._open: set[str] = set()
        self._ways = 0

    def largest(self) -> int:
        """Return the largest count over every depth and way down; beyond the limit, any larger count."""
        down = self._all_ways()
        at_depth = {pointer: self._together[pointer].total() for pointer in down}
        # A schema without ways down counts only at its own depth; schemas with the same ways down are counted once.
        leading = {pointer: ways for pointer, ways in down.items() if ways}
        distinct = {pointer: _distinct(ways, down) for pointer, ways in leading.items()}
        further = {pointer: _distinct(ways, leading) for pointer, ways in leading.items()}
        largest = at_depth[self._start]
        for _ in range(INSTANCE_DEPTH):
            if largest > MAX_APPLIED or self._start not in distinct:
                break
            below = {
                ways: max(sum(times * at_depth[at] for at, times in way) for way in ways)
                for ways in set(distinct.values())
            }
            deeper = {pointer: below[ways] for pointer, ways in distinct.items()}
            largest = max(largest, deeper[self._start])
            if deeper == at_depth:
                break
            at_depth, distinct = deeper, further
        return largest

    @property
    def ways(self) -> int:
        """Return the number of steps down that counting took."""
        return self._ways

    def everywhere(self) -> Iterable[Counter[str]]:
        """Return the schemas that apply together, for each place that was counted."""
        return self._together.values()

    def _all_ways(self) -> dict[str, list[Counter[str]]]:
        """Return, for every schema that can be reached, what each step down applies."""
        down: dict[str, list[Counter[str]]] = {}
        waiting = [self._start]
        while waiting:
            pointer = waiting.pop()
            if pointer not in down:
                down[pointer] = list(self._steps(self.applied_with(pointer)))
                waiting.extend(target for way in down[pointer] for target in way)
        return down

    def applied_with(self, pointer: str) -> Counter[str]:
        """Return the schemas that apply where ``pointer`` does, including itself, and how many times each."""
        known = self._together.get(pointer)
        if known is not None:
            return known
        if pointer in self._open:
            raise _Circle(pointer)
        self._open.add(pointer)
        found = Counter({pointer: 1})
        for target in self._places[pointer].same:
            found.update(self.applied_with(target))
            if found.total() > MAX_APPLIED:
                # There are too many already; counting further only takes time.
                break
        self._open.discard(pointer)
        self._together[pointer] = found
        return found

    def _steps(self, together: Counter[str]) -> Iterator[Counter[str]]:
        for _, way in self._ways_down(together):
            yield way

    def steps(self, together: Counter[str]) -> Iterator[tuple[Step, Counter[str]]]:
        """Return the ways down from a place at which ``together`` apply, each with its target schemas."""
        self._ways = 0
        return self._ways_down(together)

    def _ways_down(self, together: Counter[str]) -> Iterator[tuple[Step, Counter[str]]]:
        places = [(self._places[pointer], times) for pointer, times in together.items()]
        names: set[str | None] = {name for place, _ in places for name in place.named}
        if any(place.other or place.every for place, _ in places):
            names.add(None)
        for name in names:
            parts = (
                (([place.named[name]] if name in place.named else place.other) + place.every, times)
                for place, times in places
            )
            yield name, self._gather(parts)
        if not any(place.indexed or place.rest or place.items for place, _ in places):
            return
        longest = max(len(place.indexed) for place, _ in places)
        for index in range(longest + 1):
            items = (((place.indexed[index : index + 1] or place.rest) + place.items, times) for place, times in places)
            yield (index if index < longest else -1), self._gather(items)

    def _gather(self, parts: Iterator[tuple[list[str], int]]) -> Counter[str]:
        way: Counter[str] = Counter()
        for targets, times in parts:
            self._ways += 1 + len(targets)
            if self._ways > self.most_ways:
                raise _TooManyWays
            for target in targets:
                way[target] += times
        return way
