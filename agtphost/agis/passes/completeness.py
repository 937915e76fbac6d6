"""
Pass 5: the members that a semantic block must have at each level, and their types (AGIS v01 sections 3, 6 and 14).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.agis.confusables import skeleton
from agtphost.agis.document import AgisEndpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.subject import Subject
from agtphost.agis.words import strip_accents, to_snake_case
from agtphost.contract.tool_names import mcp_tool_name

LONGEST = 500
"""Recommended limit of an intent or an outcome, in characters (AGIS v01 section 14)."""

FURTHEST = 5_000
"""Characters beyond which an intent or an outcome is refused."""

SURE = 0.85
"""The least confidence_guidance of an irreversible method (AGIS v01 section 6)."""

ACTORS = ("agent", "user", "system")
CAPABILITIES = ("discovery", "transaction", "modification", "retrieval", "analysis", "notification")
IMPACTS = ("informational", "reversible", "irreversible")

_EXAMPLES = {
    "intent": "intent: Books a table on behalf of the agent",
    "actor": "actor: agent",
    "outcome": "outcome: A confirmed reservation exists",
    "capability": f"one of {', '.join(CAPABILITIES)}",
    "confidence_guidance": "confidence_guidance: 0.85",
    "impact_tier": f"one of {', '.join(IMPACTS)}",
    "is_idempotent": "is_idempotent: false",
    "state_transition": "state_transition: {reservation.status: NONE -> CONFIRMED}",
}
"""Samples of missing members."""

FIELDS: dict[str, tuple[bool, bool]] = {
    "intent": (True, True),
    "actor": (True, True),
    "outcome": (True, True),
    "capability": (False, True),
    "confidence_guidance": (False, True),
    "impact_tier": (False, True),
    "is_idempotent": (False, True),
    "state_transition": (False, True),
    "parameter_hints": (False, False),
    "mcp_tool_name": (False, False),
}
"""The members of a semantic block: whether level 1 and level 2 require them (AGIS v01 section 3)."""

_FINAL = frozenset({"EXECUTE", "CANCEL", "TRANSFER"})
_NEXT = re.compile(r"[.!?](?=\s+[A-Z])")
_SHORT = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z](?:\.[A-Za-z])*|Dr|Mr|Mrs|Ms|Prof|St|Mt|Ft|No|Nr|Jr|Sr|vs|etc|cf|approx|incl|Inc|Ltd|Co|Corp|Dept)\.$"
)
"""Abbreviations whose full stop does not end a sentence."""
_FORGET = r"\b(?:ignore|forget|override|bypass) (?:(?:all|any|the|your|my|these|those|of|everything|system) )*"
_INSTRUCTIONS = re.compile(
    rf"{_FORGET}(?:previous|prior|above|earlier|preceding)|{_FORGET}(?:instructions?|prompts?|guardrails)"
    r"|\byou are\b|\byou must\b|(?:^|\s)(?:system|assistant|user)\s*:|<\|"
    r"|\bdisregard\b|\binstructions?\b.{0,20}\b(?:above|follow)",
    re.IGNORECASE,
)
_FIELD = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_TOOL_NAME = re.compile(r"[a-z0-9]+(?:[_-]+[a-z0-9]+)*", re.ASCII)
"""Hyphens are allowed, because the rule for undeclared names makes ``triage_patient-record`` (AGIS v01 appendix C)."""


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the faults of the semantic blocks."""
    tools: dict[str, str] = {}
    for endpoint in subject.document.endpoints:
        yield from _members(subject, endpoint)
        yield from _statements(subject, endpoint)
        yield from _values(subject, endpoint)
        yield from _hints(subject, endpoint)
        yield from _transitions(subject, endpoint)
        yield from _tool_name(subject, endpoint, tools)


