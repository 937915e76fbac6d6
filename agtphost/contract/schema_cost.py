"""
An estimate of what validation by a schema may cost: security section 2.2, line "schema".

:mod:`.schema_rules` bounds a schema at each place of a value, and :mod:`agtphost.vocabulary.jsontext` bounds a value.
    Their combined cost is not bounded: a hundred alternatives at each of ten thousand objects, an ``enum`` of objects,
    a division of numbers with a thousand digits.

When a schema is compiled, the places of a value become the states of a finite automaton. Each state has the cost of the
keywords that apply there, per value, per name and per character. A value is walked through the automaton and its costs
are added up before validation; beyond :data:`BUDGET` it is refused. If no value can cost that much, which is true for
most schemas, the walk is left out.

The figures are nanoseconds of the validator on a common server core, measured keyword by keyword and rounded up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.contract.pattern_automaton import Automaton
from agtphost.vocabulary.jsontext import MAX_TOKENS
from agtphost.vocabulary.reasons import Reason

BUDGET = 25_000_000
"""Nanoseconds for one value: half of the 50 ms for which the reactor may be blocked."""

LONGEST = 1 << 20
"""Octets of text that are assumed as a value's characters when a schema is judged free."""

LARGEST = 2.0**63
"""Numbers beyond this, and fractions below its inverse, are refused for division."""

MAX_STATES = 2_000
MAX_STEPS = 20_000
"""
Beyond either limit, one state with the highest costs of all places replaces the automaton.

A step examines one schema: in a state, on a way down, or at a name. Each takes about a microsecond.
"""

APPLY = 30
"""Applying one schema to one value."""

NAME = 20
"""Searching one name of ``required`` or ``dependentRequired``."""

MATCH = 20
"""Matching one expression with one text, without the cost of its characters."""

LOOKED_UP = 3
"""One character of an expression whose automaton fits into the engine's cache."""

LOOKED_UP_BEYOND = 15
"""One character of such an expression that matches characters of several octets."""

STEP = 5
"""One character at one state of any other expression; all states may be active."""

SAME_KIND = 60
"""An ``enum`` of only strings or only integers, which is a look-up."""

COMPARED = 120
"""One value of another ``enum``; plus :data:`MEMBER` for each member, and :data:`FRACTION` for a fraction."""

MEMBER = 50
FRACTION = 1_200
EVALUATED = 40
"""Asking one schema whether it evaluates one member, for ``unevaluatedProperties`` and ``unevaluatedItems``."""

UNIQUE = 200
"""One value in an array whose items are compared with each other."""

DIVIDED = 2_000
"""Dividing one number within :data:`ORDINARY`: ``multipleOf``."""

DIVIDED_FAR = 15_000
"""Dividing a number beyond that, whose fraction has many digits."""

ORDINARY = 1e-6, 1e15

FORMATS = 120
"""Checking one text by ``format``; plus 20 for each character."""

_UNBOUNDED = re.compile(r"[*+]|\{[0-9]+,\}")


