"""Who makes a call: whose share of an upstream it takes, and whose its tasks are."""

from __future__ import annotations

from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance

UNPROVEN = ""
"""The one share of all callers who proved no identity: names that cost nothing give no turns."""


def caller_of(context: BuiltInContext) -> str:
    """Whose share a call counts for: the agent's whose certificate made it."""
    return UNPROVEN if context.assurance < Assurance.CERTIFICATE else owner_of(context)


def owner_of(context: BuiltInContext) -> str:
    """The caller's Agent-ID; empty where nobody says who calls."""
    return "" if context.caller is None else context.caller.agent_id
