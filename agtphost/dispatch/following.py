"""What becomes true with the record of a call besides what the call changes: the end of its approval, or of a step."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.audit.drafts import Change
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.outcome import Outcome


def changes(exchange: Exchange, outcome: Outcome) -> Iterator[Change]:
    """The state items, for the draft of an outcome that is about to be sealed; none with an interim message."""
    if outcome.continuation:
        return
    if exchange.approval is not None:
        yield from exchange.approval.finishing()
    if exchange.peer.follow is not None:
        yield from exchange.peer.follow.changes(int(outcome.status), outcome.reason, outcome.body)


def kept(exchange: Exchange, outcome: Outcome) -> None:
    """They are durable."""
    if exchange.peer.follow is not None and not outcome.continuation:
        exchange.peer.follow.kept()
