"""
The size of a regular expression's deterministic automaton, which decides what a match costs.

The validator's engine builds that automaton while it reads, in a cache of one megabyte. If it fits, each character
costs one look-up, for every expression. If it does not, each active state costs time at each character. RE2 counts the
states of the nondeterministic automaton; by that count ``^[ab]{0,200}a[ab]{200}$`` and ``^[a-z0-9-]{1,200}$`` look
alike, but differ by a factor of 250.

The construction is Glushkov's, with sets of positions as integers, over classes of characters that the expression
cannot distinguish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agtphost.contract.pattern_syntax import Chars, Node, UnsupportedPattern, parse

MOST_POSITIONS = 2_000
"""Characters, and classes of them, of an expression whose repetitions are expanded."""

FITTING = 1_500
"""States of an automaton over ASCII that fit into the engine's cache."""

FITTING_BEYOND = 1_100
"""States that fit if characters of several octets are matched; each of those takes several states of the engine."""

ASCII = 0x7F


@dataclass(frozen=True, slots=True)
class Automaton:
    """The size of the automaton of one expression."""

    states: int
    beyond_ascii: bool
    """Whether it matches characters of several octets."""

    @property
    def fits(self) -> bool:
        """Return whether the whole automaton fits into the engine's cache."""
        return self.states <= (FITTING_BEYOND if self.beyond_ascii else FITTING)


class StepBudget:
    """
    The steps that may still be taken to construct automata, shared by the expressions of one schema.

    :param steps: visited positions and transitions; 6,000 take about a millisecond.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def take(self, steps: int) -> None:
        """
        Subtract steps from the budget.

        :raises UnsupportedPattern: the budget is used up.
        """
        self.steps -= steps
        if self.steps < 0:
            raise UnsupportedPattern


def automaton(pattern: str, budget: StepBudget) -> Automaton | None:
    """Return the automaton of an expression; None if it is too large, or uses unsupported syntax."""
    try:
        expression = parse(pattern)
        return _Positions(budget).build_automaton(expression.node, expression.from_start, expression.to_end)
    except (UnsupportedPattern, RecursionError):
        return None


def _bits(mask: int) -> Iterator[int]:
    """Yield the positions in a set of positions, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the expression."""

    empty: bool
    """Whether it matches the empty text."""

    first: int
    """The set of positions at which its matches may begin; bit N stands for position N."""

    last: int
    """The set of positions at which its matches may end."""


_NOTHING = _Part(True, 0, 0)


class _Positions:
    """
    Glushkov's construction for one expression: its characters as positions, and which may follow which.

    :param budget: is charged for each position and transition.
    """

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._chars: list[Chars] = []
        self._follow: list[int] = []

    def build_automaton(self, node: Node, from_start: bool, to_end: bool) -> Automaton:
        """
        Return the deterministic automaton of an expression.

        :param from_start: whether a match begins at the start of the text.
        :param to_end: whether a match ends at the end of the text.
        :raises UnsupportedPattern: the budget is used up, or the expression has too many positions.
        """
        whole = self._build(node)
        takes = self._symbols()
        always = 0 if from_start else whole.first
        # Sets of positions with the same successors are one state, so the successors identify the state.
        start = (whole.first, whole.empty)
        known, waiting = {start}, [start]
        while waiting:
            ahead, accepting = waiting.pop()
            if accepting and not to_end:
                continue  # The engine only asks whether there is a match.
            for wanted in takes:
                live = ahead & wanted
                after, size = always, 0
                for position in _bits(live):
                    after |= self._follow[position]
                    size += 1
                self._budget.take(2 + size)
                state = (after, bool(live & whole.last) or (whole.empty and not from_start))
                if state not in known:
                    known.add(state)
                    waiting.append(state)
        beyond = any(high > ASCII for chars in self._chars for _, high in chars)
        return Automaton(len(known), beyond)

    def _symbols(self) -> list[int]:
        """Return, for each class of equivalent characters, the positions that match them."""
        cuts = sorted({edge for chars in set(self._chars) for low, high in chars for edge in (low, high + 1)})
        of_chars: dict[Chars, int] = {}
        for at, chars in enumerate(self._chars):
            of_chars[chars] = of_chars.get(chars, 0) | 1 << at
        found = set()
        for cut in cuts:
            self._budget.take(len(of_chars))
            mask = 0
            for chars, positions in of_chars.items():
                if any(low <= cut <= high for low, high in chars):
                    mask |= positions
            found.add(mask)
        found.discard(0)
        return list(found)

    def _build(self, node: Node) -> _Part:
        """Add the positions of a part of the expression, and the transitions inside it."""
        self._budget.take(1)
        match node:
            case ("chars", chars):
                if len(self._chars) >= MOST_POSITIONS:
                    raise UnsupportedPattern
                self._chars.append(chars)
                self._follow.append(0)
                here = 1 << (len(self._chars) - 1)
                return _Part(False, here, here)
            case ("all", nodes):
                part = _NOTHING
                for each in reversed(nodes):
                    part = self._concatenate(self._build(each), part)
                return part
            case ("any", nodes):
                parts = [self._build(each) for each in nodes]
                first = last = 0
                for part in parts:
                    first, last = first | part.first, last | part.last
                return _Part(any(part.empty for part in parts), first, last)
            case ("times", inner, least, most):
                return self._build_repetition(inner, least, most)
        raise UnsupportedPattern

    def _build_repetition(self, inner: Node, least: int, most: int | None) -> _Part:
        if most is None:
            part = self._build(inner)
            self._add_followers(part.last, part.first)
            rest = part if least else _Part(True, part.first, part.last)
            mandatory = max(least - 1, 0)
        else:
            rest = _NOTHING
            for _ in range(most - least):
                part = self._concatenate(self._build(inner), rest)
                rest = _Part(True, part.first, part.last)
            mandatory = least
        for _ in range(mandatory):
            rest = self._concatenate(self._build(inner), rest)
        return rest

    def _concatenate(self, left: _Part, right: _Part) -> _Part:
        self._add_followers(left.last, right.first)
        first = left.first | right.first if left.empty else left.first
        last = left.last | right.last if right.empty else right.last
        return _Part(left.empty and right.empty, first, last)

    def _add_followers(self, last: int, first: int) -> None:
        """
        Let each position of one set be followed by all positions of another.

        :param last: set of positions at which a part ends.
        :param first: set of positions at which the next part, or a repetition of the same part, begins.
        """
        if first:
            for position in _bits(last):
                self._budget.take(1)
                self._follow[position] |= first
