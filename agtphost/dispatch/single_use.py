"""What is good for one call: its use is durable before the handler of that call runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.interfaces import ILedger
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.purchase import Purchase, refuse_replayed
from agtphost.dispatch.release import in_use
from agtphost.dispatch.sealer import Sealer, new_id
from agtphost.dispatch.store_refusals import made_durable
from agtphost.errors import Refusal


class SingleUse:
    """
    Uses up Intent-Assertions and approvals.

    :param sealer: makes the record that tells of the use.
    :param ledger: makes it durable.
    """

    def __init__(self, sealer: Sealer, ledger: ILedger) -> None:
        self._sealer = sealer
        self._ledger = ledger

    async def purchase(self, exchange: Exchange, purchase: Purchase) -> None:
        """
        Make it durable that an Intent-Assertion is used, before anything is bought with it.

        Only one of two purchases with one assertion reaches its handler, concurrent ones and those after a crash
        included.

        :raises Refusal: 458 where it was used, 503 where nothing can be made durable.
        """
        if purchase.use is not None:
            await self._make_durable(exchange, {"type": "intent-assertion-used"}, purchase.use, refuse_replayed)

    async def approval(self, exchange: Exchange) -> None:
        """
        Use up the approval of a call, durably, before its handler is called: only one of two concurrent calls goes on,
        and after a crash in the middle of it none does.

        :raises Refusal: 409 where another call has it, or nothing was approved; 500 where no record says that it was;
            503 where nothing can be made durable.
        """
        release = exchange.approval
        if release is None:
            raise in_use()
        if release.item is None:
            return
        release.begin()
        await release.require_decision()
        event = {"type": "approval-used", "approval_id": release.approval_id}
        await self._make_durable(exchange, event, release.reserving(), in_use)
        release.reserved = True

    async def _make_durable(
        self, exchange: Exchange, event: Mapping[str, Any], use: Change, taken: Callable[[], Refusal]
    ) -> None:
        """
        Commit the use of a single-use item, with a separate record.

        :param taken: the refusal for the second user.
        :raises Refusal: that one; 503 where nothing can be made durable.
        """
        outcome = self._sealer.interim(exchange, event, os.urandom(16).hex())
        outcome.changes = (use,)
        draft = self._sealer.draft(exchange, outcome, new_id(exchange.now))
        draft.reservation = None
        await made_durable(self._ledger, exchange, draft, performed=False, taken=taken)
