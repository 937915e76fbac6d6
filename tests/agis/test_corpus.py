"""
The corpora: 40 and more documents that conform, 120 and more that do not, 40 and more that somebody may wonder about.

``corpus/*/*.yaml`` have many documents each, a line ``--- # title`` before each one. ``# <- P3-state`` stands on the
line where a rule is to be found; what is not marked is not to be found (AGIS v01 section 9).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from agtphost.agis.autofix import apply_fixes
from agtphost.agis.normal import as_json, as_yaml, to_canonical
from agtphost.agis.rules import RULES
from agtphost.agis.validation import Verdict, validate, validate_tree
from tests.agis.documents import method
from tests.rows import each_row

CORPUS = Path(__file__).parent / "corpus"
LEAST = {"valid": 40, "invalid": 120, "borderline": 40}


def documents(kind: str) -> dict[str, str]:
    """The documents of one corpus by their titles."""
    found: dict[str, str] = {}
    for file in sorted((CORPUS / kind).glob("*.yaml")):
        _, *parts = re.split(r"(?m)^--- # (.*)\n", file.read_text("utf-8"))
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            assert title not in found, f"two are called {title}"
            found[title] = text
    assert len(found) >= LEAST[kind]
    return found


def marked(text: str) -> Counter[tuple[str, int]]:
    """The rules that a document says it breaks, and the lines."""
    lines = enumerate(text.splitlines(), 1)
    return Counter((f"AGIS-{rule}", number) for number, line in lines for rule in re.findall(r"# <- (P\S+)", line))


def examined(title: str, text: str) -> tuple[Verdict, Counter[tuple[str, int]]]:
    """A document's verdict, and what was found: rules and lines; notes do not count."""
    verdict = validate(text.encode(), level=2 if title.startswith("level 2") else 1)
    told = (each for each in verdict.findings if each.severity.value != "note")
    return verdict, Counter((each.rule.name, each.line) for each in told)


@each_row(("title", "text"), lambda: documents("valid").items())
def test_what_is_valid_is_accepted(title: str, text: str) -> None:
    """Nothing is found, in either notation, and the canonical form of it is as good."""
    verdict, found = examined(title, text)
    assert verdict.conforms and not found, verdict.findings
    assert verdict.document is not None
    value = to_canonical(verdict.document)
    for written in (as_yaml(value), as_json(value)):
        again, found = examined(title, written)
        assert again.conforms and not found, again.findings


@each_row(("title", "text"), lambda: documents("invalid").items())
def test_what_is_invalid_is_refused(title: str, text: str) -> None:
    """By the rule that it breaks, on the line where it does, and by no other; each says what to write instead."""
    verdict, found = examined(title, text)
    assert found == marked(text), verdict.findings
    assert not verdict.conforms
    assert all(each.place and each.message and each.rule.section and each.fix for each in verdict.findings)


@each_row(("title", "text"), lambda: documents("borderline").items())
def test_what_is_doubtful_is_no_false_positive(title: str, text: str) -> None:
    """It conforms; what somebody should look at is a warning, on its line."""
    verdict, found = examined(title, text)
    assert verdict.conforms, verdict.findings
    assert found == marked(text), verdict.findings


@each_row("kind", LEAST)
def test_both_notations_are_one(kind: str) -> None:
    """What can be read as YAML is found out in JSON as well, rule for rule and place for place."""
    compared = 0
    for title, text in documents(kind).items():
        verdict, _ = examined(title, text)
        if verdict.document is not None:
            level = 2 if title.startswith("level 2") else 1
            other = validate(json.dumps(verdict.document.tree.root).encode(), level=level)
            assert [(each.rule, each.place) for each in other.findings] == [
                (each.rule, each.place) for each in verdict.findings
            ]
            compared += 1
    assert compared >= LEAST[kind] - 40


@each_row("kind", LEAST)
def test_mending_makes_nothing_worse(kind: str) -> None:
    """No finding that was not there, none of what it mends, and nothing left to mend."""
    for title, text in documents(kind).items():
        verdict, _ = examined(title, text)
        if verdict.document is None:
            continue
        document, changes = apply_fixes(verdict.document)
        before = Counter(each.rule.name for each in verdict.findings)
        after = Counter(each.rule.name for each in validate_tree(document.tree).findings)
        before["AGIS-P8-path-parameter"] += 1  # What is a parameter now may be none of the input.
        assert not after - before, (title, after - before)
        assert not {"AGIS-P2-case", "AGIS-P7-undeclared", "AGIS-P7-unused"} & {*after}
        assert changes or document is verdict.document
        assert apply_fixes(document) == (document, ())


def test_every_error_is_in_the_corpus() -> None:
    """Each rule that refuses a document has one that it refuses, and each that warns has one that it warns of."""
    shown = {rule for kind in LEAST for text in documents(kind).values() for rule, _ in marked(text)}
    elsewhere = {"AGIS-P1-suppression", "AGIS-P1-unused-suppression", "AGIS-P6-dissimilar"}
    assert {name for name, rule in RULES.items() if rule.severity.value != "note"} - elsewhere == shown


def test_a_corpus_that_says_otherwise_is_noticed() -> None:
    """The comparison is one of rules and of lines."""
    (text, *_) = documents("borderline").values()
    _, found = examined("", text)
    assert found and found == marked(text) != marked(f"\n{text}") and found != marked(text.replace("# <-", "#"))
    assert not examined("", json.dumps(method("GET")))[0].conforms
