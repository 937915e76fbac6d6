"""The gate in front of the built-ins that read, where the operator has closed anonymous discovery."""

from __future__ import annotations

from collections.abc import Collection

from zope.interface import implementer

from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.iagtp import IGate
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.status import Status


@implementer(IGate)
class DiscoveryGate:
    """
    Built-ins that only read are for authenticated callers (AGTP-API section 8.7): in the order where the operator
    has closed anonymous discovery.

    Authenticated is an agent with its certificate, whom a front of this host admitted, an operator, and the
    registrar of the addressed agent; an Agent-ID that nothing proves counts where ``floor`` lets it.
    """

    name = "anonymous discovery"

    def __init__(self, floor: Assurance, operators: Collection[str]) -> None:
        self._proven = frozenset({Assurance.GATEWAY, Assurance.CERTIFICATE, floor}) - {Assurance.NONE}
        self._operators = frozenset(operators)

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None or binding.tier != "A" or binding.state_changing:
            return
        if exchange.assurance in self._proven or self._is_person(exchange):
            return
        anonymous = exchange.assurance is Assurance.NONE
        raise Refusal(
            Status.AUTHORIZATION_REQUIRED if anonymous else Status.UNAUTHORIZED,
            "anonymous-discovery-disabled",
            "This host answers discovery to callers only that it knows for certain.",
            remedy="Send Agent-ID, and present the agent's client certificate.",
            details={"assurance": exchange.assurance.label},
            scopes=(),
        )

    def _is_person(self, exchange: Exchange) -> bool:
        certificate, agent = exchange.peer.certificate, exchange.agent
        if certificate is None or certificate.agent_id is not None or not certificate.fingerprint:
            return False
        issuer = None if agent is None else agent.issuer_fingerprint
        return certificate.fingerprint in self._operators or certificate.fingerprint == issuer
