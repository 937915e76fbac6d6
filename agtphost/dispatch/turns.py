"""Whose turn a call takes where callers take turns."""

from __future__ import annotations

from agtphost.dispatch.exchange import Exchange
from agtphost.identity.peer import Assurance


def key_of(exchange: Exchange) -> str:
    """
    The caller, where more than a header names it; else the address that the call comes from.

    Otherwise a stranger could take the turns of an agent that it names, or be many agents.
    """
    caller = exchange.caller
    if caller is not None and exchange.assurance >= Assurance.GATEWAY:
        return exchange.owner
    return f"address {exchange.peer.address}"