def _members(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    block = endpoint.semantic
    at = endpoint.place("semantic")
    for name, (first, second) in FIELDS.items():
        if not _absent(block, name):
            continue
        if first:
            yield subject.finding("5-missing", endpoint.name, at, f"semantic.{name} is missing", _EXAMPLES[name])
        elif second and subject.level == 2 and (name != "state_transition" or _changes(block)):
            message = f"semantic.{name} is missing, which level 2 requires"
            yield subject.finding("5-level-2", endpoint.name, at, message, _EXAMPLES[name])


def _absent(block: Mapping[str, Any], name: str) -> bool:
    value = block.get(name)
    return value is None or (isinstance(value, str) and not value.strip())


def _changes(block: Mapping[str, Any]) -> bool:
    return block.get("impact_tier") != "informational"


def _statements(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    for name in ("intent", "outcome"):
        if _absent(endpoint.semantic, name):
            continue
        at, said = endpoint.place("semantic", name), endpoint.semantic[name]
        if not isinstance(said, str):
            yield subject.finding(
                "5-sentence", endpoint.name, at, f"semantic.{name} is not a sentence", _EXAMPLES[name]
            )
            continue
        if len(said) > LONGEST:
            message = f"semantic.{name} has {len(said)} characters; the limit is {LONGEST}"
            rule = "5-long" if len(said) <= FURTHEST else "5-unreadable"
            yield subject.finding(rule, endpoint.name, at, message, "say it in one sentence")
            if len(said) > FURTHEST:
                continue
        first = _first_sentence(said.strip())
        if first is not None:
            message = f"semantic.{name} is more than one sentence"
            yield subject.finding("5-sentence", endpoint.name, at, message, first)
        found = _INSTRUCTIONS.search(said) or _INSTRUCTIONS.search(skeleton(said))
        if found is not None:
            message = f"semantic.{name} reads as an instruction: {found[0].strip()!r}"
            yield subject.finding("5-instruction", endpoint.name, at, message, "describe what the endpoint does")


def _first_sentence(text: str) -> str | None:
    """Return the first of several sentences; None if there is only one."""
    for end in _NEXT.finditer(text):
        first = text[: end.end()]
        if _SHORT.search(first[-12:]) is None:
            return first
    return None


def _values(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    block = endpoint.semantic
    for rule, name, choices in (
        ("5-actor", "actor", ACTORS),
        ("5-capability", "capability", CAPABILITIES),
        ("5-impact", "impact_tier", IMPACTS),
    ):
        if not _absent(block, name) and block[name] not in choices:
            message = f"semantic.{name} is {str(block[name])[:40]!r}, which is not one of {', '.join(choices)}"
            given = block[name].strip().lower() if isinstance(block[name], str) else ""
            fix = f"{name}: {given if given in choices else choices[0]}"
            yield subject.finding(rule, endpoint.name, endpoint.place("semantic", name), message, fix)
    if not isinstance(block.get("is_idempotent"), (bool, type(None))):
        at = endpoint.place("semantic", "is_idempotent")
        message = "semantic.is_idempotent is not true or false"
        yield subject.finding("5-idempotent", endpoint.name, at, message, "is_idempotent: false, or true")
    yield from _confidence(subject, endpoint)


def _confidence(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    value = endpoint.semantic.get("confidence_guidance")
    at = endpoint.place("semantic", "confidence_guidance")
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1):
        message = "semantic.confidence_guidance is not a number from 0.0 to 1.0"
        yield subject.finding("5-confidence", endpoint.name, at, message, f"confidence_guidance: {SURE}")
        return
    final = endpoint.semantic.get("impact_tier") == "irreversible" or (
        endpoint.verb in _FINAL and endpoint.semantic.get("impact_tier") is None
    )
    if final and (value is None or value < SURE):
        said = "has no confidence_guidance" if value is None else f"has a confidence_guidance of {value}"
        message = f"it cannot be undone, but {said}"
        yield subject.finding("5-low-confidence", endpoint.name, at, message, f"confidence_guidance: {SURE}")


def _hints(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    hints = endpoint.semantic.get("parameter_hints")
    if hints is None:
        return
    at = endpoint.place("semantic", "parameter_hints")
    wrong = None if isinstance(hints, dict) else at
    for name, phrases in hints.items() if isinstance(hints, dict) else ():
        if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
            wrong = (*at, name)
            break
    if wrong is not None:
        message = "semantic.parameter_hints must be lists of phrases"
        yield subject.finding("5-hints", endpoint.name, wrong, message, 'party_size: ["for N people", "party of N"]')


def transitions(value: Any) -> list[tuple[str, str, str]] | None:
    """
    Return the fields of a ``state_transition``, each with its old and new state.

    :param value: text of one or several lines, a list of texts, or a mapping from fields to ``FROM -> TO``.
    :return: None if it is none of these.
    """
    if isinstance(value, Mapping):
        lines = [f"{name}: {change}" for name, change in value.items()]
    elif isinstance(value, str):
        lines = [line for line in value.splitlines() if line.strip()]
    elif isinstance(value, list) and all(isinstance(line, str) for line in value):
        lines = value
    else:
        return None
    found = [_transition(line) for line in lines]
    return found if lines and all(_FIELD.fullmatch(field) and was and will for field, was, will in found) else None


def _transition(line: str) -> tuple[str, str, str]:
    field, _, change = line.partition(":")
    was, _, will = change.partition("->")
    return field.strip(), was.strip(), will.strip()


def _transitions(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    value = endpoint.semantic.get("state_transition")
    if value is not None and transitions(value) is None:
        at = endpoint.place("semantic", "state_transition")
        message = "semantic.state_transition is not `field: FROM -> TO`"
        yield subject.finding("5-transition", endpoint.name, at, message, "reservation.status: NONE -> CONFIRMED")


def is_tool_name(name: str) -> bool:
    """Return whether a name is allowed as ``mcp_tool_name``."""
    return _TOOL_NAME.fullmatch(name) is not None


def _tool_name(subject: Subject, endpoint: AgisEndpoint, tools: dict[str, str]) -> Iterator[Finding]:
    """Yield faults of a declared tool name, which must be unique; generated names may be shared by several paths."""
    declared = endpoint.semantic.get("mcp_tool_name")
    if declared is None:
        tools.setdefault(mcp_tool_name(endpoint.verb, endpoint.path.lower()), endpoint.name)
        return
    at = endpoint.place("semantic", "mcp_tool_name")
    if not isinstance(declared, str) or not is_tool_name(declared):
        fix = to_snake_case(strip_accents(str(declared))) or "make_reservation"
        message = f"semantic.mcp_tool_name {str(declared)[:64]!r} is not lower-case words joined by underscores"
        yield subject.finding("5-tool-name", endpoint.name, at, message, fix)
        return
    other = tools.setdefault(declared, endpoint.name)
    if other != endpoint.name:
        message = f"semantic.mcp_tool_name {declared} is also the tool of {other}"
        yield subject.finding("5-tool-name", endpoint.name, at, message, "give each a different name")
