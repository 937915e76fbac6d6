"""One QUIC connection of the blocking client: a UDP socket, with a stream for each call."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from agtphost.client import tls
from agtphost.client.blocking_connection import handed_out
from agtphost.client.connections import Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.quic.calls import QuicCall
from agtphost.client.quic.core import QuicCredentials
from agtphost.client.quic.driver import MISSES, MOST_PLACES, SHORTEST
from agtphost.client.quic.errors import (
    PROBE_SECONDS,
    ConnectionRefused,
    Unanswered,
    convert_unsent,
    explain_silence,
    tls_place,
    to_loss,
)
from agtphost.client.quic.handshake_race import HandshakeRace
from agtphost.client.quic.session import QuicSession, choose_patience
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tcp_attempts import TcpAttempts, interleave
from agtphost.client.tcp_rival import TcpRival
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits

_READ = 65536

BATCH = 64
"""Datagrams that are read before any is sent."""


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


class WakeableWait:
    """The wait of one thread for datagrams, which other threads can end."""

    def __init__(self, channel: DatagramSocket) -> None:
        self._near, self._far = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._near, self._far):
            each.setblocking(False)
        for source in (channel, self._near):
            self._selector.register(source, selectors.EVENT_READ)

    def wait(self, seconds: float) -> None:
        """Wait until a datagram has come, or another thread wakes this one."""
        if any(key.fileobj is self._near for key, _ in self._selector.select(seconds)):
            self._near.recv(_READ)

    def wake(self) -> None:
        """End the wait, or else the next one."""
        with contextlib.suppress(OSError):  # Already done, or the connection is closed.
            self._far.send(b"\0")

    def close(self) -> None:
        """Give the descriptors back."""
        self._selector.close()
        self._near.close()
        self._far.close()


class BlockingQuicConnection:
    """
    A QUIC connection to one server, for the calls of any number of threads.

    Of the threads that wait for answers one waits for datagrams, for all of them; the others sleep until something of
    their call has arrived, or until it is their turn to wait for datagrams. No thread waits with the lock held.

    :param channel: a socket that is connected to the server.
    :param clock: of the session and of the deadlines.
    """

    carrier = "quic"
    is_shared = True

    def __init__(self, session: QuicSession, channel: DatagramSocket, clock: Clock) -> None:
        self._session = session
        self._channel = channel
        self._clock = clock
        self._waiting = WakeableWait(channel)
        self._lock = threading.Lock()
        """Guards the session and all that follows."""

        self._reads_until: float | None = None
        """Until when a thread waits for datagrams; None: none does."""

        self._sleeping: dict[QuicCall, threading.Condition] = {}
        self._left: deque[QuicCall] = deque()
        """Calls whose threads have left: a generator may be ended anywhere, also where this lock is held."""

        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

    @property
    def fresh(self) -> bool:
        """Whether the connection can serve a call: the server has not ended it since."""
        with self._lock:
            if self._reads_until is None:
                with contextlib.suppress(OSError):
                    self._read()
            self._act_on_time()
            self._flush()
            self._end_calls()
            return self._session.reusable

    @property
    def reusable(self) -> bool:
        """Whether the connection can serve further calls; asked without the lock, as where a generator is ended."""
        return self._session.reusable

    @property
    def has_served(self) -> bool:
        """Whether it has served a call before."""
        return self._session.was_answered

    @property
    def is_ready(self) -> bool:
        """Whether the server is verified."""
        return self._session.is_ready

    @property
    def channel(self) -> DatagramSocket:
        """The socket that the datagrams of the server arrive at."""
        return self._channel

    def begin_wait(self) -> float:
        """Send what the handshake has to send; return the seconds until there is something to do."""
        self._flush()
        return self._count_seconds()

    def end_wait(self, seconds: float) -> None:
        """
        Go on with the handshake, before the connection is shared.

        :param seconds: to wait for a datagram.
        :raises agtphost.client.errors.ClientError: if it has failed.
        """
        self._take(self._receive(seconds))
        if self._session.fault is not None:
            self._flush()
            raise self._session.fault

    async def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """
        Make a call besides those that are out. Suspends to hand out interim replies, if they are asked for.

        :raises agtphost.client.errors.ClientError: if the call gets no final reply.
        """
        deadline.remaining("sending the request")
        deadline.count_silence = lambda: self._session.count_silence(self._clock())
        with self._lock:
            if not self._session.reusable:
                # It has ended since the call was given it.
                raise convert_unsent(self._session.fault or to_loss("ended the connection", answered=False))
            begun = self._session.ask(call, self._clock())
        try:
            while True:
                for reply in self._await_replies(begun, deadline):
                    if not reply.interim:
                        return reply
                    if stream is not None:
                        await handed_out(reply)
        finally:
            self._left.append(begun)
            if self._lock.acquire(blocking=False):
                try:
                    self._end_calls()
                finally:
                    self._lock.release()
            else:  # The thread that has it ends the call, or else the one that reads.
                self._waiting.wake()

    def close(self) -> None:
        """End the connection, and tell the server; once no call uses it."""
        with self._lock:
            self._session.close()
            self._flush()
            self._waiting.close()
            self._channel.close()

    abort = close

    # Waiting, with the lock held unless it says otherwise

    def _await_replies(self, call: QuicCall, deadline: Deadline) -> list[Reply]:
        """Return the next replies of a call; called without the lock."""
        while True:
            with self._lock:
                try:
                    self._act_on_time()
                    replies = self._session.take(call)
                    self._flush()
                    if replies:
                        return replies
                    seconds = deadline.remaining("waiting for the answer")
                    if self._reads_until is not None:
                        self._sleep(call, seconds)
                        continue
                    seconds = min(self._count_seconds(), seconds)
                    self._reads_until = self._clock() + seconds
                finally:
                    self._end_calls()
            self._read_for_all(seconds)

    def _read_for_all(self, seconds: float) -> None:
        """Wait for datagrams, and tell the threads what has arrived for them; called without the lock."""
        found: bytes | OSError | None = None
        try:
            self._waiting.wait(seconds)
            found = self._receive(0)
        finally:
            with self._lock:
                self._reads_until = None
                self._take(found)
                self._end_calls(hands_over=False)  # This thread goes on, or hands over as it leaves.

    def _sleep(self, call: QuicCall, seconds: float) -> None:
        """Wait, without the lock, for another thread that reads; shorter if there is something to do before it is."""
        assert self._reads_until is not None
        if self._session.due < self._reads_until:
            seconds = min(seconds, self._count_seconds())
        turn = self._sleeping[call] = threading.Condition(self._lock)
        try:
            turn.wait(seconds)
        finally:
            del self._sleeping[call]

    def _end_calls(self, *, hands_over: bool = True) -> None:
        """
        Cancel the calls whose threads have left; the last act of a thread before it releases the lock.

        Wakes the threads whose calls have changed, and one to wait for datagrams if none does.

        :param hands_over: whether it does the latter.
        """
        if self._left:
            is_cancelled = False
            while self._left:
                call = self._left.popleft()
                is_cancelled |= call.is_out
                self._session.give_up(call)
            self._flush()
            if is_cancelled and self._reads_until is not None and self._session.due < self._reads_until:
                self._waiting.wake()  # A cancellation that is lost is to be repeated, and its thread has left.
        for call in self._session.take_changed():
            if call in self._sleeping:
                self._sleeping[call].notify()
        if hands_over and self._reads_until is None and self._sleeping:
            next(iter(self._sleeping.values())).notify()

    # Datagrams and time

    def _count_seconds(self) -> float:
        """Return the seconds until there is something to do."""
        return max(self._session.due - self._clock(), SHORTEST)

    def _act_on_time(self) -> None:
        if (now := self._clock()) >= self._session.due:
            self._session.act_on_time(now)

    def _receive(self, seconds: float) -> bytes | OSError | None:
        """Wait for a datagram, or for the system's report that nothing listens at the server's port."""
        self._channel.settimeout(seconds)
        try:
            return self._channel.recv(_READ)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            return error

    def _take(self, found: bytes | OSError | None) -> None:
        """Take what :meth:`_receive` returned, and the datagrams that have arrived besides."""
        if found is None:
            self._act_on_time()
        elif isinstance(found, OSError):
            self._session.note_unreachable()
        else:
            self._session.receive(found, self._clock())
            try:
                self._read()
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
    tls_port: int = 0,
) -> BlockingQuicConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param opened: makes the socket.
    :param rival: tries TCP besides; None: the error of a silent server says what answers by TCP.
    :param tls_port: as :func:`~agtphost.client.quic.errors.explain_silence` has it.
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

    def open_link(place: Any) -> BlockingQuicConnection:
        patience = choose_patience(deadline.remaining(doing), alone=rival is None)
        session = QuicSession(destination, credentials, limits, place[4], clock(), patience)
        return BlockingQuicConnection(session, opened(place), clock)

    race = HandshakeRace(interleave(places)[:MOST_PLACES], open_link, lambda: deadline.remaining(doing), clock, rival)
    try:
        return race.run()
    except ConnectionRefused:
        raise
    except MISSES as error:
        silent = error if isinstance(error, Unanswered) else tls.cannot_connect(error, destination)
    if rival is not None:
        raise silent
    is_there = _answers_by_tcp(tls_place(destination, tls_port), deadline)
    raise explain_silence(destination, tls_port, is_there=is_there) from silent


def _answers_by_tcp(destination: Destination, deadline: Deadline) -> bool:
    try:
        with contextlib.closing(TcpAttempts(destination, deadline.clock)) as attempts:
            channel = attempts.connect(min(PROBE_SECONDS, max(deadline.seconds_left, 0.1)))
    except OSError:
        return False
    if channel is not None:
        channel.close()
    return channel is not None
