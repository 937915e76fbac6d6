"""
Warnings that a document suppresses, each with a reason in the document.

``suppressions`` is a member of the document, so that it is the same in YAML
and JSON and goes wherever the document goes::

    suppressions:
      - rule: AGIS-P3-borderline
        endpoint: RUN /job
        reason: Our users call this running a job.

Errors cannot be suppressed. A suppression without a reason, or without a
matching warning, is reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agtphost.agis.document import AgisDocument
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.passes.subject import Subject, shorten
from agtphost.agis.rules import RULES

MEMBER = "suppressions"
"""The member of a document that has its suppressions."""

_KINDS = ("AGIS-P1-suppression", "AGIS-P1-unused-suppression")
"""Findings about suppressions cannot be suppressed."""

MOST_GUESSES = 20
"""Suppressions of a document for which a similar rule is suggested."""

_Key = tuple[str, str]
"""A rule and an endpoint; an empty endpoint means the whole document."""


def apply_suppressions(
    document: AgisDocument, found: Sequence[Finding]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """
    Apply a document's suppressions.

    :param found: all findings of the document.
    :return: the remaining findings, with those about suppressions; and the suppressed findings with their reasons.
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
                message = "it repeats a suppression above"
                told.append(_finding(subject, "1-unused-suppression", index, message, "remove one of them"))
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
            message = f"it finds no {rule}{f' at {place}' if place else ''} to suppress"
            told.append(_finding(subject, "1-unused-suppression", index, message, "agtp agis fmt --fix removes it"))
    return (*kept, *told), tuple(left_out)


def unused_suppressions(found: Sequence[Finding]) -> Iterator[int]:
    """Yield the indexes of unused suppressions."""
    for finding in found:
        if finding.rule.name == _KINDS[1]:
            yield int(finding.place.removeprefix(f"{MEMBER}[").removesuffix("]"))


def _fault(entry: Any, *, guess: bool) -> tuple[str, str] | None:
    """
    Return what is wrong with a suppression, and the replacement; None for a valid one.

    :param guess: whether to search a similar rule for an unknown one.
    """
    if not isinstance(entry, Mapping):
        return (
            "it must be a mapping of rule, endpoint and reason",
            "{rule: AGIS-P3-borderline, reason: why it is right}",
        )
    rule, reason, endpoint = entry.get("rule"), entry.get("reason"), entry.get("endpoint", "")
    if not isinstance(rule, str) or rule not in RULES:
        near = difflib.get_close_matches(str(rule)[:64], RULES, 1) if guess else []
        return f"{str(rule)[:64]!r} is not a rule; use the name that a finding shows", near[
            0
        ] if near else "the rule of a warning"
    if RULES[rule].severity is Severity.ERROR:
        return f"{rule} is an error, and errors cannot be suppressed", "remove the suppression, and correct the error"
    if rule in _KINDS:
        return f"{rule} is about suppressions, and cannot be suppressed", "remove it"
    if not isinstance(reason, str) or not reason.strip():
        return f"{rule} is suppressed without a reason", "reason: why it is right here"
    if not isinstance(endpoint, str):
        return "its endpoint must be METHOD /path", "endpoint: BOOK /reservation"
    return None


def place_of(endpoint: str) -> str:
    """Return an endpoint's name as findings have it, for any capitals and spaces."""
    method, _, path = endpoint.strip().partition(" ")
    return shorten(f"{method.upper()} {path.strip()}") if path else method.upper()


def _finding(subject: Subject, rule: str, index: int, message: str, fix: str = "") -> Finding:
    return subject.finding(rule, f"{MEMBER}[{index}]", (MEMBER, index), message, fix)
