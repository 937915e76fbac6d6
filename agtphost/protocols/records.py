"""
TLS that takes a whole record as a whole record.

Twisted asks OpenSSL for octets until it has none left, and then for octets to send, which nearly always means two
exceptions for each request. A segment that is exactly one TLS record gives its octets in one step and leaves nothing
behind, so neither question is needed; an answer that fits one record is one to send, without the steps of Twisted's
that longer ones need. Everything else, the handshake included, goes Twisted's way, when it is its turn:
:mod:`agtphost.protocols.pacing`.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from agtphost.protocols.openssl import Records, records_of
from agtphost.protocols.pacing import Pacing

HEADER = 5
"""Octets before a record's content: type, version, length (RFC 8446 section 5.1)."""

MOST_CONTENT = 1 << 14
"""Octets that one record takes (RFC 8446 section 5.1)."""

SPARE = 512
"""Octets by which a record is longer than its content, and more: 22 with TLS 1.3 and no padding, some 60 with 1.2."""


class RecordwiseTLS(TLSMemoryBIOProtocol):
    """The TLS side of one accepted connection."""

    turns: Pacing | None = None
    """Of its reactor; None where handshakes need not wait for each other."""

    _kept: bytes | None = None
    """The octets of a handshake that waits for its turn; nothing more is read until then."""

    _records: Records | None = None
    """From the first whole record on."""

    _owed = 0
    """Octets of the record that the segments so far end in; 0 where they end with a record."""

    _lost_track = False
    """Whether a record's header came in pieces; Twisted's way is taken from then on."""

    def dataReceived(self, bytes: Any) -> None:
        """Take octets from the socket."""
        if not self._handshakeDone and self.turns is not None:
            if self._kept is not None:
                self._kept += bytes
                return
            if not self.turns.take(self):
                self._kept = bytes
                self._socket.pauseProducing()
                return
        self._take_octets(bytes)

    def write(self, data: Any) -> None:
        """Octets of the protocol above."""
        made = self._records
        if (
            made is None
            or not 0 < len(data) <= MOST_CONTENT
            or self._appSendBuffer
            or self.disconnecting
            or self._lostTLSConnection
        ):
            super().write(data)  # type: ignore[no-untyped-call]
            return
        most = len(data) + SPARE
        record = made.record(data, most)
        if record is None:
            super().write(data)  # type: ignore[no-untyped-call]
            return
        self.transport.write(record)  # type: ignore[union-attr]
        if len(record) == most:
            # Something else was to be sent, and so there may be more.
            self._flushSendBIO()  # type: ignore[no-untyped-call]

    @property
    def _socket(self) -> IPushProducer:
        return cast(IPushProducer, self.transport)

    def take_turn(self) -> None:
        """Go on with the handshake; see :class:`agtphost.protocols.pacing.TurnWaiter`."""
        octets, self._kept = self._kept, None
        if octets is not None:
            self._socket.resumeProducing()
            self._take_octets(octets)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave the queue of turns and drop references, so that memory is free before garbage is next collected."""
        self._kept = self._records = None
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        # It refers to the channel above, which refers to this.
        self._producer = None

    def _tlsShutdownFinished(self, reason: Failure | None) -> None:
        """
        Break a reference cycle at the end of TLS.

        Twisted's failure is a variable of a frame that its traceback holds: a cycle, in which OpenSSL's part of each
        connection that was cut would stay until garbage is next collected: 75 KiB that no limit counts.
        """
        if reason is not None:
            reason.tb = None
            if reason.value is not None:
                reason.value.__traceback__ = None
        super()._tlsShutdownFinished(reason)  # type: ignore[no-untyped-call]

    def _take_octets(self, bytes: Any) -> None:
        whole = self._account(bytes)
        if not whole or not self._handshakeDone or self._appSendBuffer or self._lostTLSConnection or self._aborted:
            super().dataReceived(bytes)  # type: ignore[no-untyped-call]
            return
        made = self._records
        if made is None:
            made = self._records = records_of(self._tlsConnection)
            if made is None:
                super().dataReceived(bytes)  # type: ignore[no-untyped-call]
                return
        octets = made.content(bytes)
        if octets is None:
            # No application data: a key update, an alert, or octets that are not TLS. Twisted handles it.
            self._flushReceiveBIO()  # type: ignore[no-untyped-call]
        else:
            self.wrappedProtocol.dataReceived(octets)

    def _account(self, segment: bytes) -> bool:
        """Follow the record boundaries; whether ``segment`` is exactly one record, with none begun before it."""
        size = len(segment)
        if self._owed == 0 and not self._lost_track and size >= HEADER:
            length = HEADER + (segment[3] << 8 | segment[4])
            if length == size:
                return True
        self._follow(segment)
        return False

    def _follow(self, segment: bytes) -> None:
        at, size = self._owed, len(segment)
        while at < size and not self._lost_track:
            if size - at < HEADER:
                self._lost_track = True
                break
            at += HEADER + (segment[at + 3] << 8 | segment[at + 4])
        self._owed = at - size
