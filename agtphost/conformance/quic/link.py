"""
Raw bytes over QUIC: a blocking UDP socket, and aioquic's connection without anything of this project's.

A stream carries one request, so each request of a :class:`QuicLink` has a stream to itself. A :class:`QuicChannel` is
the connection below it, for cases that use several streams, or invent frames.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from aioquic import tls
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType, QuicProtocolVersion

from agtphost.conformance.link import RECEIVE, Credentials, Endpoint, Link, RawAnswer, Unreachable
from agtphost.conformance.verdict import Failure
from agtphost.vocabulary.foreign_errors import explain

ALPN = "agtp"

SHORTEST = 0.001
"""Seconds: a timer that is rounded to its own past does not spin."""


def client_configuration(where: Endpoint, trust: Path | None, shown: Credentials) -> QuicConfiguration:
    """
    Return a configuration that trusts only ``trust``, or the system's authorities.

    :raises Unreachable: a file cannot be used.
    """
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=[ALPN],
        server_name=where.host,
        supported_versions=[QuicProtocolVersion.VERSION_1],
    )
    try:
        if trust is not None:
            configuration.load_verify_locations(cafile=str(trust))
        else:
            system = ssl.get_default_verify_paths()
            configuration.load_verify_locations(cafile=system.cafile, capath=system.capath)
        if shown.cert is not None:
            configuration.load_cert_chain(shown.cert, shown.key)
    except (OSError, ValueError, TypeError) as error:
        raise Unreachable(f"certificates or keys cannot be used: {explain(error)}") from error
    return configuration


@dataclass(kw_only=True)
class ReceivedStream:
    """A stream as the target has filled it so far."""

    buffer: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    """Whether nothing more will come: the stream ended or was reset."""

    reset: int | None = None
    """The code of RESET_STREAM."""

    stopped: int | None = None
    """The code of STOP_SENDING."""


class QuicChannel:
    """
    A QUIC connection to the target; it begins with its handshake.

    :param early: a request that is sent as early data, if the configuration has a ticket; else after the handshake.
    :param timeout: most seconds for a single operation.
    :raises Unreachable: no datagram can be sent.
    """

    def __init__(
        self, where: Endpoint, configuration: QuicConfiguration, timeout: float, *, early: bytes = b""
    ) -> None:
        self._where = where
        self._address: Any = None
        self.timeout = timeout
        self.core = QuicConnection(configuration=replace(configuration))
        self.streams: dict[int, ReceivedStream] = {}
        self.handshake: events.HandshakeCompleted | None = None
        """How the handshake ended; None while it has not."""

        self.closed: events.ConnectionTerminated | None = None
        """Why the connection is over; None while it is not."""

        self._socket = self._open_socket()
        self.core.connect(self._address, now=time.monotonic())
        if early:
            number = self.open_stream()
            self.core.send_stream_data(number, early, end_stream=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def shake_hands(self) -> None:
        """
        Wait for the end of the handshake.

        :raises Unreachable: it failed.
        """
        if not self.wait(lambda: self.is_ready, self.timeout):
            self.close()
            raise Unreachable(f"no QUIC to {self._where.host} port {self._where.port}: {self.describe_end()}")

    @property
    def is_ready(self) -> bool:
        """Whether the handshake is over."""
        return self.handshake is not None

    def _open_socket(self) -> socket.socket:
        where = f"{self._where.host} port {self._where.port}"
        opened: socket.socket | None = None
        try:
            family, kind, protocol, _, self._address = socket.getaddrinfo(
                self._where.host, self._where.port, type=socket.SOCK_DGRAM
            )[0]
            opened = socket.socket(family, kind, protocol)
            opened.connect(self._address)
        except (OSError, UnicodeError) as error:
            if opened is not None:
                opened.close()
            raise Unreachable(f"no UDP to {where}: {explain(error)}") from error
        return opened

    def describe_end(self) -> str:
        """Return how the connection ended, as a part of a message."""
        if self.closed is None:
            return "no answer in time"
        kind = "application" if self.closed.frame_type is None else "transport"
        return f"closed with the {kind} code {self.closed.error_code:#x} {self.closed.reason_phrase}".rstrip()

    def close(self) -> None:
        """End the connection, and tell the target."""
        self.core.close()
        self._flush()
        self._socket.close()

    def move(self) -> None:
        """Go on from another port, as behind an address translator that forgot this one."""
        before, self._socket = self._socket, self._open_socket()
        before.close()

    # Sending

    def open_stream(self) -> int:
        """Return the number of the next stream."""
        number = int(self.core.get_next_available_stream_id())
        self.streams[number] = ReceivedStream()
        return number

    def send(self, number: int, octets: bytes, *, ends: bool = False) -> None:
        """Send octets on a stream."""
        self.refresh()
        if self.closed is None:
            self.core.send_stream_data(number, octets, end_stream=ends)
            self._flush()

    def ask(self, octets: bytes, *, ends: bool = True) -> int:
        """Send a request on a new stream, and return its number."""
        number = self.open_stream()
        self.send(number, octets, ends=ends)
        return number

    def send_frame(self, kind: int, *values: int, octets: bytes = b"") -> None:
        """Send a frame that the library would not send, in a packet of this connection."""
        core: Any = self.core
        write = core._write_application

        def write_frame(builder: Any, path: Any, now: float) -> None:
            builder.start_packet(QuicPacketType.ONE_RTT, core._cryptos[tls.Epoch.ONE_RTT])
            buffer = builder.start_frame(kind, capacity=100 + len(octets))
            for value in values:
                buffer.push_uint_var(value)
            buffer.push_bytes(octets)
            write(builder, path, now)

        core._write_application = write_frame
        try:
            self._flush()
        finally:
            core._write_application = write

    def hold_windows(self) -> None:
        """Let the target send no more on a stream than was announced at first."""
        core: Any = self.core
        core._write_stream_limits = lambda **parts: None

    def release_windows(self) -> None:
        """Let the target send more as the client reads on."""
        core: Any = self.core
        del core._write_stream_limits

    @property
    def most_streams(self) -> int:
        """The number of requests at a time that the target lets a client make."""
        return int(self.core._remote_max_streams_bidi)

    def _flush(self) -> None:
        for octets, _ in self.core.datagrams_to_send(now=time.monotonic()):
            with suppress(OSError):
                self._socket.send(octets)  # One that cannot be sent is lost, and sent again.

    # Receiving

    def refresh(self) -> None:
        """Process what has arrived, without waiting."""
        self.wait(lambda: False, 0)

    def wait(self, until: Callable[[], object], seconds: float) -> bool:
        """Return whether something holds in time, before the connection is over."""
        deadline = time.monotonic() + seconds
        while True:
            self._collect()
            if until():
                return True
            if self.closed is not None:
                return False
            self._act_on_time()
            self._flush()
            self._socket.settimeout(self._choose_wait(deadline))
            try:
                self.core.receive_datagram(self._socket.recv(RECEIVE), self._address, now=time.monotonic())
            except (TimeoutError, BlockingIOError):
                if time.monotonic() >= deadline:
                    self._collect()
                    return bool(until())
            except ConnectionRefusedError as error:
                if not self.is_ready:
                    self.closed = events.ConnectionTerminated(
                        error_code=0, frame_type=0, reason_phrase="nothing listens at the UDP port"
                    )
                elif time.monotonic() >= deadline:
                    raise Failure("the target's UDP port was closed") from error

    def _act_on_time(self) -> None:
        now, timer = time.monotonic(), self.core.get_timer()
        if timer is not None and timer <= now:
            self.core.handle_timer(now=now)

    def _choose_wait(self, deadline: float) -> float:
        """Return the seconds to wait for a datagram: until the connection's timer fires, or time is up."""
        now, timer = time.monotonic(), self.core.get_timer()
        return max(0.0, min(deadline, now if timer is None else max(timer, now + SHORTEST)) - now)

    def _collect(self) -> None:
        while (event := self.core.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted):
                self.handshake = event
            elif isinstance(event, (events.StreamDataReceived, events.StreamReset, events.StopSendingReceived)):
                stream = self.streams.setdefault(event.stream_id, ReceivedStream())
                if isinstance(event, events.StreamDataReceived):
                    stream.buffer += event.data
                    stream.has_ended |= event.end_stream
                elif isinstance(event, events.StreamReset):
                    stream.reset, stream.has_ended = event.error_code, True
                else:
                    stream.stopped = event.error_code
        # The library's event comes after a closing period of up to a second.
        self.closed = self.closed or self.core._close_event


