"""The refusals when the store took nothing: it is down, a quota is used up, or an item has changed."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.audit.drafts import Draft, LedgerUnavailable, Sealed, StaleChange, Stopped
from agtphost.audit.interfaces import ILedger
from agtphost.audit.state import StateFull
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.required_agents import refuse_stopped_call
from agtphost.dispatch.sealer import RETRY_AFTER
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

RETRY_SECONDS = 60
"""When to try again: items are dropped when they are finished, read or expired, at an unknown time."""


def no_room(full: StateFull) -> Refusal:
    """
    429 where the agent has its share, 503 where all agents together have used up what there is.

    Nothing of what the call asked for is done: what it would have changed is in the same transaction.
    """
    holding = full.holding
    details = {"scope": "host" if full.in_all else holding.kind, "limit": full.limit, "unit": full.unit}
    if full.in_all:
        return Refusal(
            Reason.HOST_FULL,
            str(full),
            details={**details, "kind": holding.kind},
            headers=(("Retry-After", str(RETRY_SECONDS)),),
        )
    return Refusal(
        holding.reason,
        str(full),
        remedy=holding.remedy or "Try again later.",
        details={**details, "kind": holding.kind},
        headers=(("Retry-After", str(RETRY_SECONDS)),),
    )


def store_down() -> Refusal:
    """Return a refusal with 503: no record can be kept, so nothing may happen."""
    return Refusal(
        Reason.STORE_UNAVAILABLE,
        remedy="Try again later; whether a call that was already running took effect is in doubt.",
        headers=(RETRY_AFTER,),
    )


def changed_meanwhile() -> Refusal:
    return Refusal(Reason.LIFECYCLE_CONFLICT)


def taken_meanwhile() -> Refusal:
    return Refusal(Reason.STATE_CONFLICT, remedy="Read its state and decide again.")


async def made_durable(
    ledger: ILedger, exchange: Exchange, draft: Draft, *, performed: bool, taken: Callable[[], Refusal]
) -> Sealed:
    """
    Commit a record in the middle of a call, or end the call with what the ledger says against it.

    :param performed: whether the handler may have done something already.
    :param taken: the refusal where another call changed one of its items first.
    :raises Refusal: 410 or 503 for a stopped caller, ``taken``, 429 and 503 where a quota is used up, 503 where nothing
        can be made durable.
    """
    try:
        return await ledger.submit(draft)
    except Stopped as error:
        raise refuse_stopped_call(exchange, error, performed=performed) from None
    except StaleChange:
        raise taken() from None
    except StateFull as full:
        raise no_room(full) from None
    except LedgerUnavailable:
        raise store_down() from None
