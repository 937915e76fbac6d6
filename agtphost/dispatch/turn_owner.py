"""Whose turn a call takes where callers take turns."""

from __future__ import annotations

from agtphost.dispatch.exchange import Exchange
from agtphost.identity.peer import Assurance, counted_as


def key_of(exchange: Exchange) -> str:
    """
    Return the caller if it has proven its identity; otherwise the address that the call comes from.

    Otherwise a stranger could take the turns of an agent that it names, or be many agents. An agent's certificate and
    its tokens have one turn together: see :func:`agtphost.identity.peer.counted_as`.
    """
    caller = exchange.accountable
    if caller is not None and exchange.assurance >= Assurance.GATEWAY:
        return counted_as(caller.agent_id, exchange.assurance)
    return f"address {exchange.peer.address}"