class TooCostly(ValueError):
    """
    A value is too costly to be validated.

    :param reason: ``value-too-costly`` or ``number-out-of-range``.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.meaning)
        self.reason = reason


@dataclass(slots=True)
class Cost:
    """The cost of one schema's keywords at one place."""

    value: int = APPLY
    """Per value."""

    name: int = 0
    """Per member of an object."""

    name_character: int = 0
    character: int = 0
    divisions: int = 0
    evaluates: bool = False
    """Whether every other schema at the place is asked what it evaluates."""

    unique: bool = False

    def add(self, other: Cost, times: int) -> None:
        """Add ``times`` applications of another schema."""
        self.value += other.value * times
        self.name += other.name * times
        self.name_character += other.name_character * times
        self.character += other.character * times
        self.divisions += other.divisions * times
        self.evaluates = self.evaluates or other.evaluates
        self.unique = self.unique or other.unique

    def keyword(self, keyword: str, value: Any) -> None:
        """Add the cost of one keyword with a plain value; the value's shape is checked elsewhere."""
        if keyword == "enum" and isinstance(value, list):
            self.value += _comparison_cost(value)
        elif keyword == "const":
            self.value += COMPARED + FRACTION * isinstance(value, float) + MEMBER * _members(value)
        elif keyword == "required" and isinstance(value, list):
            self.value += NAME * len(value)
        elif keyword in ("dependentRequired", "dependencies") and isinstance(value, Mapping):
            self.value += NAME * sum(1 + len(names) for names in value.values() if isinstance(names, list))
        elif keyword == "multipleOf":
            self.divisions += 1
        elif keyword == "format":
            self.value += FORMATS
            self.character += 20
        elif keyword == "uniqueItems":
            self.unique = value is True

    def expression(self, pattern: str, states: int, kept: Automaton | None, *, names: bool = False) -> None:
        """
        Add the cost of a regular expression, for texts or for names of properties.

        An anchored expression without unbounded repetition reads no more characters than it has states.

        :param states: number of states as RE2 counts them.
        :param kept: its deterministic automaton; None if unknown.
        """
        at_once = MATCH
        if kept is not None and kept.fits:
            for_each = LOOKED_UP_BEYOND if kept.beyond_ascii else LOOKED_UP
        elif pattern.startswith("^") and "|" not in pattern and _UNBOUNDED.search(pattern) is None:
            # A quarter of the states are active on average, measured over sizes from 40 to 1,200.
            at_once, for_each = MATCH + STEP * states * states // 4, 1
        else:
            for_each = 1 + STEP * states
        if names:
            self.name += at_once
            self.name_character += for_each
        else:
            self.value += at_once
            self.character += for_each


def _members(value: Any) -> int:
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (dict, list)):
            count += len(item)
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return count


def _comparison_cost(options: Sequence[Any]) -> int:
    if all(type(option) is str for option in options) or all(type(option) is int for option in options):
        return SAME_KIND
    return sum(COMPARED + FRACTION * isinstance(option, float) + MEMBER * _members(option) for option in options)


@dataclass(slots=True, eq=False)
class State:
    """The costs at one kind of place in a value."""

    value: int = 0
    name: int = 0
    name_character: int = 0
    character: int = 0
    divisions: int = 0
    named: dict[str, State] = field(default_factory=dict)
    other: State | None = None
    """State of members that are not named; None if no schema applies to them."""

    indexed: list[State | None] = field(default_factory=list)
    rest: State | None = None


class Budget:
    """
    Computes the cost of values under one schema.

    :param start: the state of the whole value.
    :param states: all states.
    :param unique: whether the items of an array are compared with each other.
    """

    __slots__ = ("_each", "_start", "free", "free_octets")

    free: bool
    """Whether no value that this host reads can exceed the budget."""

    free_octets: int
    """Length of JSON text up to which a value does not need a walk."""

    def __init__(self, start: State, states: Sequence[State], *, unique: bool) -> None:
        self._start = start
        self._each = UNIQUE if unique else 0
        value = self._each + max(state.value + state.name for state in states)
        character = max(max(state.character, state.name_character) for state in states)
        divided = any(state.divisions for state in states)
        self.free = not divided and value * MAX_TOKENS + character * LONGEST <= BUDGET
        self.free_octets = 0 if divided else BUDGET // max(1, value + character)

    def require(self, value: Any) -> None:
        """
        Require that validating ``value`` stays within the budget.

        :raises TooCostly: it does not.
        """
        each = self._each
        cost = self._start.value + each
        waiting: list[tuple[State, Any]] = [(self._start, value)]
        while waiting:
            state, item = waiting.pop()
            kind = type(item)
            if kind is str:
                cost += state.character * len(item)
            elif kind is dict:
                cost += state.name * len(item)
                if state.name_character:
                    cost += state.name_character * sum(map(len, item))
                named, other = state.named, state.other
                for name, member in item.items():
                    below = named.get(name, other)
                    if below is not None:
                        cost += below.value + each
                        waiting.append((below, member))
            elif kind is list:
                cost += state.name * len(item)
                for below, member in zip(state.indexed, item, strict=False):
                    if below is not None:
                        cost += below.value + each
                        waiting.append((below, member))
                more, rest = len(item) - len(state.indexed), state.rest
                if rest is not None and more > 0:
                    # Check this before queueing the items: a long array is refused by its length.
                    cost += (rest.value + each) * more
                    if cost > BUDGET:
                        raise TooCostly(Reason.VALUE_TOO_COSTLY)
                    waiting.extend((rest, member) for member in item[len(state.indexed) :])
            elif state.divisions and kind in (int, float):
                size = abs(item)
                if item and not 1 / LARGEST <= size <= LARGEST:
                    raise TooCostly(Reason.NUMBER_OUT_OF_RANGE)
                ordinary = not item or ORDINARY[0] <= size <= ORDINARY[1]
                cost += state.divisions * (DIVIDED if ordinary else DIVIDED_FAR)
            if cost > BUDGET:
                raise TooCostly(Reason.VALUE_TOO_COSTLY)


