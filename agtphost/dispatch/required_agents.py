"""
The agents that a call requires to be in service, and the refusal when one of them is stopped.

The gates look at the states as they are when a call begins; running calls end
with their agents (:mod:`.running_calls`); and the ledger looks once more where it
writes the record (:attr:`agtphost.audit.drafts.Draft.standing`), so that no
record of a success follows the event that stopped its caller or its addressee.
"""

from __future__ import annotations

from agtphost.audit.drafts import Stopped
from agtphost.audit.lifecycle import state_of_row
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import StoppedAgent, reaches_stopped, refuse_stopped


def required_agents(exchange: Exchange) -> tuple[str, ...]:
    """Return the Agent-IDs of the caller, and of the addressee unless the method reaches stopped agents."""
    caller, agent, binding = exchange.caller, exchange.agent, exchange.binding
    if agent is not None and exchange.agent_state is not None and binding is not None and reaches_stopped(binding):
        agent = None
    if caller is None:
        return () if agent is None else (agent.agent_id,)
    return (caller.agent_id,) if agent is None else (caller.agent_id, agent.agent_id)


def refuse_stopped_call(exchange: Exchange, error: Stopped, *, performed: bool) -> StoppedAgent:
    """
    Return the refusal of a call whose record could not be written, because an agent was stopped.

    :param performed: whether its handler was called before.
    """
    called = exchange.caller is None or exchange.caller.agent_id != error.agent_id
    try:
        refuse_stopped(state_of_row(error.state), "agent" if called else "caller", error.agent_id)
    except StoppedAgent as refusal:
        return after_handler(refusal) if performed else refusal
    raise AssertionError("the ledger reported an agent as stopped that is not") from error


def after_handler(refusal: StoppedAgent) -> StoppedAgent:
    """Add, for the caller and the record, that the handler had been called, so that its effects remain."""
    refusal.explanation += " The handler had already run, and its effects remain."
    refusal.details = {**refusal.details, "performed": True}
    refusal.extra = {**refusal.extra, "performed": True}
    return refusal
