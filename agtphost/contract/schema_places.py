"""
Where the schemas of one document lead, and how many apply at one place of an instance.

Counted are those that apply together at every depth, over all ways down. References back to where they stand, and
references that multiply, end there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agtphost.contract.schema_cost import Cost, Step

MAX_APPLIED = 256
"""Schemas that may apply at one place of an instance."""

MAX_WAYS = 20_000
"""Steps from a schema down to another: what counting may cost."""

INSTANCE_DEPTH = 64
"""How deep an instance can be: :data:`agtphost.vocabulary.jsontext.MAX_DEPTH`."""


@dataclass(slots=True)
class Place:
    """One schema, and where it leads: what counting needs."""

    same: list[str] = field(default_factory=list)
    """Schemas that apply at the same place of the instance."""

    named: dict[str, str] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)
    """For properties that are not in ``named``."""

    every: list[str] = field(default_factory=list)
    """For any property."""

    indexed: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """For items beyond ``indexed``."""

    items: list[str] = field(default_factory=list)
    """For any item."""

    cost: Cost = field(default_factory=Cost)
    names: str | None = None
    """The schema that names of properties are checked against."""


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


def growth_faults(counting: Applied) -> Iterator[tuple[str, str]]:
    """Refuse references that go in circles, and those that multiply."""
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
    """Where these ways lead, each of them once: the schemas of ``among``, and how many times each."""
    return frozenset(frozenset((at, times) for at, times in way.items() if at in among) for way in ways)


class Applied:
    """
    Counts the schemas that apply at one place of an instance.

    :param places: by pointer.
    :param most_ways: steps down that counting may take.
    :param start: the pointer of the schema to begin with; empty: the whole schema.
    """

    def __init__(self, places: Mapping[str, Place], most_ways: int, start: str = "") -> None:
        self._places = places
        self._start = start
        self.found = 1
        """The largest count, once it was looked for."""

        self.most_ways = most_ways
        self._together: dict[str, Counter[str]] = {}
        self._open: set[str] = set()
        self._ways = 0

    def largest(self) -> int:
        """The largest count over every depth and way down; some count beyond the limit where one is."""
        down = self._all_ways()
        at_depth = {pointer: self._together[pointer].total() for pointer in down}
        # What leads nowhere counts at its own depth alone; what leads to the same schemas in the same ways counts once.
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
        """Steps down that counting took."""
        return self._ways

    def everywhere(self) -> Iterable[Counter[str]]:
        """The schemas that apply together, for each that was counted."""
        return self._together.values()

    def _all_ways(self) -> dict[str, list[Counter[str]]]:
        """For every schema that can be reached: what each step down from it applies."""
        down: dict[str, list[Counter[str]]] = {}
        waiting = [self._start]
        while waiting:
            pointer = waiting.pop()
            if pointer not in down:
                down[pointer] = list(self._steps(self.together(pointer)))
                waiting.extend(target for way in down[pointer] for target in way)
        return down

    def together(self, pointer: str) -> Counter[str]:
        """The schemas that apply where ``pointer`` does, itself included, and how many times each."""
        known = self._together.get(pointer)
        if known is not None:
            return known
        if pointer in self._open:
            raise _Circle(pointer)
        self._open.add(pointer)
        found = Counter({pointer: 1})
        for target in self._places[pointer].same:
            found.update(self.together(target))
            if found.total() > MAX_APPLIED:
                # Too many already; what lies beyond would only make counting long.
                break
        self._open.discard(pointer)
        self._together[pointer] = found
        return found

    def _steps(self, together: Counter[str]) -> Iterator[Counter[str]]:
        for _, way in self._ways_down(together):
            yield way

    def steps(self, together: Counter[str]) -> Iterator[tuple[Step, Counter[str]]]:
        """The ways down from a place at which ``together`` apply, each with the schemas that it leads to."""
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
