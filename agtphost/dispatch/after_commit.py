"""
Changes in the transaction of a call's record besides those of the call itself: the end of its approval, or of a step,
and the session that it is the first call of.
"""

from __future__ import annotations

from agtphost.audit.drafts import Change
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.outcome import Outcome


def changes(exchange: Exchange, outcome: Outcome) -> tuple[Change, ...]:
    """Return the changed state items for the draft of an outcome; none for an interim message."""
    approval, follow, opens = exchange.approval, exchange.peer.follow, exchange.opens
    if outcome.continuation or (approval is None and follow is None and opens is None):
        return ()
    # A refusal is also written for an agent that has just been stopped, whose sessions have ended with it.
    opened = () if opens is None or outcome.reason else opens()
    finished = () if approval is None else approval.finishing()
    followed = () if follow is None else follow.changes(int(outcome.status), outcome.reason, outcome.body)
    return (*finished, *followed, *opened)
