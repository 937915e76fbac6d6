"""A UDP port and clients of aioquic on a network in virtual time, which loses, doubles and reorders datagrams."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher

from agtphost.config.quic import QuicSection
from agtphost.protocols import AGTPServerFactory, ConnectionLimits, ServerTLS
from agtphost.protocols.pacing import handshakes_of
from agtphost.protocols.quic.datagrams import QuicEndpoint
from tests.protocols.authorities import Identity
from tests.protocols.links import FakeDispatcher, ask, at_once
from tests.protocols.loopback import Site, make_site

HOST = ("192.0.2.1", 4480)
SECRET = b"s" * 32


class Network:
    """
    Carries datagrams between the host and its clients.

    :param seed: of loss, doubling and delay.
    :param loss: part of the datagrams that are lost.
    :param doubled: part that arrives twice.
    :param corrupted: part of which one octet arrives as another.
    :param jitter: seconds that a datagram may be late in addition to the delay, so that later ones overtake it.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0,
        doubled: float = 0,
        corrupted: float = 0,
        jitter: float = 0,
        delay: float = 0.01,
    ) -> None:
        self.clock = Clock()
        self.random = random.Random(seed)
        self.loss, self.doubled, self.corrupted = loss, doubled, corrupted
        self.jitter, self.delay = jitter, delay
        self.silent_until = 0.0
        """The end of an outage, during which everything is lost."""

        self.receivers: dict[Any, Callable[[bytes, Any], None]] = {}
        self.carried: list[tuple[Any, Any, bytes]] = []

    def carry(self, octets: bytes, origin: Any, to: Any) -> None:
        """Deliver a datagram, unless it is lost."""
        self.carried.append((origin, to, octets))
        for _ in range(2 if self.random.random() < self.doubled else 1):
            if self.random.random() >= self.loss and self.clock.seconds() >= self.silent_until:
                if self.random.random() < self.corrupted:
                    place = self.random.randrange(len(octets))
                    octets = (
                        octets[:place] + bytes((octets[place] ^ self.random.randrange(1, 256),)) + octets[place + 1 :]
                    )
                late = self.delay + self.random.random() * self.jitter
                self.clock.callLater(late, self._deliver, octets, origin, to)

    def _deliver(self, octets: bytes, origin: Any, to: Any) -> None:
        receiver = self.receivers.get(to)
        if receiver is not None:
            receiver(octets, origin)

    def run(self, until: Callable[[], object], seconds: float = 60.0) -> None:
        """Let time pass, from one event to the next, until something holds."""
        end = self.clock.seconds() + seconds
        while not until():
            calls = self.clock.getDelayedCalls()
            assert calls, "nothing will happen any more"
            due = calls[0].getTime()  # Clock sorts them.
            assert due <= end, "it did not happen in time"
            self.clock.advance(max(0.0, due - self.clock.seconds()))

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass, event by event."""
        ends: list[None] = []
        self.clock.callLater(seconds, ends.append, None)
        self.run(lambda: ends, seconds + 1)


class QuicHost:
    """
    A host's UDP port on the network.

    :param tls: certificates that several hosts may share; None: those of the site, read anew.
    """

    def __init__(
        self,
        network: Network,
        site: Site,
        dispatcher: FakeDispatcher | None = None,
        limits: ConnectionLimits | None = None,
        secret: bytes = SECRET,
        tls: ServerTLS | None = None,
        **section: Any,
    ) -> None:
        self.network = network
        self.dispatcher = dispatcher or FakeDispatcher(at_once)
        self.tls = tls or ServerTLS.load(site.files)
        clock: Any = network.clock
        self.factory = AGTPServerFactory(self.dispatcher, limits or ConnectionLimits(), clock)
        handshakes_of.cache_clear()
        self.endpoint = QuicEndpoint(
            QuicSection(**section), self.tls, self.factory, clock, lambda: secret, clock.seconds
        )
        self.endpoint.transport = self  # type: ignore[assignment]
        network.receivers[HOST] = self.endpoint.datagramReceived

    def write(self, octets: bytes, address: Any) -> None:
        self.network.carry(octets, HOST, address)


class QuicClient:
    """A client of aioquic, which obeys the protocol unless a test reaches into it."""

    def __init__(
        self,
        network: Network,
        site: Site,
        identity: Identity | None = None,
        *,
        address: tuple[str, int] = ("198.51.100.7", 50_000),
        protocols: tuple[str, ...] = ("agtp",),
        name: str = "localhost",
        core: type[QuicConnection] = QuicConnection,
        **options: Any,
    ) -> None:
        self.network = network
        self.address = address
        given = {"supported_versions": [QuicProtocolVersion.VERSION_1], **options}
        configuration = QuicConfiguration(is_client=True, alpn_protocols=list(protocols), server_name=name, **given)
        configuration.load_verify_locations(cafile=str(site.folder / "root.pem"))
        if identity is not None:
            configuration.certificate = identity.certificate
            configuration.certificate_chain = list(identity.chain)
            configuration.private_key = identity.key
        self.core = core(configuration=configuration)
        self.is_connected = False
        self.closed: events.ConnectionTerminated | None = None
        self.answers: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: dict[int, int] = {}
        self.stopped: dict[int, int] = {}
        self._timer: Any = None
        network.receivers[address] = self._receive
        self.core.connect(HOST, now=network.clock.seconds())
        self.flush()

    def connect(self) -> QuicClient:
        """Wait for the end of the handshake, or of the connection."""
        self.network.run(lambda: self.is_connected or self.closed)
        return self

    def call(self, octets: bytes = ask(), *, ends: bool = True) -> int:
        """Send a request on a stream of its own and return the stream."""
        number = self.core.get_next_available_stream_id()
        self.core.send_stream_data(number, octets, end_stream=ends)
        self.flush()
        return number

    def wait(self, *numbers: int, seconds: float = 60.0) -> list[bytes]:
        """Return the answers of streams once they are complete."""
        self.network.run(lambda: self.ended >= {*numbers} or self.closed, seconds)
        return [self.answers.get(number, b"") for number in numbers]

    def close(self) -> None:
        self.core.close(0)
        self.flush()

    def rebind(self, address: tuple[str, int]) -> None:
        """Go on from another address, as behind a translator that forgot."""
        del self.network.receivers[self.address]
        self.address = address
        self.network.receivers[address] = self._receive

    def flush(self) -> None:
        now = self.network.clock.seconds()
        for octets, to in self.core.datagrams_to_send(now=now):
            self.network.carry(octets, self.address, to)
        due = self.core.get_timer()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if due is not None:
            self._timer = self.network.clock.callLater(max(0.001, due - now), self._act)

    def _act(self) -> None:
        self.core.handle_timer(now=self.network.clock.seconds())
        self._events()
        if self.closed is None:
            self.flush()

    def _receive(self, octets: bytes, origin: Any) -> None:
        self.core.receive_datagram(octets, origin, now=self.network.clock.seconds())
        self._events()
        self.flush()

    def _events(self) -> None:
        while (event := self.core.next_event()) is not None:
            match event:
                case events.HandshakeCompleted():
                    self.is_connected = True
                case events.ConnectionTerminated():
                    self.closed = event
                case events.StreamDataReceived():
                    self.answers[event.stream_id] = self.answers.get(event.stream_id, b"") + event.data
                    if event.end_stream:
                        self.ended.add(event.stream_id)
                case events.StreamReset():
                    self.reset[event.stream_id] = event.error_code
                    self.ended.add(event.stream_id)
                case events.StopSendingReceived():
                    self.stopped[event.stream_id] = event.error_code


def quic_site(folder: Path, client_auth: str = "optional", **options: Any) -> Site:
    """A site for hosts of these tests."""
    return make_site(folder, client_auth, **options)


@contextmanager
def logged_failures() -> Iterator[list[LogEvent]]:
    """Give a list of what is logged with a traceback."""
    seen: list[LogEvent] = []

    def note(event: LogEvent) -> None:
        if "log_failure" in event:
            seen.append(event)

    globalLogPublisher.addObserver(note)
    try:
        yield seen
    finally:
        globalLogPublisher.removeObserver(note)
