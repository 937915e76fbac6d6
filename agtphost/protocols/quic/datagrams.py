"""The UDP port: which datagram belongs to which connection, and what those get that belong to none."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Any

from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    pull_quic_header,
)
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from agtphost.config.quic import QuicSection
from agtphost.protocols.admission import canonical_address
from agtphost.protocols.connection import ServerConnection
from agtphost.protocols.limits import READ_AHEAD
from agtphost.protocols.own_certificates import OwnCertificates
from agtphost.protocols.pacing import handshakes_of
from agtphost.protocols.quic.answer_budget import AnswerBudget
from agtphost.protocols.quic.core import ServerCore, configuration_of, encode_refusal, reset_token
from agtphost.protocols.quic.counts import QuicCounts
from agtphost.protocols.quic.link import QuicLink
from agtphost.protocols.quic.link_settings import LinkSettings
from agtphost.protocols.quic.qlog import QlogDirectory
from agtphost.protocols.quic.retry_tokens import RetryTokens, StaleToken
from agtphost.protocols.quic.turns import PortTurns
from agtphost.protocols.quic.version_negotiation import (
    LEAST_INITIAL,
    encode_answer,
    names_other_version,
    read_connection_ids,
)
from agtphost.protocols.server import AGTPServerFactory
from agtphost.protocols.tls import ServerTLS
from agtphost.vocabulary.quic_codes import SHUTTING_DOWN
from agtphost.wire.quic.connection import CONNECTION_ID, MOST_DATAGRAM

LEAST_RESET, MOST_RESET = 21, 42
"""
Octets of a stateless reset, which is always shorter than what it answers (RFC 9000 section 10.3.3). A client that waits
for an answer sends nothing but PINGs, in packets of 28 octets.
"""

RESETS_PER_SECOND, REFUSALS_PER_SECOND = 1_000, 100
"""
Stateless resets of a port, which take 4 us more than to drop the packet, and refusals of tokens, and of clients of a
host that stops, which take 90 us: twice as long as a Retry.
"""

MOST_WAITING = 256
"""Clients that wait for their turn to be shaken hands with."""

MOST_OF_HELLO = 4
"""Datagrams of one of them: a ClientHello with a key of ML-KEM has two."""

_RECEIVE_BUFFER = 2_097_152

log = Logger()


class _Arrival:
    """First datagrams of a client that wait for their turn: :class:`agtphost.protocols.pacing.TurnWaiter`."""

    __slots__ = ("_addr", "_datagrams", "take_turn")

    def __init__(self, take_turn: Callable[[], None], datagram: bytes, addr: tuple[str, int]) -> None:
        self.take_turn = take_turn
        self._datagrams, self._addr = [datagram], addr

    @property
    def further(self) -> list[bytes]:
        """The datagrams after the first one."""
        return self._datagrams[1:]

    def add(self, datagram: bytes, addr: tuple[str, int]) -> bool:
        """Let a further part of a ClientHello wait; False if it is none, or there are too many."""
        if addr != self._addr or datagram in self._datagrams or len(self._datagrams) >= MOST_OF_HELLO:
            return False
        self._datagrams.append(datagram)
        return True


def _header_of(datagram: bytes) -> QuicHeader:
    """Return the header of a datagram's first packet; raise ValueError where it is none."""
    return pull_quic_header(Buffer(data=datagram), host_cid_length=CONNECTION_ID)


