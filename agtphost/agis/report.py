"""Formats of findings for people, pipelines and code reviews: text, JSON, JUnit and SARIF."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from agtphost import __version__
from agtphost.agis.findings import PASSES, Finding, Severity
from agtphost.agis.rules import RULES


@dataclass(frozen=True, kw_only=True)
class ValidatedFile:
    """A validated file with its findings."""

    file: str
    conforms: bool
    findings: Sequence[Finding]
    suppressed: Sequence[Finding] = ()
    ended: bool = False
    """Whether pass 1 ended the validation, so that the results of the other passes are unknown."""

    outside: frozenset[str] = frozenset()
    """Rules that the command suppresses, not the document."""

    @property
    def counts(self) -> Counter[Severity]:
        """Return the number of findings by severity."""
        return Counter(each.severity for each in self.findings)


def line(file: str, finding: Finding) -> str:
    """
    Return a finding as one line.

    Such as ``file:12:5: error AGIS-P4-verb-in-path [AGIS v01 section 5 (b)] FETCH /getUser: ...; try: FETCH /user``.
    """
    fix = f"; try: {finding.fix}" if finding.fix else ""
    rule = f"{finding.rule.name} [AGIS v01 section {finding.rule.section}]"
    where = f"{file}:{finding.line}:{finding.column}" if finding.line else file
    if finding.reason:
        return f"{where}: suppressed {rule} {finding.place}: {finding.message}; reason: {finding.reason}"
    return f"{where}: {finding.severity.value} {rule} {finding.place}: {finding.message}{fix}"


def verdict(examined: ValidatedFile) -> str:
    """Return whether a file conforms, with the counts, as one line."""
    counts = examined.counts
    said = ", ".join(
        f"{counts[each]} {each.value}{'' if counts[each] == 1 else 's'}" for each in Severity if counts[each]
    )
    if examined.suppressed:
        said = f"{said}{', ' if said else ''}{len(examined.suppressed)} suppressed"
    word = "conforms" if examined.conforms else "does not conform"
    return f"{examined.file}: {word}{f' ({said})' if said else ''}"


def passes(examined: ValidatedFile) -> Iterator[tuple[int, str, bool | None]]:
    """Yield number and name of each pass, and whether it succeeded; None if it was not run."""
    failed = {each.rule.number for each in examined.findings if each.severity is Severity.ERROR}
    for number, name in enumerate(PASSES, 1):
        yield number, name, None if examined.ended and number > 1 else number not in failed


def members(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON members."""
    return {
        "rule": finding.rule.name,
        "severity": finding.severity.value,
        "pass": finding.rule.number,
        "section": finding.rule.section,
        "place": finding.place,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        **({"fix": finding.fix} if finding.fix else {}),
    }


def as_json(examined: Sequence[ValidatedFile]) -> list[dict[str, Any]]:
    """Return every file with its findings as JSON."""
    return [
        {
            "file": each.file,
            "conforms": each.conforms,
            "findings": [members(finding) for finding in each.findings],
            "suppressed": [{**members(finding), "reason": finding.reason} for finding in each.suppressed],
        }
        for each in examined
    ]


_SIGNS = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


def _xml(text: str) -> str:
    """Return a text escaped for XML; characters that XML forbids are written as Python escapes."""
    if not text.isprintable():
        text = "".join(char if _in_xml(char) else ascii(char)[1:-1] for char in text)
    return text.translate(_SIGNS)


def _in_xml(char: str) -> bool:
    """Return whether XML 1.0 allows a character."""
    return char in "\t\n\r" or " " <= char <= "\ud7ff" or "\ue000" <= char <= "\ufffd" or char > "\uffff"


def as_junit(examined: Sequence[ValidatedFile]) -> str:
    """Return JUnit XML with a test suite for each file and a test case for each pass."""
    suites = "".join(_suite(each) for each in examined)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="agis">{suites}</testsuites>\n'


def _suite(examined: ValidatedFile) -> str:
    cases = []
    for number, name, held in passes(examined):
        inside = ""
        if held is None:
            inside = '<skipped message="pass 1 ended the examination"/>'
        elif not held:
            wrong = [
                each for each in examined.findings if each.rule.number == number and each.severity is Severity.ERROR
            ]
            text = "\n".join(line(examined.file, each) for each in wrong)
            inside = f'<failure message="{_xml(wrong[0].message)}">{_xml(text)}</failure>'
        cases.append(f'<testcase classname="{_xml(examined.file)}" name="{number} {name}">{inside}</testcase>')
    made = [each for _, _, each in passes(examined)]
    counts = f'tests="{len(PASSES)}" failures="{made.count(False)}" errors="0" skipped="{made.count(None)}"'
    head = f'<testsuite name="{_xml(examined.file)}" {counts}>'
    return f"{head}{''.join(cases)}</testsuite>"


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def as_sarif(examined: Sequence[ValidatedFile]) -> str:
    """Return SARIF 2.1.0, which code reviews show next to the lines."""
    used = sorted({finding.rule.name for each in examined for finding in (*each.findings, *each.suppressed)})
    numbers = {name: number for number, name in enumerate(used)}
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].says},
            "defaultConfiguration": {"level": _LEVELS[RULES[name].severity]},
            "properties": {"section": RULES[name].section, "pass": RULES[name].number},
        }
        for name in used
    ]
    driver = {"name": "agtp agis", "version": __version__, "rules": rules}
    results = [_result(each, finding, numbers) for each in examined for finding in (*each.findings, *each.suppressed)]
    if any("suppressions" in each for each in results):
        # If one result has suppressions, all results must have them.
        results = [{"suppressions": [], **each} for each in results]
    document = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(document, indent=2) + "\n"


def _result(examined: ValidatedFile, finding: Finding, numbers: Mapping[str, int]) -> dict[str, Any]:
    fix = f" Try: {finding.fix}." if finding.fix else ""
    region = {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    # Suppressed findings are results as well: code reviews show them as resolved, with the reason.
    kind = "external" if finding.rule.name in examined.outside else "inSource"
    settled = {"suppressions": [{"kind": kind, "justification": finding.reason}]} if finding.reason else {}
    return {
        **settled,
        "ruleId": finding.rule.name,
        "ruleIndex": numbers[finding.rule.name],
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.place}: {finding.message}.{fix}"},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": quote(os.fsencode(examined.file))}, "region": region}}
        ],
    }
