"""The service that listens for QUIC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.config.quic import QuicSection
from agtphost.errors import ConfigurationError, Problem
from agtphost.protocols.listener import ListeningService, to_problem
from agtphost.protocols.quic.datagrams import QuicEndpoint
from agtphost.protocols.server import AGTPServerFactory
from agtphost.protocols.tls import ServerTLS
from agtphost.vocabulary.foreign_errors import explain
from agtphost.wire.quic.connection import find_fault

log = Logger()


class QuicListeningService(Service):
    """
    Listens for QUIC while it runs, once the TLS listener has its port.

    Connections are counted, swept, drained and cut by the factory of the TLS listener.

    :param listening: the TLS listener.
    :param address: an IP address of this machine.
    :param find_secret: returns that of the endpoint, once the service listens.
    :raises ConfigurationError: if the installed aioquic cannot be used, or the directory of traces cannot be made.
    """

    name = "quic"

    def __init__(
        self,
        section: QuicSection,
        tls: ServerTLS,
        factory: AGTPServerFactory,
        listening: ListeningService,
        reactor: Any,
        address: str,
        find_secret: Callable[[], bytes],
    ) -> None:
        if fault := find_fault():
            raise ConfigurationError([Problem(message=f"[quic] enabled: {fault}", hint="pip install 'agtphost[quic]'")])
        self._section = section
        self._listening = listening
        self._reactor = reactor
        self._address = address
        self._port: Any = None
        self._fault: Problem | None = None
        self._bound: list[Deferred[int]] = []
        try:
            self.endpoint = QuicEndpoint(section, tls, factory, reactor, find_secret)
        except OSError as error:
            why = f"[quic] qlog: {section.qlog} cannot be made: {explain(error)}"
            raise ConfigurationError([Problem(message=why, hint="name a directory that this user may make")]) from error
        listening.companions.append(self)

    @property
    def port(self) -> int | None:
        """The UDP port; None while the service does not listen."""
        return None if self._port is None else int(self._port.getHost().port)

    def when_listening(self) -> Deferred[int]:
        """Wait for the UDP port."""
        waiting: Deferred[int] = Deferred()
        if self.port is not None:
            waiting.callback(self.port)
        else:
            self._bound.append(waiting)
        return waiting

    def startService(self) -> None:
        """
        Listen as soon as the TLS listener does: the port may be the one that it gets.

        :raises ConfigurationError: if the TLS listener has its port, and the UDP port cannot be bound.
        """
        super().startService()  # type: ignore[no-untyped-call]
        self._listening.when_listening().addCallbacks(self._listen, lambda failure: None)
        if self._fault is not None:
            raise ConfigurationError([self._fault])

    def _listen(self, tcp: Any) -> None:
        if not self.running:
            return
        port = self._section.port or int(getattr(tcp, "port", 0))
        try:
            self._port = self._reactor.listenUDP(port, self.endpoint, interface=self._address)
        except CannotListenError:
            failure = Failure()  # type: ignore[no-untyped-call]
            problem = to_problem(failure)
            self._fault = Problem(
                message=problem.message.replace("cannot listen", f"cannot listen for QUIC at UDP port {port}", 1),
                hint="stop what listens there, or choose another [quic] port",
                original=problem.original,
            )
            log.critical("{why}", why=str(self._fault))
            for waiting in self._bound:
                waiting.errback(failure)
        else:
            for waiting in self._bound:
                waiting.callback(self._port.getHost().port)
        self._bound.clear()

    def stopService(self) -> Deferred[None]:
        """
        Stop with the TLS listener, which waits for the answers that are owed: see :meth:`close`.

        :return: fires immediately while that listener runs or stops, so that both stop at the same time.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        self.drain()
        return succeed(None) if self._listening.running or self._listening.is_stopping else self.close()

    # agtphost.protocols.listener.Companion

    def drain(self) -> None:
        """Take no more connections, and end those that there are after the answers that they are owed."""
        self.endpoint.drain()

    def close(self) -> Deferred[None]:
        """Close the port, and cut the connections that are left, such as those that shake hands."""
        self.endpoint.cut()
        port, self._port = self._port, None
        return maybeDeferred(port.stopListening) if port is not None else succeed(None)
