"""The caller of a call: whose share of an upstream it takes, and whose tasks it has."""

from __future__ import annotations

from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.required_assurance import BELIEVED, is_believed

UNPROVEN_CALLERS = ""
"""The shared name of all callers without a proven identity, so that made-up names do not give more turns."""


def caller_of(context: BuiltInContext) -> str:
    """Return whose share a call counts for: the agent that is proven by its certificate or by a token."""
    caller = context.caller
    # A believed caller counts under its own name: see agtphost.identity.peer.counted_as.
    return UNPROVEN_CALLERS if caller is None or context.assurance < BELIEVED else caller.agent_id


def owner_of(context: BuiltInContext) -> str:
    """
    Return the owner of the tasks, runs, processes and levels of a call; empty where the caller has no name.

    It is the caller's Agent-ID if its certificate proves that, else a separate name: a caller that merely names an
    agent neither sees nor changes what that agent has at an upstream.
    """
    return context.owner


def is_forwarded(context: BuiltInContext) -> bool:
    """Return whether upstreams may get the caller's name, which must be proven."""
    if context.peer is not None and context.peer.rights_of:
        return False  # An operator calls, with the rights of that agent.
    return context.caller is not None and is_believed(context.assurance)


def agent_of(context: BuiltInContext) -> str:
    """Return the Agent-ID that the caller has or names; empty where the caller has no name."""
    return "" if context.caller is None else context.caller.agent_id
