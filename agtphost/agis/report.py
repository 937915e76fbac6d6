"""Findings as people, pipelines and code reviews read them: text, JSON, JUnit and SARIF."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from agtphost import __version__
from agtphost.agis.findings import PASSES, Finding, Severity
from agtphost.agis.rules import RULES


@dataclass(frozen=True, kw_only=True)
class Examined:
    """One file and what was found in it."""

    file: str
    conforms: bool
    findings: Sequence[Finding]
    suppressed: Sequence[Finding] = ()

    @property
    def counts(self) -> Counter[Severity]:
        """How many of each severity."""
        return Counter(each.severity for each in self.findings)


def line(file: str, finding: Finding) -> str:
    """``file:12:5: error AGIS-P4-verb-in-path [AGIS v01 section 5 (b)] FETCH /getUser: ...; say FETCH /user``."""
    fix = f"; try: {finding.fix}" if finding.fix else ""
    rule = f"{finding.rule.name} [AGIS v01 section {finding.rule.section}]"
    where = f"{file}:{finding.line}:{finding.column}"
    if finding.reason:
        return f"{where}: suppressed {rule} {finding.place}: {finding.message}; reason: {finding.reason}"
    return f"{where}: {finding.severity.value} {rule} {finding.place}: {finding.message}{fix}"


def verdict(examined: Examined) -> str:
    """``conforms`` or not, with the counts."""
    counts = examined.counts
    said = ", ".join(
        f"{counts[each]} {each.value}{'' if counts[each] == 1 else 's'}" for each in Severity if counts[each]
    )
    if examined.suppressed:
        said = f"{said}{', ' if said else ''}{len(examined.suppressed)} suppressed"
    word = "conforms" if examined.conforms else "does not conform"
    return f"{examined.file}: {word}{f' ({said})' if said else ''}"


def passes(examined: Examined) -> Iterator[tuple[int, str, bool]]:
    """Each pass: its number, its name, and whether it holds."""
    failed = {each.rule.number for each in examined.findings if each.severity is Severity.ERROR}
    for number, name in enumerate(PASSES, 1):
        yield number, name, number not in failed


def members(finding: Finding) -> dict[str, Any]:
    """One finding as JSON."""
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


def as_json(examined: Sequence[Examined]) -> list[dict[str, Any]]:
    """Every file with its findings."""
    return [
        {
            "file": each.file,
            "conforms": each.conforms,
            "findings": [members(finding) for finding in each.findings],
            "suppressed": [{**members(finding), "reason": finding.reason} for finding in each.suppressed],
        }
        for each in examined
    ]


def as_junit(examined: Sequence[Examined]) -> str:
    """A test suite for each file and a test case for each pass, as pipelines show them."""
    suites = "".join(_suite(each) for each in examined)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="agis">{suites}</testsuites>\n'


def _suite(examined: Examined) -> str:
    cases = []
    for number, name, held in passes(examined):
        inside = ""
        if not held:
            wrong = [
                each for each in examined.findings if each.rule.number == number and each.severity is Severity.ERROR
            ]
            text = "\n".join(line(examined.file, each) for each in wrong)
            inside = f"<failure message={quoteattr(wrong[0].message)}>{escape(text)}</failure>"
        cases.append(
            f"<testcase classname={quoteattr(examined.file)} name={quoteattr(f'{number} {name}')}>{inside}</testcase>"
        )
    failures = sum(not held for _, _, held in passes(examined))
    head = f'<testsuite name={quoteattr(examined.file)} tests="{len(PASSES)}" failures="{failures}">'
    return f"{head}{''.join(cases)}</testsuite>"


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def as_sarif(examined: Sequence[Examined]) -> str:
    """SARIF 2.1.0, which code reviews show beside the lines."""
    used = sorted({finding.rule.name for each in examined for finding in (*each.findings, *each.suppressed)})
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
    results = [_result(each.file, finding, used) for each in examined for finding in (*each.findings, *each.suppressed)]
    document = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(document, indent=2) + "\n"


def _result(file: str, finding: Finding, used: Sequence[str]) -> dict[str, Any]:
    fix = f" Try: {finding.fix}." if finding.fix else ""
    region = {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    # What is suppressed is a result all the same: code reviews show it as settled, with the reason.
    settled = {"suppressions": [{"kind": "inSource", "justification": finding.reason}]} if finding.reason else {}
    return {
        **settled,
        "ruleId": finding.rule.name,
        "ruleIndex": used.index(finding.rule.name),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.place}: {finding.message}.{fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}],
    }