Step = str | int | None
"""A step down: a name, an index, None for other names, or -1 for further items."""

Together = Callable[[str], Mapping[str, int]]
Steps = Callable[[Counter[str]], Iterable[tuple[Step, Counter[str]]]]


class Compiler:
    """
    Builder of a schema's automaton.

    :param costs: costs of each schema, by its JSON pointer.
    :param names: the schemas that check names, by the pointer of the schema with ``propertyNames``.
    :param together: returns the schemas that apply together with one, by pointer.
    :param steps: returns the ways down from a place at which these schemas apply.
    :param most: most schemas that apply at one place.
    :param share: divisor of :data:`MAX_STEPS`: 4 allows a quarter.
    """

    def __init__(
        self,
        costs: Mapping[str, Cost],
        names: Mapping[str, str],
        together: Together,
        steps: Steps,
        *,
        most: int,
        share: int = 1,
    ) -> None:
        self._most = most
        self._steps_left = MAX_STEPS // share
        self._costs = costs
        self._names = names
        self._together = together
        self._steps = steps
        self._states: dict[frozenset[tuple[str, int]], State] = {}

    def budget(self) -> Budget:
        """Return the budget; if the automaton would be too large, the worst one that the schema could have."""
        unique = any(cost.unique for cost in self._costs.values())
        waiting: list[tuple[State, Counter[str]]] = []
        start = self._state(Counter({"": 1}), waiting)
        while waiting:
            state, applied = waiting.pop()
            for step, roots in self._steps(applied):
                self._steps_left -= 1 + len(roots) + len(applied)
                below = self._state(roots, waiting) if roots else None
                if self._steps_left < 0 or len(self._states) > MAX_STATES:
                    return self._worst(unique=unique)
                if isinstance(step, str):
                    if below is not None:
                        state.named[step] = below
                elif step is None:
                    state.other = below
                elif step < 0:
                    state.rest = below
                else:
                    state.indexed.append(below)
        return Budget(start, list(self._states.values()), unique=unique)

    def _count_applied(self, roots: Counter[str]) -> Counter[str]:
        applied: Counter[str] = Counter()
        for root, times in roots.items():
            for pointer, inner in self._together(root).items():
                applied[pointer] += inner * times
        return applied

    def _state(self, roots: Counter[str], waiting: list[tuple[State, Counter[str]]]) -> State:
        applied = self._count_applied(roots)
        key = frozenset(applied.items())
        known = self._states.get(key)
        if known is None:
            self._steps_left -= len(applied)
            known = self._states[key] = self._make_state(applied)
            waiting.append((known, applied))
        return known

    def _make_state(self, applied: Counter[str]) -> State:
        total = Cost(value=0)
        for pointer, times in applied.items():
            total.add(self._costs[pointer], times)
            of_names = self._names.get(pointer)
            if of_names is not None:
                checked = self._together(of_names)
                self._steps_left -= len(checked)
                for each, inner in checked.items():
                    total.name += self._costs[each].value * inner * times
                    total.name_character += self._costs[each].character * inner * times
        if total.evaluates:
            total.name += EVALUATED * applied.total()
        return State(
            value=total.value,
            name=total.name,
            name_character=total.name_character,
            character=total.character,
            divisions=total.divisions,
        )

    def _worst(self, *, unique: bool) -> Budget:
        """Return a budget with one state for every place, as if the most expensive schemas applied everywhere."""
        every = self._costs.values()
        state = State(
            value=self._most * max(cost.value for cost in every),
            name=self._most * (max(cost.name for cost in every) + EVALUATED),
            name_character=self._most * max(cost.name_character + cost.character for cost in every),
            character=self._most * max(cost.character for cost in every),
            divisions=self._most * max(cost.divisions for cost in every),
        )
        state.other = state.rest = state
        return Budget(state, [state], unique=unique)
