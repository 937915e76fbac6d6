"""Whose share of an upstream a call takes."""

from __future__ import annotations

from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance

UNPROVEN = ""
"""The one share of all callers who proved no identity: names that cost nothing give no turns."""


def caller_of(context: BuiltInContext) -> str:
    """Whose share a call counts for: the agent's whose certificate made it."""
    if context.caller is None or context.assurance < Assurance.CERTIFICATE:
        return UNPROVEN
    return context.caller.agent_id
