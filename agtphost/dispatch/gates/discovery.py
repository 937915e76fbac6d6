"""The gate in front of the built-ins that read, where the operator has closed anonymous discovery."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.dispatch import cures
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization, is_registrar
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status


@implementer(ICacheableGate)
class DiscoveryGate:
    """
    Built-ins that only read are for authenticated callers (AGTP-API section 8.7): in the order where the operator
    has closed anonymous discovery.

    Authenticated is an agent with its certificate, whom a front of this host admitted, an operator, and the
    registrar of the addressed agent; an Agent-ID that nothing proves counts where ``floor`` lets it.
    """

    name = "anonymous discovery"

    def __init__(self, floor: Assurance, authorization: Authorization) -> None:
        self._least = min(max(floor, Assurance.HEADER), Assurance.GATEWAY)
        self._authorization = authorization

    def check(self, exchange: Exchange) -> None:
        if not self._is_own_read(exchange.binding):
            return
        if (
            exchange.assurance >= self._least
            or self._authorization.is_operator(exchange.peer)
            or is_registrar(exchange.peer, exchange.agent)
        ):
            return
        anonymous = exchange.assurance is Assurance.NONE
        refusal = Refusal(
            Reason.ANONYMOUS_DISCOVERY_DISABLED,
            status=Status.AUTHORIZATION_REQUIRED if anonymous else Status.UNAUTHORIZED,
            details={"assurance": exchange.assurance.label},
            scopes=(),
        )
        if anonymous and exchange.peer.certificate is None:
            cures.add(refusal, "Call as an agent; an operator issues one", cures.issue(()))
        elif exchange.agent_id is not None:
            cures.add(refusal, "Connect with the agent's client certificate", cures.certify(exchange.agent_id))
        raise refusal

    @staticmethod
    def _is_own_read(binding: Binding | None) -> bool:
        """Return whether a binding is one of the host's own that only read."""
        return binding is not None and binding.tier == "A" and not binding.state_changing

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a caller with enough assurance, and of a binding that is not a reading built-in."""
        return () if exchange.assurance >= self._least or not self._is_own_read(exchange.binding) else None
