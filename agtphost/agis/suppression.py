"""
Warnings that a document leaves out, each for a reason that stands in it.

``suppressions`` is a member of the document, so that it is the same in YAML
and JSON and goes wherever the document goes::

    suppressions:
      - rule: AGIS-P3-borderline
        endpoint: RUN /job
        reason: Run is what our users say of jobs.

Errors are never left out. A suppression that has no reason, or leaves nothing
out, is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agtphost.agis.document import Document
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.passes.subject import Subject, shortened
from agtphost.agis.rules import RULES

MEMBER = "suppressions"
"""Of a document."""

_KINDS = ("AGIS-P1-suppression", "AGIS-P1-unused-suppression")
"""What is said of suppressions cannot be suppressed."""

MOST_GUESSES = 20
"""Suppressions of a document of which is looked for what was meant."""

_Key = tuple[str, str]
"""A rule and an endpoint; an empty one is every place of the document."""


def suppressed(document: Document, found: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """
    Apply a document's suppressions.

    :param found: everything that was found in it.
    :return: what is left, with what there is to say of the suppressions; and what they left out, with the reasons.
    """
    given = document.members.get(MEMBER)
    if given is None:
        return tuple(found), ()
    subject = Subject(document=document)
    told: list[Finding] = []
    reasons: dict[_Key, tuple[int, str]] = {}
    for index, entry in enumerate(given if isinstance(given, list) else [given]):
        fault = _fault(entry, guess=len(told) < MOST_GUESSES)
        if fault is None:
            key = entry["rule"], place_of(entry.get("endpoint", ""))
            if key in reasons:
                message = "the same is left out above"
                told.append(_finding(subject, "1-unused-suppression", index, message, "take one of them out"))
            else:
                reasons[key] = index, entry["reason"].strip()
        else:
            told.append(_finding(subject, "1-suppression", index, *fault))
    kept, left_out, used = [], [], set()
    for finding in found:
        keys = [(finding.rule.name, place_of(finding.place)), (finding.rule.name, "")]
        applied = next((key for key in keys if key in reasons), None)
        if applied is None or finding.severity is Severity.ERROR:
            kept.append(finding)
        else:
            used.add(applied)
            left_out.append(replace(finding, reason=reasons[applied][1]))
    for key, (index, _) in reasons.items():
        if key not in used:
            rule, place = key
            message = f"there is no {rule}{f' at {place}' if place else ''} to leave out"
            told.append(_finding(subject, "1-unused-suppression", index, message, "agtp agis fmt --fix takes it out"))
    return (*kept, *told), tuple(left_out)


def unused(found: Sequence[Finding]) -> Iterator[int]:
    """The indexes of the suppressions that left nothing out."""
    for finding in found:
        if finding.rule.name == _KINDS[1]:
            yield int(finding.place.removeprefix(f"{MEMBER}[").removesuffix("]"))


def _fault(entry: Any, *, guess: bool) -> tuple[str, str] | None:
    """
    What is wrong with a suppression, and what to write instead; None of one that counts.

    :param guess: whether a rule is looked for that is like one that is none.
    """
    if not isinstance(entry, Mapping):
        return "it is not a mapping of rule, endpoint and reason", "{rule: AGIS-P3-borderline, reason: why it is right}"
    rule, reason, endpoint = entry.get("rule"), entry.get("reason"), entry.get("endpoint", "")
    if not isinstance(rule, str) or rule not in RULES:
        near = difflib.get_close_matches(str(rule)[:64], RULES, 1) if guess else []
        return f"{str(rule)[:64]!r} is no rule; each finding names its own", near[
            0
        ] if near else "the rule of a warning"
    if RULES[rule].severity is Severity.ERROR:
        return f"{rule} is an error, and errors count", "take it out, and mend what the error says"
    if rule in _KINDS:
        return f"{rule} is said of suppressions, and cannot be left out", "take it out"
    if not isinstance(reason, str) or not reason.strip():
        return f"{rule} is left out without a reason", "reason: why it is right here"
    if not isinstance(endpoint, str):
        return "its endpoint is not METHOD /path", "endpoint: BOOK /reservation"
    return None


def place_of(endpoint: str) -> str:
    """As findings call it, whatever capitals and spaces it is written with."""
    method, _, path = endpoint.strip().partition(" ")
    return shortened(f"{method.upper()} {path.strip()}") if path else method.upper()


def _finding(subject: Subject, rule: str, index: int, message: str, fix: str = "") -> Finding:
    return subject.finding(rule, f"{MEMBER}[{index}]", (MEMBER, index), message, fix)
