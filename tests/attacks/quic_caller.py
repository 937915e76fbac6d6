"""A client of QUIC with a socket and an address of its own, which does what a test or an attack wants."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aioquic import tls
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion

from tests.system.raw_link import Reachable


class QuicCaller:
    """
    A client with a socket of its own.

    :param source: its address.
    :param agent: whose certificate it shows; None: none.
    """

    def __init__(self, target: Reachable, source: str, *, agent: str | None = "demo") -> None:
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=["agtp"],
            server_name="localhost",
            supported_versions=[QuicProtocolVersion.VERSION_1],
        )
        configuration.load_verify_locations(cafile=str(target.state / "ca.pem"))
        if agent is not None:
            own = target.state / "agents" / agent
            configuration.load_cert_chain(own / "agent.pem", own / "agent.key")
        self._to = ("127.0.0.1", target.port)
        self._source = source
        self.core = QuicConnection(configuration=configuration)
        self.is_ready = self.has_ended = False
        self.answers: dict[int, bytes] = {}
        self.socket = self._bind()
        self.core.connect(self._to, now=time.monotonic())
        self.send()

    def _bind(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((self._source, 0))
        made.connect(self._to)
        return made

    def move(self) -> None:
        """Go on from another port."""
        self.socket.close()
        self.socket = self._bind()

    def send(self) -> None:
        """Send what there is."""
        for octets, _ in self.core.datagrams_to_send(now=time.monotonic()):
            with suppress(OSError):
                self.socket.send(octets)

    def wait(self, until: Callable[[], object], seconds: float = 5.0) -> bool:
        """Read and answer until something holds; return whether it does."""
        end = time.monotonic() + seconds
        while not until() and not self.has_ended and time.monotonic() < end:
            self.send()
            self.socket.settimeout(0.05)
            try:
                self.core.receive_datagram(self.socket.recv(65_536), self._to, now=time.monotonic())
            except OSError:
                due = self.core.get_timer()
                if due is not None and due <= time.monotonic():
                    self.core.handle_timer(now=time.monotonic())
            while (event := self.core.next_event()) is not None:
                self._note(event)
        return bool(until())

    def _note(self, event: Any) -> None:
        self.is_ready |= isinstance(event, events.HandshakeCompleted)
        self.has_ended |= isinstance(event, events.ConnectionTerminated)
        if isinstance(event, events.StreamDataReceived):
            self.answers[event.stream_id] = self.answers.get(event.stream_id, b"") + event.data

    def begin(self, octets: bytes, *, ends: bool = True) -> int:
        """Send octets on a stream of their own."""
        number = self.core.get_next_available_stream_id()
        self.core.send_stream_data(number, octets, end_stream=ends)
        self.send()
        return number

    def send_frames(self, frames: bytes) -> None:
        """Send a packet with frames of the attacker's own making, of which its core knows nothing."""
        core: Any = self.core
        core._packet_number += 1
        number: int = core._packet_number
        head = b"\x43" + core._peer_cid.cid + number.to_bytes(4, "big")
        with suppress(OSError):
            self.socket.send(core._cryptos[tls.Epoch.ONE_RTT].encrypt_packet(head, frames, number))

    def connect(self, seconds: float = 5.0) -> bool:
        """Wait for the end of the handshake; return whether it came."""
        return self.wait(lambda: self.is_ready, seconds)

    def answer(self, number: int, seconds: float) -> bytes:
        """Wait for an answer on a stream, and return what arrived."""
        self.wait(lambda: self.answers.get(number), seconds)
        return self.answers.get(number, b"")

    def may_open(self) -> bool:
        """Return whether the host allows another stream."""
        core: Any = self.core
        return self.is_ready and bool(core._local_next_stream_id_bidi // 4 < core._remote_max_streams_bidi)

    def close(self) -> None:
        """End the connection in order."""
        self.core.close()
        self.send()
        self.socket.close()
