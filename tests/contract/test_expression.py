"""The expressions of recipes: what they see, what they may be, what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.recipes.expression import Expression, ExpressionError, ValueMapping
from tests.rows import each_row

SCOPE = {"input": {"isbn": "1", "list": [{"n": 1}, {"n": 2}]}, "book": {"title": "Emma", "year": 1815, "note": None}}


def mapping(value: Any) -> tuple[ValueMapping, list[str]]:
    """The mapping, and what was said of it."""
    said: list[str] = []
    return ValueMapping(value, lambda location, message, *_: said.append(f"{location} {message}")), said


@each_row(
    ("text", "names", "found"),
    [
        ("input.isbn", {"input"}, "1"),
        ("book.title || input.isbn", {"book", "input"}, "Emma"),
        ("input.list[?n > `1`] | [0].n", {"input"}, 2),
        ("@.book.year", {"book"}, 1815),
        ("length(input.list)", {"input"}, 2),
        ("sort_by(input.list, &n)[-1].n", {"input"}, 2),
        ("{t: book.title, i: input.isbn}", {"book", "input"}, {"t": "Emma", "i": "1"}),
        ("book.nothing.at.all", {"book"}, None),
        ("'constant'", set(), "constant"),
    ],
)
def test_what_an_expression_looks_up_and_finds(text: str, names: set[str], found: Any) -> None:
    """Only names of the scope itself are names; what is below them is data (API-127)."""
    expression = Expression(text)
    assert expression.names == names
    assert expression.evaluate(SCOPE) == found


@each_row(
    ("text", "why"),
    [
        ("", "1 to 512 characters"),
        ("a" * 513, "1 to 512 characters"),
        ("a..b", "not JMESPath"),
        ("lenght(a)", "did you mean length"),
        ("length(a, b)", "with 2 arguments, not 1"),
        ("(" * 255 + "a" + ")" * 255, ""),
        ("[" + ",".join("a" for _ in range(200)) + "]", "more than 128 parts"),
    ],
)
def test_what_is_refused_when_a_recipe_is_read(text: str, why: str) -> None:
    """Malformed, unknown and oversized expressions never reach a call."""
    if not why:
        # Whatever the library makes of it: an answer, or this error, and no other.
        try:
            Expression(text)
        except ExpressionError:
            return
        return
    with pytest.raises(ExpressionError, match=why):
        Expression(text)


def test_values_that_do_not_suit_a_function() -> None:
    """The error names the expression and not the data."""
    with pytest.raises(ExpressionError, match="cannot be evaluated"):
        Expression("abs(book.title)").evaluate(SCOPE)


@given(st.text(max_size=60))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    """No other exception leaves the compiler."""
    try:
        found = Expression(text)
    except ExpressionError:
        return
    try:
        found.evaluate(SCOPE)
    except ExpressionError:
        return


def test_a_mapping_of_expressions_and_constants() -> None:
    """Expressions at any depth; what finds nothing is left out of tables; constants stay (API-127)."""
    made, said = mapping(
        {
            "title": "=book.title",
            "missing": "=book.missing",
            "constant": "book.title",
            "sign": "='=x'",
            "deep": {"list": [1, "=input.isbn", {"none": "=book.note"}]},
        }
    )
    assert said == []
    assert made.names == {"book", "input"}
    assert made.fill(SCOPE) == {
        "title": "Emma",
        "constant": "book.title",
        "sign": "=x",
        "deep": {"list": [1, "1", {}]},
    }


def test_every_wrong_expression_of_a_mapping_is_said_where_it_is() -> None:
    """All at once, with locations; TOML's dates have no form in JSON."""
    from datetime import date

    deep: Any = "=input"
    for _ in range(20):
        deep = [deep]
    _, said = mapping({"a": "=b..c", "d": ["=lenght(e)"], "day": date(2026, 1, 1), "deep": deep})
    assert len(said) == 4
    assert any(one.startswith("('a',)") for one in said)
    assert any(one.startswith("('d', 0)") for one in said)


@each_row(
    ("value", "holds"),
    [(None, False), (False, False), ("", False), ([], False), ({}, False), (0, True), (True, True), ("x", True)],
)
def test_what_counts_as_true(value: Any, holds: bool) -> None:
    """JMESPath's own reading: zero is true, empty is false."""
    assert Expression("input").holds({"input": value}) is holds
