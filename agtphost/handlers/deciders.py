"""Say who decided something, and when, in the refusal of a later decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def decided_by(decision: Mapping[str, Any]) -> str:
    """Return who decided, and when, as the end of a sentence; empty where that is not known."""
    operator = decision.get("operator")
    who = operator.get("name") if isinstance(operator, Mapping) else decision.get("by")
    return f" by {who} at {decision.get('at')}" if who else ""


def decision_details(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return who decided, and when, as members of a refusal."""
    named = {"decided_by": decision.get("by"), "decided_at": decision.get("at"), "operator": decision.get("operator")}
    return {name: value for name, value in named.items() if value}
