"""The dispatcher, its gates, and what negotiation answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from zope.interface import Attribute, Interface

from agtphost.contract.endpoint_table import Match
from agtphost.dispatch.call_view import CallView
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.identity.peer import Peer
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Request, Response


class IDispatcher(Interface):
    """
    The one way in and the one way out.

    Never raises: every outcome becomes a sealed response. Does not promise
    that the response differs from the one an identical request got before.
    """

    def dispatch(
        request: Request, peer: Peer, interim: Callable[[Response], None] | None = None
    ) -> Awaitable[Response]:
        """
        Answer one request.

        :param interim: takes sealed interim messages (status 202 with a
            Continuation-Token) in order, before the final response; None
            where the transport cannot carry them.
        :return: the sealed final response.
        """

    def refuse(reason: Reason, explanation: str, peer: Peer, line: bytes = b"") -> Awaitable[Response]:
        """Seal the one response to octets that never became a request; the connection closes after it."""

    def turn_away(request: Request, refusal: Refusal, peer: Peer) -> Awaitable[Response]:
        """
        Seal the refusal of a request that a front of this host turns away by its head: no gate sees it.

        :param request: its method and path, what it was read from, and whom it names.
        :return: the sealed response; 429 for an address that asks too much.
        """


class IGate(Interface):
    """An admission check. Small, ordered by data, with no effect but its verdict and what it proved."""

    name = Attribute("str: the gate's name in logs, explanations and the order test")

    def check(exchange: Exchange) -> Awaitable[None] | None:
        """
        Let the exchange pass, adding to it what was proven.

        :raises agtphost.errors.Refusal: to end it.
        :return: None, or an awaitable of None where the gate has to wait.
        """


Condition = Callable[[Exchange], bool]
"""Whether what a gate found of another request of the same kind holds of this one; without effect."""


class ICacheableGate(IGate):
    """A gate that can say for how long its verdict holds: see :mod:`agtphost.dispatch.gate_cache`."""

    def conditions(exchange: Exchange) -> Sequence[Condition] | None:
        """
        Return the conditions under which later requests of the same kind pass this gate unchecked.

        Such requests have the same peer and first line, and their fields differ in identifiers of single calls only
        (:data:`agtphost.wire.heads.PER_CALL`). Of gates after the body only the verdict is kept.

        :param exchange: as it passed this gate.
        :return: the conditions; empty if the verdict always holds; None if every request has to be checked. After None
            from a gate before the body, all gates check each request.
        """


class IOperatorGate(Interface):
    """
    A check of the operator's own. It can refuse a call, and admits nothing that another gate refuses.

    An extension point: ``[[gate]]``, see ``docs/extending/gate.rst``.
    """

    name = Attribute("str: the gate's name in logs and explanations, where ``operator:`` precedes it")

    def check(call: CallView) -> Awaitable[None] | None:
        """
        Let the call pass, or refuse it. This runs in the reactor's thread and must not block.

        :raises agtphost.errors.Refusal: to end the call.
        :return: None, or a Deferred or coroutine of None where the gate has to wait.
        """


class IContractResolver(Interface):
    """The part of negotiation that the gates ask about a request that a contract may answer (AGTP-API section 10.1)."""

    def find_presented(exchange: Exchange) -> Callable[[str, str], Match | None] | None:
        """
        Return what answers a request that presents a contract, by method and path.

        :return: None for a request that presents none.
        :raises agtphost.errors.Refusal: 404 or 464 (AGTP-API section 10.1.4).
        """

    def find_unregistered(exchange: Exchange, claims: Callable[[Exchange], None]) -> Match | None:
        """
        Return what answers a request for an unregistered endpoint: a contract of the caller's, or a new one.

        :param claims: computes the effective scopes, which no gate has done by then.
        :return: None: 404 or 405, as on a host without negotiation.
        :raises agtphost.errors.Refusal: where the caller opted in and a lock is closed (AGTP-API section 10.1.2).
        """
