"""The last gates before a handler: a key is used once, and there is a store for the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import LedgerUnavailable, Reservation, ReservationKey, ReservationState
from agtphost.audit.interfaces import ILedger
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.limits import Allowances
from agtphost.dispatch.interfaces import Condition, ICacheableGate, IGate
from agtphost.dispatch.sealer import recall
from agtphost.dispatch.store_refusals import store_down
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason

VITAL_CALLS = 10
"""Vital calls a minute of one agent while the disk is nearly full; registrars and operators are not limited."""


@implementer(ICacheableGate)
class IdempotencyGate:
    """
    A key is used once per agent: durably reserved before the handler runs (security invariant 5). A repeat is
    of the same method, path, body, addressee and acting principal; anything else under the key is 422.

    Keys of callers known by header alone are separate from those of the same agent with its certificate, so that an
    impostor can neither use up nor read the agent's.
    """

    name = "idempotency"

    def __init__(self, ledger: ILedger) -> None:
        self._ledger = ledger

    def check(self, exchange: Exchange) -> Any:
        caller, key, binding = exchange.caller, exchange.idempotency_key, exchange.binding
        if key is None or caller is None or exchange.nameless or binding is None or not binding.state_changing:
            return None
        if binding.server_level and not binding.piecewise:
            # Lifecycle methods: repeating one is a no-op already (core v08 sections 7.2.14 to 7.2.18).
            return None
        sure = exchange.assurance is Assurance.CERTIFICATE
        owner = caller.agent_id if sure else f"{exchange.assurance.label}:{caller.agent_id}"
        if binding.keyed:
            owner = f"{binding.keyed}:{owner}"
        return self._reserve(exchange, ReservationKey(agent_id=owner, key=key, sure=sure))

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a binding that changes nothing: it takes no key."""
        return (
            ()
            if exchange.is_binding_final and exchange.binding is not None and not exchange.binding.state_changing
            else None
        )

    async def _reserve(self, exchange: Exchange, key: ReservationKey) -> None:
        request = exchange.request
        # The wire verb: several HTTP verbs may stand for one method, and do not mean the same.
        verb = exchange.requested_method or exchange.method
        digest = sha256(f"{verb} {request.path}?{request.query or ''}\n".encode() + request.body)
        # One caller's key for another agent, or on behalf of another principal, is another call.
        for whose in ("" if exchange.agent is None else exchange.agent.agent_id, exchange.acting_principal or ""):
            digest.update(sha256(whose.encode()).digest())
        if exchange.purchase is not None and exchange.purchase.intent is not None:
            # Another assertion is another purchase, even with the same body.
            digest.update(exchange.purchase.intent.key.encode("ascii"))
        try:
            reservation = await self._ledger.reserve(key, digest.digest()[:16])
        except LedgerUnavailable:
            raise store_down() from None
        if reservation.state is ReservationState.NEW:
            exchange.reservation = key
        elif reservation.state is ReservationState.DONE:
            exchange.replay = recall(reservation.result)
        else:
            raise self._refusal(reservation)

    @staticmethod
    def _refusal(reservation: Reservation) -> Refusal:
        if reservation.state is ReservationState.MISMATCH:
            return Refusal(Reason.IDEMPOTENCY_KEY_REUSED)
        if reservation.state is ReservationState.FULL:
            return Refusal(
                Reason.IDEMPOTENCY_QUOTA,
                f"{reservation.limit} {reservation.unit} of this agent's keyed requests are kept, which is the limit.",
                details={"scope": "idempotency", "unit": reservation.unit, "limit": reservation.limit},
                headers=(("Retry-After", str(reservation.retry_after)),),
            )
        if reservation.state is ReservationState.RUNNING:
            return Refusal(Reason.IDEMPOTENCY_IN_PROGRESS, headers=(("Retry-After", "1"),))
        return Refusal(Reason.IDEMPOTENCY_IN_DOUBT)


@implementer(IGate)
class StoreGate:
    """
    No record can be kept, no handler runs: 503 (security invariant 12).

    While space is all that is wanting, what is vital runs on; of agents only so much, for the space is not theirs.
    """

    name = "store"

    def __init__(self, ledger: ILedger, now: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._now = now
        self._vital = Allowances(VITAL_CALLS, 60.0)

    def check(self, exchange: Exchange) -> None:
        self._ledger.look()
        if self._ledger.healthy:
            return
        if not (self._ledger.low and exchange.binding is not None and exchange.binding.vital):
            raise store_down()
        if exchange.caller is not None and self._vital.take(exchange.owner, self._now()):
            raise store_down()


@implementer(IGate)
class LeasedStoreGate(StoreGate):
    """
    The same for a store that several hosts share: no handler runs either where another host may serve by now.

    :param is_fresh: returns whether this host's lease was confirmed recently enough.
    """

    def __init__(
        self, ledger: ILedger, is_fresh: Callable[[], bool], now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(ledger, now)
        self._is_fresh = is_fresh

    def check(self, exchange: Exchange) -> None:
        if not self._is_fresh():
            raise store_down()
        super().check(exchange)
