"""What a person approves: bound to the exact call, and good for one (:mod:`agtphost.dispatch.approvals`)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from zope.interface import implementer

from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate


@implementer(ICacheableGate)
class ApprovalGate:
    """
    A call that needs an approval has one, else 202; a call that needs none pays one attribute test.

    What it lets pass is used up by the dispatcher, durably, before the handler is called.
    """

    name = "approval"

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        if exchange.binding.approval:  # type: ignore[union-attr]
            return self._approvals.require(exchange)
        return None

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a binding that needs no approval."""
        return () if exchange.is_binding_final and not exchange.binding.approval else None  # type: ignore[union-attr]
