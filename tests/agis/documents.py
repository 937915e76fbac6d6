"""Documents for the tests: a sound one, and what is changed of it."""

from __future__ import annotations

import copy
import json
from typing import Any

from agtphost.agis.validation import Verdict, validate

ENDPOINT: dict[str, Any] = {
    "method": "BOOK",
    "path": "/reservation",
    "semantic": {
        "intent": "Books a table on behalf of the agent",
        "actor": "agent",
        "outcome": "A confirmed reservation exists",
        "capability": "transaction",
        "confidence_guidance": 0.9,
        "impact_tier": "reversible",
        "is_idempotent": False,
        "state_transition": "reservation.status: NONE -> CONFIRMED",
    },
    "input": {
        "type": "object",
        "additionalProperties": False,
        "required": ["party_size"],
        "properties": {"party_size": {"type": "integer", "minimum": 1}, "id": {"type": "string"}},
    },
    "output": {"type": "object", "properties": {"reservation_id": {"type": "string"}}},
    "errors": ["reservation_unavailable"],
}

DOCUMENT: dict[str, Any] = {
    "agis": "1.0",
    "service": "Tables",
    "agtp": "agtp://tables.example.com",
    "description": "Tables of restaurants.",
    "version": "1.0.0",
    "endpoints": [ENDPOINT],
    "vocabulary": {"declared_verbs": ["BOOK"], "domain": "hospitality"},
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """
    The sound document with other members.

    :param changes: a place, such as ``endpoints.0.semantic.actor``, and its value; None takes it out.
    """
    found = copy.deepcopy(DOCUMENT)
    for place, value in changes:
        within: Any = found
        *outer, last = place.split(".")
        for name in outer:
            within = within[int(name)] if isinstance(within, list) else within[name]
        if value is None:
            del within[last]
        elif isinstance(within, list):
            within[int(last)] = value
        else:
            within[last] = value
    return found


def method(name: str, path: str = "/room", intent: str | None = None) -> dict[str, Any]:
    """A document of one endpoint, whose verb is declared."""
    return changed(
        ("endpoints.0.method", name),
        ("endpoints.0.path", path),
        ("endpoints.0.semantic.intent", intent or f"{name.title()} it on behalf of the agent"),
        ("vocabulary.declared_verbs", [name]),
    )


def examined(document: Any, level: int = 1) -> Verdict:
    """Its examination, from its text."""
    return validate(json.dumps(document).encode(), level=level)


def rules(verdict: Verdict, *severities: str) -> list[str]:
    """The rules of its findings, without ``AGIS-``; of these severities."""
    return [each.rule.name[6:] for each in verdict.findings if not severities or each.severity.value in severities]
