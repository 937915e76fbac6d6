"""Listen for AGTP connections, and log the line that says the host is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from agtphost.adapters.mcp.server import McpServer
from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.host.newest_key import find_reset_secret
from agtphost.host.transports import OfferedTransports
from agtphost.http.http_service import HTTP_LIMITS
from agtphost.iagtp import IDispatcher
from agtphost.protocols import (
    AGTPServerFactory,
    ConnectionLimits,
    ListeningService,
    ServerTLS,
    server_endpoint,
)
from agtphost.protocols.listener import to_problem
from agtphost.upstream.supervision import UpstreamState
from agtphost.upstream.web_upstream import WebUpstream
from agtphost.wire import Limits

if TYPE_CHECKING:
    from agtphost.host.host_loader import LoadedHost
    from agtphost.protocols.quic.listener import QuicListeningService

log = Logger()

Summary = Callable[[], Mapping[str, object]]
"""Returns the counts of the ready line, when it is written."""


def listening_service(reactor: Any, config: Config, tls: ServerTLS, dispatcher: IDispatcher) -> ListeningService:
    """
    Return the service that listens for AGTP connections.

    :raises agtphost.errors.ConfigurationError: an endpoint description cannot be parsed.
    """
    given = config.limits
    wire_limits = Limits(**{field.name: getattr(given, field.name) for field in fields(Limits)})
    factory = AGTPServerFactory(
        dispatcher, given, reactor, wire_limits, strict_request_line=config.wire.strict_request_line
    )
    endpoint = server_endpoint(
        reactor,
        address=config.listen.address,
        port=config.listen.port,
        description=config.listen.endpoint or "",
    )
    return ListeningService(endpoint, tls, factory, reactor, given.drain_timeout)


def quic_service(
    reactor: Any, loaded: LoadedHost, held: StateTable, listening: ListeningService, offered: OfferedTransports
) -> QuicListeningService | None:
    """
    Return the service that listens for QUIC, if ``[quic]`` is enabled; its connections count with those of TLS.

    :param held: has the secret of stateless resets from before the newest signing key.
    :param offered: takes the ports once both are bound.
    :raises agtphost.errors.ConfigurationError: aioquic is another than this host knows.
    """
    config = loaded.config
    if not config.quic.enabled:
        return None
    from agtphost.protocols.quic.listener import QuicListeningService

    assert loaded.key is not None, "a host that listens has a key"
    find_secret = partial(find_reset_secret, held, loaded.key, config.host.server_id)
    factory = listening.factory
    assert isinstance(factory, AGTPServerFactory)
    service = QuicListeningService(
        config.quic, loaded.tls, factory, listening, reactor, config.listen.address, find_secret
    )
    # A port that cannot be bound is logged by the service, and stated nowhere.
    ports: list[Deferred[Any]] = [listening.when_listening(), service.when_listening()]
    bound = gatherResults(ports, consumeErrors=True)
    bound.addCallbacks(lambda found: offered.offer(int(getattr(found[0], "port", 0)), found[1]), lambda failure: None)
    return service


def http_limits(config: Config) -> ConnectionLimits:
    """Return ``[limits]`` for an HTTP listener, which gets fewer and shorter connections."""
    lower = ("connections", "requests_per_connection", "idle_timeout")
    return config.limits.model_copy(
        update={name: min(getattr(config.limits, name), getattr(HTTP_LIMITS, name)) for name in lower}
    )


START_TIMEOUT = 10.0
"""Seconds for which slow upstreams can delay the ready line; the port accepts in the meantime."""

QUIET_SECONDS = 1.0
"""Seconds of delay after which the log names what the line waits for."""

READY = (
    "agtphost ready: agtp://{host}:{port}{quic} "
    "(server {server_id}, {agents} agents, {endpoints} endpoints, {tools} tools)"
)
"""The ready line; ``quic`` says whether QUIC listens too."""

NOT_READY = READY.replace("ready:", "serves, and is not ready:") + ": {why}"
"""Logged instead if the store accepts only vital records; the ready line follows once it accepts all."""

LOOK_EVERY = 1.0
"""Seconds between two checks whether it does."""

AVAILABLE = frozenset({UpstreamState.UP, UpstreamState.IDLE})
"""States in which an upstream takes calls."""


class Announcement(Service):
    """
    A service that logs that the host is ready (interface section 1).

    The host is ready when the port accepts and the first start of every eager upstream has succeeded or failed. The
    port accepts before that; calls of an upstream that is not up are answered 503.

    :param servers: waited for with a time limit: one bad upstream must not keep the others from being used.
    :param summary: returns the counts of the ready line.
    :param ready: called with a line when the port accepts and the wait is over.
    :param hindered: returns why the host serves but is not ready; empty if it is ready.
    :param udp_port: returns the port of QUIC; None if nothing listens for it.
    """

    name = "announcement"

    def __init__(
        self,
        reactor: Any,
        listening: ListeningService,
        servers: Sequence[McpServer | WebUpstream],
        summary: Summary,
        ready: Callable[[str], object] = lambda line: None,
        hindered: Callable[[], str] = lambda: "",
        udp_port: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._ready = ready
        self._udp_port = udp_port
        self._hindered = hindered
        self._reactor = reactor
        self._listening = listening
        self._servers = servers
        self._summary = summary
        self._address: IAddress | None = None
        self._since = 0.0
        self._starting: list[McpServer | WebUpstream] = list(servers)
        self._waiting_logged = False

    def startService(self) -> None:
        """Wait for the port, then for the servers."""
        super().startService()  # type: ignore[no-untyped-call]
        self._listening.when_listening().addCallbacks(self._wait_for_servers, self._log_failure)

    def _wait_for_servers(self, address: IAddress) -> None:
        self._address = address
        self._since = self._reactor.seconds()
        self._reactor.callWhenRunning(self._check_servers)

    def _check_servers(self) -> None:
        # A server that failed once is not waited for again: its next attempts may fail for days.
        self._starting = [server for server in self._starting if server.state is UpstreamState.STARTING]
        if not self.running:
            return
        waited = self._reactor.seconds() - self._since
        if not self._starting or waited >= START_TIMEOUT:
            self._announce()
            return
        if waited >= QUIET_SECONDS and not self._waiting_logged:
            self._waiting_logged = True
            log.info(
                "the port accepts; still starting, for {left:.0f} s at most: {names}",
                left=START_TIMEOUT - waited,
                names=_names(self._starting),
            )
        self._reactor.callLater(0.05, self._check_servers)

    def _announce(self) -> None:
        why = self._hindered()
        self._log_state(NOT_READY if why else READY, why)
        self._ready(f"serving at agtp://{self._host}:{self._port}{self._quic}")
        down = [server for server in self._servers if server.state not in AVAILABLE]
        if down:
            log.warn("not up yet: {names} (agtp upstreams ls says why)", names=_names(down))
        if why:
            self._reactor.callLater(LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        if not self.running:
            return
        if self._hindered():
            self._reactor.callLater(LOOK_EVERY, self._look_again)
        else:
            self._log_state(READY)

    @property
    def _host(self) -> str:
        host = getattr(self._address, "host", "")
        return f"[{host}]" if ":" in host else host

    @property
    def _port(self) -> int:
        return int(getattr(self._address, "port", 0))

    @property
    def _quic(self) -> str:
        port = self._udp_port()
        if port is None:
            return ""
        return ", quic" if port == self._port else f", quic at UDP port {port}"

    def _log_state(self, line: str, why: str = "") -> None:
        report = log.error if why else log.info
        report(line, host=self._host, port=self._port, quic=self._quic, why=why, **self._summary())

    def _log_failure(self, failure: Any) -> None:
        problem = to_problem(failure)
        log.critical("{why}; original: {original}", why=str(problem), original=problem.original)


def _names(servers: Sequence[McpServer | WebUpstream]) -> str:
    return ", ".join(str(server.name) for server in servers)
