"""Warnings that documents leave out, for a reason; errors never are (AGIS v01 section 9)."""

from __future__ import annotations

import json
from typing import Any

import yaml

from agtphost.agis.validation import validate
from tests.agis.documents import ENDPOINT, changed, examined, rules
from tests.rows import each_row

REASON = "It is what our users say."


def _two(*suppressions: dict[str, Any]) -> dict[str, Any]:
    """A document with two methods of many meanings."""
    run, handle = (
        {**ENDPOINT, "method": verb, "path": f"/{noun}", "semantic": {**ENDPOINT["semantic"], "intent": f"{verb}s it"}}
        for verb, noun in (("RUN", "job"), ("HANDLE", "claim"))
    )
    return changed(
        ("endpoints", [run, handle]),
        ("vocabulary.declared_verbs", ["RUN", "HANDLE"]),
        ("suppressions", [{"reason": REASON, "rule": "AGIS-P3-borderline", **each} for each in suppressions]),
    )


CASES: list[tuple[list[dict[str, Any]], list[str], list[str]]] = [
    ([], ["RUN /job", "HANDLE /claim"], []),
    ([{}], [], ["RUN /job", "HANDLE /claim"]),
    ([{"endpoint": "RUN /job"}], ["HANDLE /claim"], ["RUN /job"]),
    ([{"endpoint": " run   /job "}], ["HANDLE /claim"], ["RUN /job"]),
    ([{"endpoint": "RUN /job"}, {}], [], ["RUN /job", "HANDLE /claim"]),
    ([{"endpoint": "RUN /claim"}], ["RUN /job", "HANDLE /claim", "suppressions[0]"], []),
    ([{}, {}], ["suppressions[1]"], ["RUN /job", "HANDLE /claim"]),
    ([{"reason": ""}], ["RUN /job", "HANDLE /claim", "suppressions[0]"], []),
]
"""Suppressions, the places of what is left, and of what is left out."""


@each_row(("given", "left", "left_out"), CASES)
def test_warnings_are_left_out(given: list[dict[str, Any]], left: list[str], left_out: list[str]) -> None:
    """Of the document or of one endpoint; one that is out of use is told; the same in both notations."""
    document = _two(*given)
    for text in (json.dumps(document), yaml.safe_dump(json.loads(json.dumps(document)))):
        verdict = validate(text.encode())
        assert [each.place for each in verdict.findings] == left
        assert [each.place for each in verdict.suppressed] == left_out
        assert all(each.fix for each in verdict.findings)
        assert all(each.reason == REASON for each in verdict.suppressed) and verdict.conforms


def test_errors_count() -> None:
    """Whatever a document says of them."""
    document = changed(("endpoints.0.method", "GET"), ("vocabulary.declared_verbs", ["GET"]))
    document["suppressions"] = [{"rule": "AGIS-P3-http-method", "reason": REASON}]
    verdict = examined(document)
    assert not verdict.conforms and {"3-http-method", "1-suppression"} <= {*rules(verdict)}
    assert not verdict.suppressed


def test_a_suppression_stands_where_it_is_said() -> None:
    """Its line is that of its entry."""
    text = json.dumps(_two({}, {"endpoint": "RUN /none"}), indent=1)
    (finding,) = validate(text.encode()).findings
    assert text.splitlines()[finding.line + 2 : finding.line + 3] == ['   "endpoint": "RUN /none"']
