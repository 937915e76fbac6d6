"""Pass 6 by embeddings: its thresholds, and the model that comes with the extra (AGIS v01 section 9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from agtphost import extras
from agtphost.agis.passes.similarity import Similarity
from agtphost.agis.validation import validate
from agtphost.cli.root import agtp
from tests.agis.documents import method
from tests.rows import each_row

DOCUMENT = json.dumps(method("TRIAGE", "/patient", "Sorts those who wait by urgency"))

THRESHOLDS = [
    (0.31, None, []),
    (0.29, None, ["warning"]),
    (0.05, None, ["warning"]),
    (0.11, 0.1, ["warning"]),
    (0.09, 0.1, ["error"]),
]
"""What is measured, what fails, and what is told."""


@each_row(("near", "fail", "expected"), THRESHOLDS)
def test_thresholds(near: float, fail: float | None, expected: list[str]) -> None:
    """Below 0.3 it warns, below what fails it is an error; what is asked are methods and intents."""
    asked: list[tuple[str, str]] = []

    def measure(pairs: Sequence[tuple[str, str]]) -> list[float]:
        asked.extend(pairs)
        return [near]

    verdict = validate(DOCUMENT.encode(), similar=Similarity(measure=measure, fail=fail))
    told = [each for each in verdict.findings if each.rule.name == "AGIS-P6-dissimilar"]
    assert [each.severity.value for each in told] == expected
    assert verdict.conforms is ("error" not in expected)
    assert asked == [("triage", "Sorts those who wait by urgency")]


def test_the_command_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By static vectors; other words for the same are a warning, and an error where that is asked for."""

    def validated(*words: str, text: str = DOCUMENT) -> tuple[int, str]:
        done = CliRunner().invoke(agtp, ["agis", "validate", "-", *words], input=text, prog_name="agtp")
        return done.exit_code, done.output

    near = json.dumps(method("BOOK", "/room", "Books a room for a guest"))
    assert validated("--similarity", "0.3,0.1", text=near) == (0, "-: conforms\n")
    status, said = validated("--similarity", "0.3,0.2")
    assert status == 0 and "warning AGIS-P6-dissimilar [AGIS v01 section 9] TRIAGE /patient: " in said
    status, said = validated("--similarity", "0.3,0.2", "--similarity-fails")
    assert status == 1 and "error AGIS-P6-dissimilar" in said and "less than 0.2" in said
    for words, expected in (
        (("--similarity", "high"), "is not two numbers"),
        (("--similarity", "0.1,0.3"), "is not two numbers"),
        (("--similarity-fails",), "Add --similarity"),
        (("--similarity", "0.3,0.1", "--model", str(tmp_path)), "cannot be used"),
    ):
        status, said = validated(*words)
        assert status == 2 and expected in said, said
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "wordllama")
    status, said = validated("--similarity", "0.3,0.1")
    assert status == 2 and "Install it: pip install 'agtphost[semantic]'." in said
