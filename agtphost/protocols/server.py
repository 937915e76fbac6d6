"""Accepts connections, counts them, and lets go of them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IOpenSSLServerConnectionCreator, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory

from agtphost.iagtp import IDispatcher
from agtphost.protocols.admission import Admission, canonical_address
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.limits import ConnectionLimits
from agtphost.protocols.records import RecordwiseTLS
from agtphost.wire import Connection, Limits, Role

log = Logger()

_WIRE_LIMITS = Limits()


class AGTPServerFactory(ServerFactory):
    """
    Makes a :class:`ServerConnection` of every connection that is admitted.

    :param dispatcher: answers every request.
    :param limits: of connections.
    :param clock: whose seconds all deadlines are counted in.
    :param wire_limits: of messages.
    :param strict_request_line: see :class:`agtphost.wire.Connection`.
    """

    noisy = False

    def __init__(
        self,
        dispatcher: IDispatcher,
        limits: ConnectionLimits,
        clock: IReactorTime,
        wire_limits: Limits = _WIRE_LIMITS,
        *,
        strict_request_line: bool = False,
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._clock = clock
        self._wire_limits = wire_limits
        self._strict = strict_request_line
        self._admission = Admission(limits)
        self._connections: set[ServerConnection] = set()
        self._calls = 0
        self._drained: Deferred[None] | None = None
        self._patient = True
        self.refused = 0
        """Connections closed at once, because a limit was reached or the host is stopping."""

    @property
    def connections(self) -> int:
        """Open connections, those that shake hands included."""
        return len(self._connections)

    @property
    def calls(self) -> int:
        """Requests in dispatch, those whose peer has gone included."""
        return self._calls

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection, or None for one that is closed without a word: see :class:`Admission`."""
        address = canonical_address(str(getattr(addr, "host", "") or "unix"))
        if self._drained is not None or not self._admission.admit(address, self._clock.seconds()):
            self.refused += 1
            return None
        wire = Connection(Role.SERVER, self._wire_limits, strict_request_line=self._strict)
        return ServerConnection(self._dispatcher, self._limits, self._clock, wire, self, address)

    def sweep(self) -> None:
        """Act on every deadline that is over. To be called every now and then, once a second or so."""
        now = self._clock.seconds()
        for connection in tuple(self._connections):
            try:
                connection.sweep(now)
            except Exception:
                # One connection's fault must not keep the others from their deadlines.
                log.failure("a connection failed at its deadline, and is cut")
                connection.cut()
        self._admission.prune(now)

    # Ending

    def drain(self) -> Deferred[None]:
        """
        Take no more connections, close those that wait for nothing, and the others after their answer.

        To be called once.

        :return: fires when no connection is left and no call is running.
        """
        self._drained = drained = Deferred[None]()
        for connection in tuple(self._connections):
            connection.drain()
        self._note_end()
        return drained

    def cut(self) -> None:
        """End every connection at once, and wait for no call any more."""
        self._patient = False
        for connection in tuple(self._connections):
            connection.cut()
        self._note_end()

    def _note_end(self) -> None:
        drained = self._drained
        ended = not self._connections and not (self._calls and self._patient)
        if drained is not None and ended and not drained.called:
            drained.callback(None)

    # Owner

    def opened(self, connection: ServerConnection) -> None:
        """See :class:`agtphost.protocols.connection.Owner`."""
        self._connections.add(connection)

    def authenticated(self, connection: ServerConnection) -> None:
        """See :class:`agtphost.protocols.connection.Owner`."""
        self._admission.vouch(connection.address)

    def closed(self, connection: ServerConnection) -> None:
        """See :class:`agtphost.protocols.connection.Owner`."""
        self._connections.discard(connection)
        self._admission.release(connection.address)
        self._note_end()

    def answering(self) -> None:
        """See :class:`agtphost.protocols.connection.Owner`."""
        self._calls += 1

    def answered(self) -> None:
        """See :class:`agtphost.protocols.connection.Owner`."""
        self._calls -= 1
        if self._drained is not None:
            self._note_end()


class SecureServerFactory(TLSMemoryBIOFactory):
    """
    Puts TLS under every connection that its factory admits.

    Unlike what it extends, it gathers no small writes: a connection writes once in
    a turn of the reactor anyway, and gathering would cost a timer for each answer.
    """

    def __init__(
        self, tls: IOpenSSLServerConnectionCreator, factory: AGTPServerFactory, clock: IReactorTime
    ) -> None:
        super().__init__(tls, False, factory, clock)

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """One connection; None where the factory does not admit it, so that no TLS state is made for it."""
        connection = self.wrappedFactory.buildProtocol(addr)
        if connection is None:
            return None
        return RecordwiseTLS(self, connection)  # type: ignore[no-untyped-call]