class QuicLink(Link):
    """
    Requests on streams of one connection: the first bytes after an answer begin another stream.

    :param channel: the connection; links that share one make requests at the same time.
    :param number: a stream that has carried a request.
    """

    def __init__(self, channel: QuicChannel, number: int | None = None) -> None:
        super().__init__(channel.timeout)
        self.channel = channel
        self._number = number
        self._answered = False
        if number is not None:
            self.buffer = self.stream.buffer

    @property
    def has_ended(self) -> bool:
        """Whether the connection is over."""
        return self.channel.closed is not None

    @property
    def version(self) -> str:
        """The version of TLS: QUIC has no other."""
        return "TLSv1.3"

    @property
    def is_verified(self) -> bool:
        """Whether the target has shown a certificate that is trusted and names it; else the connection fails."""
        return self.channel.is_ready

    @property
    def stream(self) -> ReceivedStream:
        """Return the stream of the last request, with what the target has sent on it."""
        return ReceivedStream() if self._number is None else self.channel.streams[self._number]

    def close(self) -> None:
        """End the connection."""
        self.channel.close()

    def send(self, octets: bytes) -> None:
        """Send bytes of a request."""
        self._send(octets, ends=False)

    def send_whole(self, octets: bytes) -> None:
        """Send a request to its end, and end the stream."""
        self._send(octets, ends=True)

    def _send(self, octets: bytes, *, ends: bool) -> None:
        if self._number is None or self._answered:
            self._number, self._answered = self.channel.open_stream(), False
            self.buffer = self.stream.buffer
        self.channel.send(self._number, octets, ends=ends)

    def answer(self, request: bytes = b"") -> RawAnswer | None:
        """Return the next response, or None if the target ended the stream."""
        answer = super().answer(request)
        self._answered = True
        return answer

    def _more(self, seconds: float, *, late: bool = False) -> bool:
        stream, known = self.stream, len(self.buffer)
        self.channel.wait(lambda: len(stream.buffer) > known or stream.has_ended, seconds)
        if len(stream.buffer) > known:
            return True
        if late and not stream.has_ended and not self.has_ended:
            raise Failure(f"no response within {self.timeout:g} s")
        return False

    def quiet(self, seconds: float) -> bool:
        """Return whether the target sends nothing for a while and keeps the connection open."""
        self.channel.wait(lambda: bool(self.buffer), seconds)
        return not self.buffer and not self.has_ended

    def closes(self) -> bool:
        """Return whether the target ends the stream of the last answer in time, without sending more."""
        stream = self.stream
        self.channel.wait(lambda: stream.has_ended, self.timeout)
        return (stream.has_ended or self.has_ended) and not self.buffer
