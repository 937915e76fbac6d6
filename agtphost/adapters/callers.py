"""Who makes a call: whose share of an upstream it takes, and whose its tasks are."""

from __future__ import annotations

from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import counted_as
from agtphost.identity.required_assurance import is_believed

UNPROVEN = ""
"""The one share of all callers who proved no identity: names that cost nothing give no turns."""


def caller_of(context: BuiltInContext) -> str:
    """Whose share a call counts for: the agent's that is proven, whether by its certificate or by a token."""
    if context.caller is None or not is_believed(context.assurance):
        return UNPROVEN
    return counted_as(context.caller.agent_id, context.assurance)


def owner_of(context: BuiltInContext) -> str:
    """
    Return whose the tasks, runs, processes and levels of a call are; empty where nobody says who calls.

    The caller's Agent-ID where its certificate proves it, else a name apart from it: whoever merely names an agent
    neither sees nor touches what that agent has at an upstream.
    """
    return context.owner


def is_forwarded(context: BuiltInContext) -> bool:
    """Return whether upstreams may be told who calls: a name that nothing proves is told to nobody."""
    return context.caller is not None and is_believed(context.assurance)


def agent_of(context: BuiltInContext) -> str:
    """Return the Agent-ID that the caller has or names; empty where nobody says who calls."""
    return "" if context.caller is None else context.caller.agent_id
