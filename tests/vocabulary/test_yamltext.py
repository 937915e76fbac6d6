"""The YAML decoder: design decision 13, T-JB-60."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agtphost.vocabulary import yamltext
from tests.rows import each_row

GOOD: list[tuple[str, Any]] = [
    ("{}", {}),
    ("a: 1", {"a": 1}),
    ("a:\n  b: [1, x, true]\n", {"a": {"b": [1, "x", True]}}),
    ("- null\n- ~x\n- -0.5e3\n-\n", [None, "~x", -500.0, None]),
    ("a: '1'\nb: \"true\"\nc: |\n  two\n  lines\n", {"a": "1", "b": "true", "c": "two\nlines\n"}),
    (
        "a: 2 apples\nb: v1.2.3\nc: https://example.com/x?y=1#z\n",
        {"a": "2 apples", "b": "v1.2.3", "c": "https://example.com/x?y=1#z"},
    ),
    ("'a': {b: [], c: {}}", {"a": {"b": [], "c": {}}}),
    ("--- \na: x\n...\n", {"a": "x"}),
    ("a: 9007199254740992", {"a": 2**53}),
    ("name: Zo\u00eb \U0001f600", {"name": "Zo\u00eb \U0001f600"}),
    ("[[[[1]]]]", [[[[1]]]]),
]

AMBIGUOUS = [
    "~",
    "Null",
    "True",
    "FALSE",
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "0x1f",
    "0o17",
    "017",
    "0b1",
    "1_000",
    "+1",
    "1:30",
    "190:20:30.15",
    "1.",
    ".5",
    "1e",
    ".inf",
    "-.Inf",
    ".nan",
    "2026-01-01",
    "2026-1-1T00:00:00Z",
    "2026-01-01 10:00:00",
    "<<",
    "=",
    "12e03_",
    "1,000",
]

BAD: list[tuple[str, str]] = [
    ("", "empty"),
    ("# nothing\n", "empty"),
    ("a: &x 1", "anchor"),
    ("a: *x", "alias"),
    ("a: &x [1]\nb: *x\n", "anchor"),
    ("a: !!str 1", "tag"),
    ("a: ! 1", "tag"),
    ("!!python/object/apply:os.getpid []", "tag"),
    ("%YAML 1.1\n---\na: 1\n", "directive"),
    ("%TAG ! tag:x,2000:\n---\na: 1\n", "directive"),
    ("a: 1\n---\nb: 1\n", "more than one document"),
    ("a: 1\na: 2\n", "twice"),
    ("1: x", "not a string"),
    ("true: x", "not a string"),
    ("? [a]\n: x", "not a string"),
    ("? {a: 1}\n: x", "not a string"),
    ("<<: {a: 1}", "quote it"),
    ("a: 9007199254740993", "2**53"),
    ("a: " + "9" * 700, "2**53"),
    ("a: 1e999", "too large"),
    ("a: 1." + "0" * 70, "64 characters"),
    ("a: [1", "line"),
    ('a: "\\q"', "line"),
    ('a: "\\ud800"', "line"),
    ("\ufeffa: 1", "byte order mark"),
    ("a: \x00", ""),
    ("[" * 65 + "]" * 65, "64 deep"),
    ("a: " + "x" * yamltext.MAX_OCTETS, "octets"),
    ("[" + "1," * yamltext.MAX_EVENTS + "1]", "values and names"),
]


@each_row(("text", "value"), GOOD)
def test_what_json_could_say_is_read(text: str, value: Any) -> None:
    """Mappings, sequences and JSON's scalars; and what is read is JSON."""
    assert yamltext.decode(text.encode()) == value
    json.dumps(value, allow_nan=False)


@each_row("scalar", AMBIGUOUS)
def test_what_readers_disagree_about_is_refused_and_quoted_is_text(scalar: str) -> None:
    """Bare words that YAML 1.1 or 1.2 takes for other things are nobody's guess; in quotes each is text."""
    with pytest.raises(yamltext.YAMLTextError, match="quote it"):
        yamltext.decode(f"a: {scalar}\n".encode() if scalar != "=" else b"a: =\n")
    assert yamltext.decode(f"a: '{scalar}'\n".encode()) == {"a": scalar}


@each_row(("text", "why"), BAD, ids=lambda value: value[:30].encode("unicode_escape").decode())
def test_everything_else_is_refused_with_a_reason(text: str, why: str) -> None:
    """Never another exception, and the message says what is wrong."""
    with pytest.raises(yamltext.YAMLTextError) as caught:
        yamltext.decode(text.encode())
    assert why in str(caught.value)
    assert len(str(caught.value)) < 300


def test_octets_that_are_no_text_are_refused() -> None:
    """UTF-8 and nothing else: not UTF-16 either, which YAML knows."""
    for octets in (b"a: \xff", "a: 1".encode("utf-16"), "a: 1".encode("utf-32")):
        with pytest.raises(yamltext.YAMLTextError):
            yamltext.decode(octets)
