"""
Criteria: what a record has to be like, written as an object, and compiled to a function.

::

    {"in_stock": true, "price": {"lt": 200}, "tags": {"contains": "audio"}}

Each name is a place in the record (``address.city``), and all conditions must be true. A value matches itself, a
list any of its members, and an object of operators all of them. ``all`` and ``any`` with lists of criteria and
``not`` with criteria put them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import re2

from agtphost.handlers import parameters
from agtphost.methods.standard.pure.comparisons import Comparisons, NoteComparison
from agtphost.methods.standard.pure.material import MISSING, at, is_place
from agtphost.vocabulary.foreign_errors import explain

MAX_CONDITIONS = 64
"""Conditions of one call, those inside of others counted in."""

MAX_DEPTH = 8
"""Criteria inside of criteria."""

MAX_PATTERN = 256
"""Characters of a regular expression."""

Predicate = Callable[[Any], bool]


def _compare_alike(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, wanted: Any) -> bool:
        if isinstance(value, bool) or isinstance(wanted, bool):
            return False
        alike = isinstance(value, str) == isinstance(wanted, str) and isinstance(value, (str, int, float))
        return alike and compare(value, wanted)

    return holds


def same(value: Any, wanted: Any) -> bool:
    """Equal as JSON has it: true is not 1, and the order of members says nothing."""
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        return value.keys() == wanted.keys() and all(same(inner, wanted[name]) for name, inner in value.items())
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(same, value, wanted))
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, list):
        return any(same(item, wanted) for item in value)
    return isinstance(value, Mapping) and isinstance(wanted, str) and wanted in value


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": same,
    "ne": lambda value, wanted: not same(value, wanted),
    "lt": _compare_alike(lambda value, wanted: value < wanted),
    "lte": _compare_alike(lambda value, wanted: value <= wanted),
    "gt": _compare_alike(lambda value, wanted: value > wanted),
    "gte": _compare_alike(lambda value, wanted: value >= wanted),
    "in": lambda value, wanted: any(same(value, item) for item in wanted),
    "not_in": lambda value, wanted: not any(same(value, item) for item in wanted),
    "contains": _contains,
    "starts_with": lambda value, wanted: isinstance(value, str) and value.startswith(wanted),
    "ends_with": lambda value, wanted: isinstance(value, str) and value.endswith(wanted),
    "exists": lambda value, wanted: (value is not MISSING) is wanted,
    "matches": lambda value, wanted: isinstance(value, str) and wanted.search(value) is not None,
}
OPERATORS = tuple(_OPERATORS)

_LISTS = frozenset({"in", "not_in"})
_TEXTS = frozenset({"starts_with", "ends_with", "matches"})
_ORDERS = frozenset({"lt", "lte", "gt", "gte"})


def compile_criteria(criteria: Any, name: str = "criteria", comparisons: Comparisons | None = None) -> Predicate:
    """
    Return the function that says whether a record matches the criteria.

    :param name: the parameter that they are in, for refusals.
    :param comparisons: counts comparisons of a number with a text.
    :raises agtphost.errors.Refusal: 422 for invalid criteria, or too many.
    """
    return compile_with_parts(criteria, name, comparisons)[0]


def compile_with_parts(criteria: Any, name: str, comparisons: Comparisons | None = None) -> tuple[Predicate, int]:
    """
    Compile criteria, and count their conditions, with each value of a list as one.

    :raises agtphost.errors.Refusal: as :func:`compile_criteria`.
    """
    compiler = _Compiler(name, comparisons or Comparisons())
    return compiler.all_of(criteria, 1), compiler.count


class _Compiler:
    def __init__(self, name: str, comparisons: Comparisons) -> None:
        self._name = name
        self.count = 0
        self._note: Mapping[str, NoteComparison] = {
            **dict.fromkeys(_ORDERS, comparisons.note_order),
            **dict.fromkeys(("eq", "ne"), comparisons.note_equality),
            **dict.fromkeys(_LISTS, comparisons.note_membership),
        }

    def _wrong(self, what: str, remedy: str = "") -> Exception:
        example = 'Criteria are written as {"price": {"lt": 200}, "in_stock": true}.'
        return parameters.invalid(self._name, f"{what}.", remedy or example)

    def all_of(self, criteria: Any, depth: int) -> Predicate:
        if not isinstance(criteria, Mapping) or not criteria:
            raise self._wrong(f"{self._name} has criteria that are not an object with members")
        if depth > MAX_DEPTH:
            raise self._wrong(f"{self._name} has criteria more than {MAX_DEPTH} deep")
        return _every([self._one(str(place), wanted, depth) for place, wanted in criteria.items()])

    def _one(self, place: str, wanted: Any, depth: int) -> Predicate:
        self.count += 1
        if self.count > MAX_CONDITIONS:
            raise self._wrong(f"{self._name} has more than {MAX_CONDITIONS} conditions")
        if place in ("all", "any") and isinstance(wanted, list) and wanted and all(map(_is_object, wanted)):
            parts = [self.all_of(each, depth + 1) for each in wanted]
            return _every(parts) if place == "all" else lambda record: any(part(record) for part in parts)
        if place == "not" and isinstance(wanted, Mapping) and not wanted.keys() <= _OPERATORS.keys():
            inner = self.all_of(wanted, depth + 1)
            return lambda record: not inner(record)
        if not is_place(place):
            raise self._wrong(f"{place[:64]!r} names no member of a record")
        if isinstance(wanted, Mapping):
            if not wanted:
                raise self._wrong(f"the condition of {place[:64]!r} is empty")
            return _every([self._operator(place, str(word), operand) for word, operand in wanted.items()])
        if isinstance(wanted, list):
            return self._operator(place, "in", wanted)
        return self._operator(place, "eq", wanted)

    def _operator(self, place: str, word: str, wanted: Any) -> Predicate:
        holds = _OPERATORS.get(word)
        if holds is None:
            raise self._wrong(f"{word[:64]!r} is not an operator", f"Use {', '.join(OPERATORS)}.")
        self.count += len(wanted) if word in _LISTS and isinstance(wanted, list) else 0
        if self.count > 16 * MAX_CONDITIONS:
            raise self._wrong(f"{self._name} names more than {16 * MAX_CONDITIONS} values")
        wrong = (
            (word in _LISTS and not isinstance(wanted, list))
            or (word in _TEXTS and not isinstance(wanted, str))
            or (word == "exists" and not isinstance(wanted, bool))
            or (word in _ORDERS and (isinstance(wanted, bool) or not isinstance(wanted, (str, int, float))))
        )
        if wrong:
            raise self._wrong(f"the operator {word} cannot be used with that value")
        operand = self._pattern(wanted) if word == "matches" else wanted
        absent = word in ("ne", "not_in", "exists")
        note = self._note.get(word)

        def check(record: Any) -> bool:
            value = at(record, place)
            if note is not None:
                note(place, value, operand)
            return (absent or value is not MISSING) and holds(value, operand)

        return check

    def _pattern(self, wanted: str) -> Any:
        """Compile a regular expression that is matched in linear time."""
        options = re2.Options()
        options.log_errors = False
        options.max_mem = 1 << 20
        try:
            if len(wanted) > MAX_PATTERN:
                raise self._wrong(f"the pattern has more than {MAX_PATTERN} characters")
            return re2.compile(wanted, options)
        except (re2.error, UnicodeError) as error:
            raise self._wrong(f"the pattern is not a regular expression of RE2: {explain(error)}") from None


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _every(parts: list[Predicate]) -> Predicate:
    if len(parts) == 1:
        return parts[0]
    return lambda record: all(part(record) for part in parts)
