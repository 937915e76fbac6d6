"""The HTTP client of one MCP server: pooled connections, verified TLS, no redirects, no cookies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.ssl import Certificate, platformTrust, trustRootFromCertificates
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from agtphost.handlers.octet_limit import LimitedEndpoint

CONNECT_TIMEOUT = 5.0
"""Seconds until an address that does not answer counts as down."""

IDLE_CONNECTION = 60
"""Seconds an unused connection is kept."""

_END = "-----END CERTIFICATE-----"


def _authorities(path: str) -> Any:
    text = Path(path).read_text(encoding="ascii")
    blocks = [block + _END + "\n" for block in text.split(_END)[:-1]]
    if not blocks:
        raise ValueError(f"{path} has no certificate")
    certificates = [Certificate.loadPEM(block.encode("ascii")) for block in blocks]
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]


def http_agent(reactor: Any, ca: str | None, connections: int) -> tuple[Agent, HTTPConnectionPool]:
    """
    Make the client.

    :param ca: PEM file of the only authorities to trust; None means the platform's.
    :param connections: idle connections to keep.
    :raises OSError, ValueError: the file of authorities cannot be used.
    """
    trust = platformTrust() if ca is None else _authorities(ca)  # type: ignore[no-untyped-call]
    pool = HTTPConnectionPool(reactor, persistent=True)  # type: ignore[no-untyped-call]
    pool.maxPersistentPerHost = connections
    pool.cachedConnectionTimeout = IDLE_CONNECTION
    # A request may have had its effect when its connection was lost: never send one twice.
    pool.retryAutomatically = False
    policy = BrowserLikePolicyForHTTPS(trustRoot=trust)  # type: ignore[no-untyped-call]
    agent = Agent.usingEndpointFactory(reactor, _Endpoints(reactor, policy), pool)  # type: ignore[no-untyped-call]
    return agent, pool


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Where the client connects to."""

    def __init__(self, reactor: Any, policy: BrowserLikePolicyForHTTPS) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: Any) -> LimitedEndpoint:
        """The endpoint of a URI: TLS verifies its host, and heads are bounded; bodies are by whoever reads them."""
        host = uri.host.decode("ascii").strip("[]")
        endpoint: Any = HostnameEndpoint(self._reactor, host, uri.port, timeout=CONNECT_TIMEOUT)
        if uri.scheme == b"https":
            endpoint = wrapClientTLS(self._policy.creatorForNetloc(host.encode("ascii"), uri.port), endpoint)
        return LimitedEndpoint(endpoint)
