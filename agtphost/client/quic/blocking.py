"""One QUIC connection of the blocking client: a UDP socket."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Protocol

from agtphost.client import tls
from agtphost.client.blocking_connection import handed_out
from agtphost.client.connections import Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError
from agtphost.client.quic.core import QuicCredentials
from agtphost.client.quic.errors import PROBE_SECONDS, Unanswered, explain_silence
from agtphost.client.quic.session import QuicSession, choose_patience
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tcp_rival import TcpRival
from agtphost.wire.codec import Limits

_READ = 65536

BATCH = 64
"""Datagrams that are read before any is sent."""

_SHORTEST = 0.001
"""Seconds: a timer is not waited for in less, so that one which is rounded to its own past does not spin."""


class DatagramSocket(Protocol):
    """A UDP socket that is connected to one server."""

    def send(self, octets: bytes, /) -> object:
        """Send a datagram."""

    def recv(self, size: int, /) -> bytes:
        """Return a datagram."""

    def fileno(self) -> int:
        """Return its descriptor."""

    def settimeout(self, seconds: float, /) -> object:
        """Let the next call of ``recv`` raise TimeoutError after so many seconds; 0: BlockingIOError immediately."""

    def close(self) -> object:
        """Give the port back."""


Open = Callable[[Any], DatagramSocket]
"""Makes a socket for an entry of ``getaddrinfo``."""


class BlockingQuicConnection:
    """
    A QUIC connection to one server.

    :param channel: a socket that is connected to the server.
    :param clock: of the session and of the deadlines.
    """

    carrier = "quic"
    is_shared = False

    def __init__(self, session: QuicSession, channel: DatagramSocket, clock: Clock) -> None:
        self._session = session
        self._channel = channel
        self._clock = clock
        self.presented: tls.Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

    @property
    def fresh(self) -> bool:
        """Whether the connection can serve a call: the server has not ended it since."""
        with contextlib.suppress(OSError):
            self._read()
        self._session.act_on_time(self._clock())
        self._flush()
        return self._session.reusable

    @property
    def reusable(self) -> bool:
        """Whether the last call left the connection in order."""
        return self._session.reusable

    @property
    def has_served(self) -> bool:
        """Whether it has served a call before."""
        return self._session.was_answered

    def shake_hands(self, deadline: Deadline, doing: str, rival: TcpRival | None = None) -> None:
        """
        Wait until the server is verified.

        :param rival: tries TCP besides.
        :raises agtphost.client.errors.ClientError: if it is not.
        :raises agtphost.client.tcp_rival.Overtaken: if TCP was there first.
        """
        while not self._session.is_ready:
            self._wait(deadline, doing, rival)
            if self._session.fault is not None:
                self._flush()
                raise self._session.fault

    async def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """
        Make a call. Suspends to hand out interim replies, if they are asked for, and for nothing else.

        :raises agtphost.client.errors.ClientError: if the call gets no final reply.
        """
        deadline.remaining("sending the request")
        begun = self._session.ask(call, self._clock())
        try:
            while True:
                self._wait(deadline, "waiting for the answer")
                for reply in begun.take():
                    if not reply.interim:
                        return reply
                    if stream is not None:
                        await handed_out(reply)
        finally:
            self._session.give_up(begun)
            self._flush()

    def close(self) -> None:
        """End the connection, and tell the server."""
        self._session.close()
        self._flush()
        self._channel.close()

    abort = close

    def _wait(self, deadline: Deadline, doing: str, rival: TcpRival | None = None) -> None:
        """Send what there is, and wait for a datagram or for the next thing to do."""
        self._flush()
        left = self._session.due - self._clock()
        seconds = min(max(left, _SHORTEST), deadline.remaining(doing))
        if rival is not None:
            seconds = _SHORTEST if rival.wait(self._channel, seconds) else 0.0
        self._channel.settimeout(seconds)
        try:
            self._session.receive(self._channel.recv(_READ), self._clock())
            self._read()
        except (TimeoutError, BlockingIOError):
            self._session.act_on_time(self._clock())
        except OSError:
            self._session.note_unreachable()

    def _read(self) -> None:
        """Take the datagrams that have arrived, without waiting for more."""
        self._channel.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            for _ in range(BATCH):
                self._session.receive(self._channel.recv(_READ), self._clock())

    def _flush(self) -> None:
        for octets in self._session.datagrams(self._clock()):
            # One that cannot be sent is lost, and sent again like any other.
            with contextlib.suppress(OSError):
                self._channel.send(octets)


def open_udp(place: Any) -> socket.socket:
    """Return a socket that is connected to a server."""
    family, kind, protocol, _, address = place
    channel = socket.socket(family, kind, protocol)
    try:
        channel.connect(address)
    except OSError:
        channel.close()
        raise
    return channel


def connect(
    destination: Destination,
    credentials: QuicCredentials,
    limits: Limits,
    deadline: Deadline,
    clock: Clock,
    opened: Open = open_udp,
    rival: TcpRival | None = None,
) -> BlockingQuicConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param opened: makes the socket.
    :param rival: tries TCP besides; None: the error of a silent server says what answers by TCP.
    :raises agtphost.client.tcp_rival.Overtaken: if the rival is there first.
    :raises agtphost.client.errors.CannotConnect: if no server answers there by UDP.
    :raises agtphost.client.errors.TLSRefused: if one side refuses the other.
    :raises agtphost.client.errors.Timeout: if it takes too long.
    """
    doing = f"connecting to {destination} by QUIC"
    deadline.remaining(doing)
    try:
        places = socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise tls.cannot_connect(error, destination) from error
    silent: ClientError | None = None
    for place in places:
        patience = choose_patience(deadline.remaining(doing))
        session = QuicSession(destination, credentials, limits, place[4], clock(), patience)
        try:
            link = BlockingQuicConnection(session, opened(place), clock)
        except OSError as error:
            silent = tls.cannot_connect(error, destination)
            continue
        try:
            link.shake_hands(deadline, doing, rival)
        except BaseException as error:
            link.close()
            if not isinstance(error, Unanswered):
                raise
            silent = error
        else:
            return link
    if silent is not None and rival is not None:
        raise silent
    raise explain_silence(destination, is_there=_answers_by_tcp(destination, deadline)) from silent


def _answers_by_tcp(destination: Destination, deadline: Deadline) -> bool:
    try:
        seconds = min(PROBE_SECONDS, max(deadline.seconds_left, 0.1))
        socket.create_connection((destination.host, destination.port), seconds).close()
    except OSError:
        return False
    return True
