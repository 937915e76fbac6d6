"""
Who has to be in service for a call to succeed, and what it comes to where one of them is not any more.

The gates look at the states as they are when a call begins; running calls end
with their agents (:mod:`.running`); and the ledger looks once more where it
writes the record (:attr:`agtphost.audit.drafts.Draft.standing`), so that no
record of a success follows the event that stopped its caller or its addressee.
"""

from __future__ import annotations

from agtphost.audit.drafts import Stopped
from agtphost.audit.lifecycle import state_of_row
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import StoppedAgent, reaches_stopped, refuse_stopped


def standing(exchange: Exchange) -> tuple[str, ...]:
    """Agent-IDs of the caller, and of the addressee unless the method reaches stopped agents."""
    caller, agent, binding = exchange.caller, exchange.agent, exchange.binding
    if agent is not None and exchange.agent_state is not None and binding is not None and reaches_stopped(binding):
        agent = None
    if caller is None:
        return () if agent is None else (agent.agent_id,)
    return (caller.agent_id,) if agent is None else (caller.agent_id, agent.agent_id)


def stopped(exchange: Exchange, error: Stopped, *, performed: bool) -> StoppedAgent:
    """
    The refusal that a call ends in whose record could not be written any more: what the gates say of that state.

    :param performed: whether its handler was called before.
    """
    called = exchange.caller is None or exchange.caller.agent_id != error.agent_id
    try:
        refuse_stopped(state_of_row(error.state), "agent" if called else "caller", error.agent_id)
    except StoppedAgent as refusal:
        return after_handler(refusal) if performed else refusal
    raise AssertionError("the ledger stops nobody who is not stopped") from error


def after_handler(refusal: StoppedAgent) -> StoppedAgent:
    """Say, to the caller and in the record, that the handler had been called: what it did by then stands."""
    refusal.explanation += " The handler had been called by then, and what it did stands."
    refusal.details = {**refusal.details, "performed": True}
    refusal.extra = {**refusal.extra, "performed": True}
    return refusal
