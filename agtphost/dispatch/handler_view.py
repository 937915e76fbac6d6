"""What a handler sees of an exchange: a caller that is believed, or none (design decision 4)."""

from __future__ import annotations

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.invocation import Dispatches, Interim, Invocation


def shown_to_handler(by: Dispatches, exchange: Exchange, interim: Interim | None) -> tuple[Exchange, Invocation]:
    """Return what a handler sees of an exchange, without a caller that is ``unseen``, and what it calls through."""
    if not exchange.unseen:
        return exchange, Invocation(by, exchange, interim)
    seen = exchange.without_caller()
    return seen, Invocation(by, seen if exchange.nameless else exchange, interim)
