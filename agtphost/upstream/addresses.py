"""
Connect only to addresses that a policy admits (security section 2.4, T-SS).

A name is looked up first, every address of the answer is checked, and the connection goes to one that passed: not to
the name, which could have another address by then. TLS still verifies the certificate for the name.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IAddress, IHostnameResolver, IHostResolution, IResolutionReceiver
from twisted.internet.protocol import Factory
from twisted.web.iweb import IAgentEndpointFactory, IPolicyForHTTPS
from zope.interface import implementer

from agtphost.upstream.octet_limit import LimitedFactory
from agtphost.vocabulary.addresses import AddressPolicy, ForbiddenAddress

CONNECT_TIMEOUT = 5.0
"""Seconds until a connection attempt to an address fails."""

MAX_ADDRESSES = 4
"""Addresses of one answer that are tried."""


class UnknownName(Exception):
    """The error that the name of an upstream has no address."""


@implementer(IResolutionReceiver)
class _AddressCollector:
    """A receiver that collects the addresses of one look-up."""

    def __init__(self, done: Deferred[list[str]]) -> None:
        self._done = done
        self._found: list[str] = []

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        """Do nothing yet: the look-up has only begun."""

    def addressResolved(self, address: IAddress) -> None:
        """Take one address."""
        self._found.append(str(getattr(address, "host", "")))

    def resolutionComplete(self) -> None:
        """Deliver the addresses, since the look-up is complete."""
        if not self._done.called:
            self._done.callback(self._found)


def look_up(resolver: IHostnameResolver, name: str) -> Deferred[list[str]]:
    """Return every address of a name; an address is its own."""
    done: Deferred[list[str]] = Deferred()
    resolver.resolveHostName(_AddressCollector(done), name)
    return done


class PinnedEndpoint:
    """
    An endpoint that connects to one checked address of a name, with TLS for the name.

    :param host: a name, or an address without brackets.
    :param creator: makes the TLS connection.
    :param most: octets that may be received per request.
    """

    def __init__(
        self,
        reactor: Any,
        resolver: IHostnameResolver,
        policy: AddressPolicy,
        host: str,
        port: int,
        creator: Any,
        most: float,
    ) -> None:
        self._reactor = reactor
        self._resolver = resolver
        self._policy = policy
        self._host = host
        self._port = port
        self._creator = creator
        self._most = most

    def connect(self, factory: Factory) -> Deferred[Any]:
        """
        Look the name up, check its addresses, and connect.

        :return: fails with :exc:`ForbiddenAddress`, :exc:`UnknownName`, or the error of the last address.
        """
        return Deferred.fromCoroutine(self._connect(factory))

    async def _connect(self, factory: Factory) -> Any:
        addresses = await look_up(self._resolver, self._host)
        if not addresses:
            raise UnknownName("the name has no address")
        admitted = [address for address in dict.fromkeys(addresses) if self._policy.admits(address)]
        if not admitted:
            raise ForbiddenAddress("the name has only addresses that must not be connected to")
        error: Exception | None = None
        for address in admitted[:MAX_ADDRESSES]:
            try:
                connection = await self._endpoint_for(address).connect(LimitedFactory(factory, self._most))
            except CancelledError:
                raise
            except Exception as caught:
                error = caught
            else:
                return connection.wrappedProtocol
        assert error is not None
        raise error

    def _endpoint_for(self, address: str) -> Any:
        kind = TCP6ClientEndpoint if ":" in address else TCP4ClientEndpoint
        plain = kind(self._reactor, address, self._port, timeout=CONNECT_TIMEOUT)
        return wrapClientTLS(self._creator, plain)


@implementer(IAgentEndpointFactory)
class PinnedEndpoints:
    """
    A factory of endpoints for :class:`twisted.web.client.Agent`.

    :param tls: makes TLS connections that verify a name.
    :param most: see :class:`PinnedEndpoint`.
    """

    def __init__(
        self, reactor: Any, resolver: IHostnameResolver, policy: AddressPolicy, tls: IPolicyForHTTPS, most: float
    ) -> None:
        self._reactor = reactor
        self._resolver = resolver
        self._policy = policy
        self._tls = tls
        self._most = most

    def endpointForURI(self, uri: Any) -> PinnedEndpoint:
        """Return the endpoint for a URI."""
        if uri.scheme != b"https":
            raise ForbiddenAddress("only https is allowed")
        host = uri.host.decode("ascii").strip("[]")
        creator = self._tls.creatorForNetloc(uri.host.strip(b"[]"), uri.port)
        return PinnedEndpoint(self._reactor, self._resolver, self._policy, host, uri.port, creator, self._most)
