"""How large automata are found to be, and that the reading of expressions is the engine's."""

from __future__ import annotations

import re

import pytest

from agtphost.contract.pattern_automaton import StepBudget, automaton
from agtphost.contract.pattern_syntax import UnsupportedPattern, parse
from tests.rows import each_row

STEPS = 60_000

STATES = {
    "^a$": 3,
    "^[A-Z]{3,32}$": 34,
    r"^\d{4}-\d{2}-\d{2}$": 12,
    "^[a-z0-9]+(-[a-z0-9]+)*$": 5,
    "^(a+)+$": 2,
    r"^(?:\d{1,3}\.){3}\d{1,3}$": 17,
}


@each_row("pattern", STATES)
def test_states_are_counted(pattern: str) -> None:
    """As many as an automaton made by hand has, but for those that differ in nothing."""
    found = automaton(pattern, StepBudget(STEPS))
    assert found is not None and found.fits and not found.beyond_ascii
    assert found.states == STATES[pattern]


@each_row("pattern", ["^[ab]{0,30}a[ab]{30}$", "a[ab]{400}[cd]", "[ab]*a[ab]{20}[cd]", "^(([ab]{0,9}a){1,9}b){1,9}$"])
def test_one_that_explodes_is_given_up(pattern: str) -> None:
    """Within the allowance, which the other expressions of a schema share."""
    allowance = StepBudget(STEPS)
    assert automaton(pattern, allowance) is None
    assert allowance.steps < 0
    assert automaton("^a$", allowance) is None


def test_texts_of_several_octets_are_told_apart() -> None:
    """A character class that takes them costs more for each."""
    wide = automaton("^.{1,200}$", StepBudget(STEPS))
    assert wide is not None and wide.beyond_ascii and wide.fits


@each_row(
    "pattern",
    [
        r"\bword",
        "(?i)a",
        "a|^b",
        "(a$)b",
        "[a-z&&[aeiou]]",
        "[[:alpha:]]",
        r"\pL",
        "(?=a)",
        "a**",
        "a{2,1}",
        "[]",
        "(a",
    ],
)
def test_what_is_not_followed_is_said_so(pattern: str) -> None:
    """And then counts as one that has all its states at once."""
    with pytest.raises(UnsupportedPattern):
        parse(pattern)


TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "aab",
    "abc",
    "a-b",
    "a.b",
    "1",
    "12",
    "123-4",
    "x]",
    "-",
    "ä",
    "\n",
    "aaaa",
    "ba",
    "_",
    " ",
]


@each_row(
    "pattern",
    ["a", "^a", "a$", "^a?b+$", "^(ab|a)*$", "^[^a-c]$", r"^[\d\]x-]+$", r"^\w{2,3}$", "^a{2,}$", "(a|b)b", r"^\S\W?$",
     r"^a\.b$", "^.$", r"^\x61\u0062$", "^(?P<n>a)(?:b)?$", "^a??$", "^(a{1,2}){2}$"],
)  # fmt: skip
def test_expressions_are_read_as_they_are_meant(pattern: str) -> None:
    """What the reading takes is what the standard library's engine takes."""
    for text in TEXTS:
        assert taken(pattern, text) == bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII)), text


def taken(pattern: str, text: str) -> bool:
    """Whether some part of a text is of the expression, by trying every way through it."""
    read = parse(pattern)

    def ends(node: object, at: int) -> set[int]:
        match node:
            case ("chars", chars):
                fits = at < len(text) and any(low <= ord(text[at]) <= high for low, high in chars)
                return {at + 1} if fits else set()
            case ("all", nodes):
                here = {at}
                for each in nodes:
                    here = {end for start in here for end in ends(each, start)}
                return here
            case ("any", nodes):
                return {end for each in nodes for end in ends(each, at)}
            case ("times", inner, least, most):
                found, here = ({at} if least == 0 else set()), {at}
                for count in range(1, (len(text) + least + 1 if most is None else most) + 1):
                    here = {end for start in here for end in ends(inner, start)}
                    found |= here if count >= least else set()
                return found
        raise AssertionError(node)

    starts = [0] if read.from_start else range(len(text) + 1)
    return any(end == len(text) or not read.to_end for start in starts for end in ends(read.node, start))
