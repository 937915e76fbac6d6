"""``agtp call`` names ``key:=json`` where a host wanted another type than the text of ``key=value``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer

HINT = "To send a number or another JSON value, write: "


def _refusal(reason: str, explanation: str, **members: Any) -> Answer:
    return Answer({"status": 422, "reason": reason, "explanation": explanation, **members}, 422)


TYPE = {"path": "/limit", "message": "is not of type integer"}
PATTERN = {"path": "/limit", "message": "does not match the pattern ^a"}


@pytest.mark.parametrize(
    ("answer", "words", "typed"),
    [
        (_refusal("invalid-parameter", "limit is not a positive whole number."), ("limit=1", "target=x"), "limit:=1"),
        (_refusal("invalid-input", "It is wrong.", faults=[TYPE]), ("limit=[1, 2]",), "'limit:=[1, 2]'"),
        (_refusal("invalid-input", "It is wrong.", faults=[TYPE]), ("/path", "limit=1"), "limit:=1"),
        (_refusal("invalid-input", "It is wrong.", faults=[PATTERN, "?"]), ("limit=1",), None),
        (_refusal("invalid-input", "It is wrong.", faults="?"), ("limit=1",), None),
        (_refusal("invalid-parameter", "limit is no number."), ("limit=many",), None),
        (_refusal("invalid-parameter", "limit is no number."), ("limit:=-1",), None),
        (_refusal("invalid-parameter", "limit has no number of a time zone."), ("limit=2026-12-01T05:00:00",), None),
        (_refusal("invalid-parameter", "limit is no number."), ("limit=0123",), None),
        (_refusal("invalid-parameter", "limit '2026' is not a time."), ("limit=2026",), None),
        (_refusal("unknown-parameter", "There is no parameter limit."), ("limit=1",), None),
    ],
)
def test_a_refused_text_that_could_be_a_number_is_named(
    run: Run, server: AgtpServer, answer: Answer, words: tuple[str, ...], typed: str | None
) -> None:
    """Only where the refusal names the parameter for its type, and the text has the form of another JSON value."""
    server.answers["INSPECT", "/path" if words[0] == "/path" else "/"] = answer
    result = run("call", "-", "INSPECT", *words)
    assert result.exit_code == 1
    if typed is None:
        assert HINT not in result.stderr
    else:
        assert f"{HINT}{typed}\n" in result.stderr