class QuicEndpoint(DatagramProtocol):
    """
    The UDP port of a listener. Its connections are those of the TLS listener's factory, with one count for both.

    :param find_secret: returns :attr:`secret`, the same after a restart, once the port is open.
    :param wall: the system's time, which processes share that take each other's proofs; ``clock`` counts from a start.
    :raises OSError: the directory of traces cannot be made.
    """

    noisy = False

    def __init__(
        self,
        section: QuicSection,
        tls: ServerTLS,
        factory: AGTPServerFactory,
        clock: Any,
        find_secret: Callable[[], bytes],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._section = section
        self._tls = tls
        self._factory = factory
        self._clock = clock
        self._find_secret = find_secret
        self._wall = wall
        self._traces = QlogDirectory(section.qlog) if section.qlog is not None else None
        self._handshakes = handshakes_of(clock)
        self._waiting: dict[bytes, _Arrival] = {}
        self._by_id: dict[bytes, QuicLink] = {}
        self._links: dict[QuicLink, set[bytes]] = {}
        self._half_open: set[QuicLink] = set()
        self._failed: deque[float] = deque()  # until when handshakes that have ended count as open
        self._resets, self._refusals = AnswerBudget(RESETS_PER_SECOND), AnswerBudget(REFUSALS_PER_SECOND)
        self._turns = PortTurns(clock, self._limit_turn)
        self.counts = QuicCounts()
        self.is_ending = False
        wire = factory.wire_limits
        self._settings = LinkSettings(
            dispatcher=factory.dispatcher,
            limits=factory.limits,
            wire_limits=wire,
            clock=clock,
            owner=self,
            window=wire.header_line + wire.header_block + READ_AHEAD,
            strict_request_line=factory.strict,
        )

    @cached_property
    def secret(self) -> bytes:
        """The secret of stateless resets and of proofs of addresses."""
        return self._find_secret()

    @cached_property
    def _tokens(self) -> RetryTokens:
        return RetryTokens(self.secret)

    @property
    def links(self) -> int:
        """Connections, those that shake hands included."""
        return len(self._links)

    @property
    def streams(self) -> int:
        """Requests that are not over."""
        return sum(each.streams for each in self._links)

    def count_admitted(self) -> int:
        """Return how many connections are counted for their addresses, with those of TLS."""
        return sum(each.is_admitted for each in self._links)

    @property
    def packets_lost(self) -> int:
        """Packets to clients that were lost since the port was opened."""
        return self.counts.lost + sum(each.core.packets_lost for each in self._links)

    @property
    def connection_ids(self) -> int:
        """Connection IDs that datagrams are known by."""
        return len(self._by_id)

    # DatagramProtocol

    def startProtocol(self) -> None:
        """Ask the system for room for a burst of datagrams."""
        link = getattr(self.transport, "socket", None)
        if link is not None:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        """Take a datagram; its connection has it in a later turn of the reactor if this one had its time."""
        self._turns.note_datagram()
        self._take(datagram, addr)
        self._turns.limit_reading()

    def _limit_turn(self, octets: int) -> None:
        """Let Twisted's port read datagrams of so many octets in a turn: it looks before each one."""
        transport: Any = self.transport
        if transport is not None:
            transport.maxThroughput = octets

    def _take(self, datagram: bytes, addr: Any) -> None:
        """Hand a datagram to its connection; drop or answer one that has none."""
        if len(datagram) > MOST_DATAGRAM:
            self._drop("long")
            return
        if names_other_version(datagram):
            self._negotiate(datagram, addr)
            return
        try:
            header = _header_of(datagram)
        except ValueError:
            self._drop("malformed")
            return
        link = self._by_id.get(header.destination_cid)
        if link is not None:
            if not self._turns.hand_over(link, datagram, (addr[0], addr[1])):
                self._drop("queue")
        elif header.version is None:
            self._reset(header.destination_cid, datagram, addr)
        elif header.packet_type is QuicPacketType.HANDSHAKE:
            # The client may take the handshake for complete, and waits for an answer: its last flight came too late.
            self._reset(header.destination_cid, datagram, addr)
        elif header.packet_type is not QuicPacketType.INITIAL or len(datagram) < LEAST_INITIAL:
            self._drop("unknown")
        elif not 8 <= len(header.destination_cid) <= 20:
            self._drop("malformed")
        elif self.is_ending:
            self._turn_away(header, addr)
        else:
            self._arrive(header, datagram, (addr[0], addr[1]))

    def _drop(self, why: str) -> None:
        """Count a datagram that is not answered."""
        self.counts.dropped[why] += 1

    def _negotiate(self, datagram: bytes, addr: Any) -> None:
        """Say which version is spoken, unless the datagram is of a connection, too short, or such an answer."""
        answer = encode_answer(datagram)
        if answer is None or read_connection_ids(datagram)[0] in self._by_id:
            self._drop("version")
        else:
            self.transmit(answer, addr)

    def _reset(self, connection_id: bytes, datagram: bytes, addr: Any) -> None:
        """Tell a peer that its connection is not known, with a shorter datagram, while the budget of resets allows."""
        size = min(len(datagram) - 1, MOST_RESET)
        if size < LEAST_RESET or not self._resets.spend(addr[0], self._clock.seconds()):
            self._drop("unknown")
            return
        self.counts.resets += 1
        noise = os.urandom(size - 16)
        self.transmit(bytes((noise[0] & 0x3F | 0x40,)) + noise[1:] + reset_token(self.secret, connection_id), addr)

    # New connections

    @property
    def half_open(self) -> int:
        """Connections whose client is not known yet."""
        return len(self._waiting) + len(self._half_open)

    def _arrive(self, header: QuicHeader, datagram: bytes, addr: tuple[str, int]) -> None:
        chosen, address = header.destination_cid, canonical_address(addr[0])
        if (waiting := self._waiting.get(chosen)) is not None:
            if not waiting.add(datagram, addr):
                self._drop("waiting")
            return
        try:
            proven = self._tokens.find_original(header, addr, self._wall())
        except StaleToken:
            self.counts.handshakes["late"] += 1
            if self._refusals.spend(addr[0], self._clock.seconds()):
                self._refuse(header, addr, QuicErrorCode.INVALID_TOKEN)
            return
        if proven is None and (self._section.retry == "always" or self._is_pressed(address)):
            self._retry(header, addr)
            return
        original, retried = (chosen, None) if proven is None else (proven, chosen)
        if len(self._waiting) >= MOST_WAITING:
            self._drop("waiting")
            return

        def begin() -> None:
            del self._waiting[chosen]
            self._begin(chosen, original, retried, datagram, addr)
            for each in arrival.further:
                if chosen in self._by_id:
                    self._take(each, addr)

        arrival = self._waiting[chosen] = _Arrival(begin, datagram, addr)
        if self._handshakes.take(arrival):
            begin()

    def _is_pressed(self, address: str) -> bool:
        """
        Return whether a client has to show that it receives at an address.

        That is so once many handshakes were begun without, or where the address has used up its share.
        """
        now = self._clock.seconds()
        while self._failed and self._failed[0] <= now:
            self._failed.popleft()
        begun = self.half_open + len(self._failed)
        return begun >= self._section.half_open or not self._factory.may_admit(address)

    def _retry(self, header: QuicHeader, addr: tuple[str, int]) -> None:
        chosen = os.urandom(CONNECTION_ID)
        token = self._tokens.issue(header, addr, chosen, self._wall())
        self.counts.retries += 1
        assert header.version is not None
        answer = encode_quic_retry(
            version=header.version,
            source_cid=chosen,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )
        self.transmit(answer, addr)

    def _begin(
        self, chosen: bytes, original: bytes, retried: bytes | None, datagram: bytes, addr: tuple[str, int]
    ) -> None:
        """Create the connection and process its first datagram, unless its client may have none."""
        tls = self._tls
        if self.is_ending:
            self._turn_away(_header_of(datagram), addr)
            return
        if tls.own is None:
            return
        address = canonical_address(addr[0])
        if retried is not None and not self._factory.admit(address):
            # The client has shown where it is, so its share is its own.
            self.counts.handshakes["limit"] += 1
            if self._factory.is_full(address):  # Else its next datagram may be soon enough.
                self._refuse(_header_of(datagram), addr, QuicErrorCode.CONNECTION_REFUSED)
            return
        try:
            link = self._make_link(tls.own, address, original, retried)
        except Exception:
            # Other clients may wait in the same round of handshakes.
            log.failure("a QUIC connection could not be made")
            self.counts.handshakes["broken"] += 1
            if retried is not None:
                self._factory.release(address)
            return
        self._links[link] = set()
        if retried is not None:
            self._note_admission(link)
        self._half_open.add(link)
        self.use(link, chosen)
        self.use(link, link.core.host_cid)
        link.receive(datagram, addr)

    def _make_link(self, own: OwnCertificates, address: str, original: bytes, retried: bytes | None) -> QuicLink:
        """Return a new connection."""
        tls = self._tls
        asks = tls.files.client_auth != "none"
        configuration = configuration_of(
            own,
            window=self._settings.window,
            idle=self._settings.limits.idle_timeout,
            datagram_size=self._section.datagram_size,
            traces=self._traces,
        )
        core = ServerCore(
            configuration,
            own,
            asks_certificate=asks,
            streams=self._section.streams,
            secret=self.secret,
            original=original,
            retried=retried,
        )
        return QuicLink(
            self._settings,
            core,
            address,
            verifier=tls.chains if asks else None,
            needs_certificate=tls.files.client_auth == "required",
        )

    def _turn_away(self, header: QuicHeader, addr: tuple[str, int]) -> None:
        """Tell a client that the host shuts down, while the budget of refusals allows."""
        if not self._refusals.spend(addr[0], self._clock.seconds()):
            self._drop("ending")
            return
        self.counts.handshakes["ending"] += 1
        self._refuse(header, addr, QuicErrorCode.CONNECTION_REFUSED, SHUTTING_DOWN)

    def _refuse(self, header: QuicHeader, addr: tuple[str, int], code: QuicErrorCode, reason: str = "") -> None:
        """Tell a client that it gets no connection, with a datagram that is shorter than its own."""
        self.transmit(encode_refusal(header.destination_cid, header.source_cid, code, reason), addr)

    # agtphost.protocols.quic.link_settings.LinkOwner

    def admit(self, link: QuicLink, address: str) -> bool:
        """Count a connection for an address; see :class:`agtphost.protocols.quic.link_settings.LinkOwner`."""
        if not self._factory.admit(address):
            return False
        self._note_admission(link)
        return True

    def _note_admission(self, link: QuicLink) -> None:
        link.is_admitted = True
        self._factory.connection_opened(link)

    def move(self, link: QuicLink, address: str) -> bool:
        """Count a connection for another address."""
        self.counts.moves += 1
        return self._factory.move(link, address)

    def vouch(self, link: QuicLink) -> None:
        """Note that the client has shown a verified certificate."""
        self._factory.connection_authenticated(link)

    def establish(self, link: QuicLink) -> None:
        """Count a connection no more among those that shake hands."""
        self._half_open.discard(link)

    def transmit(self, octets: bytes, address: tuple[str, int]) -> None:
        """Send a datagram; one that the system does not take is lost, as any can be."""
        if self.transport is not None:
            try:
                self.transport.write(octets, address)
            except OSError:
                self.counts.dropped["unsent"] += 1

    def wake(self, link: QuicLink) -> None:
        """Let a connection send what it has, in one go with what others have."""
        self._turns.wake(link)

    def use(self, link: QuicLink, connection_id: bytes) -> None:
        """Hand the datagrams for a connection ID to the connection."""
        if link in self._links:
            self._by_id[connection_id] = link
            self._links[link].add(connection_id)

    def drop(self, connection_id: bytes) -> None:
        """Hand no more datagrams for a connection ID to anybody."""
        link = self._by_id.pop(connection_id, None)
        if link is not None and link in self._links:
            self._links[link].discard(connection_id)

    def forget(self, link: QuicLink, outcome: str) -> None:
        """Drop a connection that is over, and its IDs."""
        self._turns.discard(link)
        for each in self._links.pop(link, ()):
            self._by_id.pop(each, None)
        if link in self._half_open:
            self._half_open.discard(link)
            if not link.is_admitted:  # Else it is counted for its address.
                self._failed.append(link.handshake_until)
        self.counts.handshakes[outcome] += 1
        self.counts.lost += link.core.packets_lost
        link.core.end_trace()
        self._clock.callLater(0, link.core.release)  # This turn may still ask the core.
        if link.is_admitted:
            self._factory.connection_closed(link)

    def lagging(self, connection: ServerConnection) -> None:
        """Note that much of an answer waits for its peer."""
        self._factory.lagging(connection)

    def call_started(self) -> None:
        """Count a call that begins."""
        self._factory.call_started()

    def call_ended(self) -> None:
        """Count a call that ended."""
        self._factory.call_ended()

    # Ending

    def drain(self) -> None:
        """Take no more connections; those that there are end after the answers that they are owed."""
        self.is_ending = True
        for link in tuple(self._links):
            link.drain()

    def cut(self) -> None:
        """End every connection immediately."""
        for link in tuple(self._links):
            link.cut()
