"""Makes AGTP of the connections that are admitted."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IAddress, IOpenSSLServerConnectionCreator, IReactorTime
from twisted.protocols.tls import TLSMemoryBIOFactory

from agtphost.iagtp import IDispatcher
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.limits import ConnectionLimits
from agtphost.protocols.listener_connections import AcceptingFactory
from agtphost.protocols.pacing import handshakes_of, records_of
from agtphost.protocols.records import RecordwiseTLS
from agtphost.wire import Connection, Limits, Role

_WIRE_LIMITS = Limits()


class AGTPServerFactory(AcceptingFactory):
    """
    Makes a :class:`ServerConnection` of every connection that is admitted.

    :param dispatcher: answers every request.
    :param limits: of connections.
    :param clock: whose seconds all deadlines are counted in.
    :param wire_limits: of messages.
    :param strict_request_line: see :class:`agtphost.wire.Connection`.
    """

    def __init__(
        self,
        dispatcher: IDispatcher,
        limits: ConnectionLimits,
        clock: IReactorTime,
        wire_limits: Limits = _WIRE_LIMITS,
        *,
        strict_request_line: bool = False,
    ) -> None:
        super().__init__(limits, clock)
        self.dispatcher = self._dispatcher = dispatcher
        self.wire_limits = self._wire_limits = wire_limits
        self.strict = self._strict = strict_request_line
        self._calls = 0

    @property
    def calls(self) -> int:
        """Requests in dispatch, those whose peer has gone included."""
        return self._calls

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a connection, or None for one that is closed without a word: see :class:`AcceptingFactory`."""
        address = self.admit_address(addr)
        if address is None:
            return None
        wire = Connection(Role.SERVER, self._wire_limits, strict_request_line=self._strict)
        return ServerConnection(self._dispatcher, self._limits, self._clock, wire, self, address)

    # Owner

    def call_started(self) -> None:
        """Count a call that begins; see :class:`agtphost.protocols.connection.Owner`."""
        self._calls += 1

    def call_ended(self) -> None:
        """Count a call that ended; see :class:`agtphost.protocols.connection.Owner`."""
        self._calls -= 1
        if self._drained is not None:
            self._note_end()


class SecureServerFactory(TLSMemoryBIOFactory):
    """
    Puts TLS under every connection that its factory admits.

    Unlike what it extends, it gathers no small writes: a connection writes once in
    a turn of the reactor anyway, and gathering would cost a timer for each answer.
    """

    def __init__(self, tls: IOpenSSLServerConnectionCreator, factory: AcceptingFactory, clock: IReactorTime) -> None:
        super().__init__(tls, False, factory, clock)
        self._turns = handshakes_of(clock)
        self._record_turns = records_of(clock)

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """
        Return the protocol of a connection; None where the factory does not admit it, so that no TLS state is made.
        """
        connection = self.wrappedFactory.buildProtocol(addr)
        if connection is None:
            return None
        tls = RecordwiseTLS(self, connection)  # type: ignore[no-untyped-call]
        tls.turns = self._turns
        tls.record_turns = self._record_turns
        return tls
