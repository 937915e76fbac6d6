"""Reports of results for people, for machines and for build servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from agtphost.conformance.case import Case
from agtphost.conformance.runner import CaseResult, Outcome, causes, counts

MARKS = {Outcome.PASSED: "ok", Outcome.FAILED: "FAILED", Outcome.NOT_RUN: "not run"}
MOST_NAMED = 4
"""Most cases that are named for a cause."""

WIDTH = max(map(len, MARKS.values()))


def listing(cases: Sequence[Case]) -> Iterator[str]:
    """Yield one line for each case, with what it needs, and the line of totals."""
    for case in cases:
        needs = ", ".join(need.what for need in case.needs)
        yield f"{case.id}  [{' '.join(case.requirements)}]  {case.title}{f'  (needs {needs})' if needs else ''}"
    requirements = {item for case in cases for item in case.requirements}
    yield f"{len(cases)} cases, {len(requirements)} requirements"


def line(result: CaseResult) -> str:
    """Return a result as one line: mark, id, requirements, and the message if the case did not pass."""
    said = f": {_printable(result.message)}" if result.message else ""
    return f"{MARKS[result.outcome]:<{WIDTH}}  {result.case.id}  [{' '.join(result.case.requirements)}]{said}"


def summary(results: Sequence[CaseResult]) -> str:
    """Return the failures grouped by cause, and the line of totals."""
    found = counts(results)
    last = ", ".join(f"{number} {outcome.value}" for outcome, number in found.items())
    return "\n".join([*_group_failures(results), last])


def _group_failures(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield one line for each cause of failures, if any cause has several cases."""
    grouped = causes(results)
    if not any(len(cases) > 1 for _, cases in grouped):
        return
    yield "Failed, by cause:"
    for cause, cases in grouped:
        named = ", ".join(case.id for case in cases[:MOST_NAMED])
        more = f" and {len(cases) - MOST_NAMED} more" if len(cases) > MOST_NAMED else ""
        yield f"  {len(cases)}  {_printable(cause)}: {named}{more}"


def describe(case: Case) -> dict[str, Any]:
    """Return a case for the JSON output of ``--list``."""
    return {
        "id": case.id,
        "requirements": list(case.requirements),
        "title": case.title,
        "needs": [need.what for need in case.needs],
        "options": sorted({need.option for need in case.needs if need.option}),
    }


def document(results: Sequence[CaseResult], uri: str) -> dict[str, Any]:
    """Return all results for JSON output."""
    found = counts(results)
    return {
        "uri": uri,
        "passed": found[Outcome.PASSED],
        "failed": found[Outcome.FAILED],
        "not_run": found[Outcome.NOT_RUN],
        "causes": [{"cause": cause, "cases": [case.id for case in cases]} for cause, cases in causes(results)],
        "cases": [
            {
                **describe(result.case),
                "outcome": result.outcome.value,
                "message": result.message,
                "seconds": round(result.seconds, 4),
            }
            for result in results
        ],
    }


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)


def junit(results: Sequence[CaseResult], uri: str) -> bytes:
    """Return a JUnit report with a test suite for each area."""
    root = ElementTree.Element("testsuites", name=f"agtp conformance {uri}")
    for area in dict.fromkeys(result.case.area for result in results):
        of_area = [result for result in results if result.case.area == area]
        found = counts(of_area)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=area,
            tests=str(len(of_area)),
            failures=str(found[Outcome.FAILED]),
            skipped=str(found[Outcome.NOT_RUN]),
            errors="0",
            time=f"{sum(result.seconds for result in of_area):.3f}",
        )
        for result in of_area:
            _junit_case(suite, result)
    octets: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return octets


def _junit_case(suite: ElementTree.Element, result: CaseResult) -> None:
    case = result.case
    named = f"{case.id.partition('.')[2]} [{' '.join(case.requirements)}]"
    element = ElementTree.SubElement(
        suite, "testcase", classname=f"agtp.{case.area}", name=named, time=f"{result.seconds:.3f}"
    )
    if result.outcome is Outcome.FAILED:
        failure = ElementTree.SubElement(element, "failure", message=_printable(result.message))
        failure.text = f"{case.title}\n{_printable(result.message)}"
    elif result.outcome is Outcome.NOT_RUN:
        ElementTree.SubElement(element, "skipped", message=_printable(result.message))
