"""
TLS that takes a whole record as a whole record.

Twisted asks OpenSSL for octets until it has none left, and then for octets to send, which nearly always means two
exceptions for each request. A segment that is exactly one TLS record gives its octets in one step and leaves nothing
behind, so neither question is needed; a segment of several records gives what is in all of them in one step. An answer
that fits one record is one to send, without the steps of Twisted's that longer ones need. Everything else, the
handshake included, goes Twisted's way. Handshakes, and connections with very many records, wait for their turn:
:mod:`agtphost.protocols.pacing`.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from agtphost.protocols.openssl import MOST_CONTENT, Records, records_of
from agtphost.protocols.pacing import RECORDS, Pacing

HEADER = 5
"""Octets before a record's content: type, version, length (RFC 8446 section 5.1)."""

LITTLE, MUCH = 1 << 12, 1 << 16
"""
Octets that are read from the socket in one go: from a new connection or one that sends tiny records, and from one that
has shown that its records are large. So little waits in memory for its turn to be decrypted.
"""

SPARE = 512
"""Octets by which a record is longer than its content, and more: 22 with TLS 1.3 and no padding, some 60 with 1.2."""


class RecordwiseTLS(TLSMemoryBIOProtocol):
    """The TLS side of one accepted connection."""

    turns: Pacing | None = None
    """Of its reactor; None where handshakes need not wait for each other."""

    record_turns: Pacing | None = None
    """Of its reactor; None where records need not wait for those of other connections."""

    _kept: bytes | None = None
    """The octets that wait for their turn; nothing more is read until then."""

    _paused = False
    """Whether the protocol above asked for no more."""

    _records: Records | None = None
    """From the first whole record on."""

    _owed = 0
    """Octets of the record that the segments so far end in; 0 where they end with a record."""

    _header = b""
    """The part of a record's header that the segments so far end in; OpenSSL gets it together with the rest."""

    def makeConnection(self, transport: Any) -> None:
        """Begin on a connected socket."""
        transport.bufferSize = LITTLE
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def dataReceived(self, bytes: Any) -> None:
        """Take octets from the socket."""
        if self._kept is not None:
            self._kept += bytes
        elif not self._handshakeDone and self.turns is not None and not self.turns.take(self):
            self._keep(bytes)
        else:
            self._take_octets(bytes)

    def _keep(self, octets: bytes) -> None:
        """Let octets wait for :meth:`take_turn`."""
        self._kept = octets
        self._socket.pauseProducing()

    def pauseProducing(self) -> None:
        """The protocol above asks for no more."""
        self._paused = True
        self._socket.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume reading now or once what waits was decrypted."""
        self._paused = False
        if self._kept is None:
            self._socket.resumeProducing()

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
        """Go on with the handshake or with further records; see :class:`agtphost.protocols.pacing.TurnWaiter`."""
        octets, self._kept = self._kept, None
        if octets is not None:
            self._take_octets(octets)
            if self._kept is None and not self._paused:
                self._socket.resumeProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave the queues of turns and drop references, so that memory is free before garbage is next collected."""
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

    def _take_octets(self, octets: bytes) -> None:
        """Decrypt octets, a bounded number of records in one go."""
        rest = self._take_portion(octets)
        while rest and not self._lostTLSConnection and not self._aborted:
            if self.record_turns is not None and not self.record_turns.take(self):
                self._keep(rest)
                return
            rest = self._take_portion(rest)

    def _take_portion(self, octets: bytes) -> bytes:
        """Decrypt what comes first; return the rest, which begins with a record."""
        rest = b""
        whole = self._is_record(octets)
        if not whole:
            octets, rest = self._cut(octets)
        if rest:
            self._socket.bufferSize = LITTLE  # type: ignore[attr-defined]
        elif len(octets) >= LITTLE:
            self._socket.bufferSize = MUCH  # type: ignore[attr-defined]
        made = self._find_records()
        if not octets:
            # A part of a header is kept until the rest is there, and pyOpenSSL takes no empty write.
            pass
        elif made is None:
            super().dataReceived(octets)  # type: ignore[no-untyped-call]
        elif whole:
            content = made.content(octets)
            if content is None:
                # No application data: a key update, an alert, or octets that are not TLS. Twisted handles it.
                self._flushReceiveBIO()  # type: ignore[no-untyped-call]
            else:
                self.wrappedProtocol.dataReceived(content)
        else:
            contents = made.contents(octets)
            if contents:
                self.wrappedProtocol.dataReceived(contents)
            self._flushReceiveBIO()  # type: ignore[no-untyped-call]
        return rest

    def _find_records(self) -> Records | None:
        """Return OpenSSL's functions for this connection; None where Twisted's way is to be taken."""
        if not self._handshakeDone or self._appSendBuffer or self._lostTLSConnection or self._aborted:
            return None
        if self._records is None:
            self._records = records_of(self._tlsConnection)
        return self._records

    def _is_record(self, segment: bytes) -> bool:
        """Return whether a segment is exactly one record, with none begun before it."""
        size = len(segment)
        if self._owed or self._header or size < HEADER:
            return False
        return size == HEADER + (segment[3] << 8 | segment[4])

    def _cut(self, segment: bytes) -> tuple[bytes, bytes]:
        """
        Follow the record boundaries of a segment.

        :return: the octets for OpenSSL, of at most so many records as are decrypted in one go, and the rest.
        """
        segment, self._header = self._header + segment, b""
        at, size, seen = self._owed, len(segment), 0
        while at < size:
            if size - at < HEADER:
                self._owed, self._header = 0, segment[at:]
                return segment[:at], b""
            if seen == RECORDS:
                self._owed = 0
                return segment[:at], segment[at:]
            seen += 1
            at += HEADER + (segment[at + 3] << 8 | segment[at + 4])
        self._owed = at - size
        return segment, b""
