"""Say who decided something, and when, in the refusal of a later decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def decided_by(decision: Mapping[str, Any]) -> str:
    """Return who decided, and when, as the end of a sentence; empty where that is not known."""
    operator = decision.get("operator")
    named = operator.get("name") if isinstance(operator, Mapping) else decision.get("by_name")
    who = named or decision.get("by")
    return f" by {who} at {decision.get('at')}" if who else ""


def decision_details(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return who decided, and when, as members of a refusal."""
    members = {"decided_by": "by", "decided_as": "by_name", "decided_at": "at", "operator": "operator"}
    return {name: decision[member] for name, member in members.items() if decision.get(member)}
