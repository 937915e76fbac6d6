"""Texts of documents: both notations, the place of everything, and what is refused before it costs anything."""

from __future__ import annotations

import json

import yaml

from agtphost.agis.document_reader import MAX_OCTETS, Unreadable, read
from agtphost.agis.validation import MOST, validate
from tests.agis.documents import ENDPOINT, changed, examined, rules
from tests.rows import each_row

DEEP = "[" * 33 + "]" * 33

HOSTILE = {
    "too large": (b"agis: " + b"x" * MAX_OCTETS, "octets", (1, 1)),
    "too deep": (f"a: {DEEP}".encode(), "32 deep", (1, 35)),
    "too deep, in JSON": (f'{{"a": {DEEP}}}'.encode(), "32", None),
    "a name twice": (b'agis: "1.0"\nservice: a\nagis: "1.0"\n', "twice", (3, 1)),
    "a name twice, in JSON": (b'{"a": 1, "a": 2}', "twice", None),
    "an alias": (b"a: &x [1]\nb: *x\n", "anchor", (1, 4)),
    "a tag": (b"a: !!python/object:os.system {}\n", "tag", (1, 4)),
    "two documents": (b"a: 1\n---\nb: 2\n", "more than one document", (2, 1)),
    "no UTF-8": (b"a: \xff\n", "UTF-8", None),
    "words for true": (b"a: yes\n", "different things", (1, 4)),
    "no YAML": (b"a: [1\nb: 2\n", "", None),
    "nothing": (b"", "empty", None),
    "many values": (b"[" + b"1," * 600_000 + b"1]", "", None),
}
"""Texts, a part of what is said of each, and where."""


@each_row("case", HOSTILE)
def test_a_text_that_is_none(case: str) -> None:
    """One finding, with its place; nothing else is looked at."""
    octets, said, where = HOSTILE[case]
    verdict = validate(octets)
    (finding,) = verdict.findings
    assert finding.rule.name == "AGIS-P1-unreadable" and not verdict.conforms
    assert said in finding.message, finding.message
    assert where is None or (finding.line, finding.column) == where, finding


def test_the_notation_of_the_draft() -> None:
    """It is told apart from broken YAML (AGIS v01 section 10; the examples of AGIS v01 section 11 are in it)."""
    verdict = validate(
        b'agis: "1.0"\nendpoints:\n  BOOK /reservation {\n    semantic {\n      actor: agent\n    }\n  }\n'
    )
    (finding,) = verdict.findings
    assert finding.rule.name == "AGIS-P1-illustrative"


@each_row("dump", [json.dumps, lambda value: json.dumps(value, indent=3), yaml.safe_dump])
def test_every_place(dump: object) -> None:
    """What a mark points to is what stands there, in any layout."""
    text = dump(changed(("endpoints.0.semantic.outcome", 'With "quotes",\n\\ and: {braces}')))  # type: ignore[operator]
    tree = read(text.encode())
    lines = text.splitlines()
    for place, begins in (
        (("agis",), "agis"),
        (("endpoints", 0, "semantic", "actor"), "actor"),
        (("endpoints", 0, "input", "properties", "party_size", "minimum"), "minimum"),
        (("vocabulary", "declared_verbs", 0), "BOOK"),
        (("vocabulary", "nothing"), "vocabulary"),
    ):
        line, column = tree.mark(place)
        assert lines[line - 1][column - 1 :].lstrip("\"'").startswith(begins), (place, line, column)


def test_too_many_endpoints() -> None:
    """One finding says so, and none of them is examined."""
    verdict = examined(changed(("endpoints", [ENDPOINT] * 5_001)))
    assert rules(verdict) == ["1-schema"] and "5001" in verdict.findings[0].message


def test_findings_are_bounded() -> None:
    """Whatever is wrong with every endpoint."""
    faulty = {**ENDPOINT, "semantic": {}, "errors": ["error"], "input": {}}
    verdict = examined(changed(("endpoints", [{**faulty, "path": f"/get-{number}"} for number in range(3_000)])))
    assert len(verdict.findings) == MOST and not verdict.conforms


def test_flow_style_is_yaml() -> None:
    """It begins like JSON, and is none."""
    assert read(b"{agis: '1.0', service: x}").root == {"agis": "1.0", "service": "x"}
    try:
        read(b'{"agis": }')
    except Unreadable as error:
        assert "line 1" in error.reason or error.mark[0] == 1
