"""One QUIC connection of the asyncio client: a UDP socket, with a stream for each call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from agtphost.client import tls
from agtphost.client.aio_attempts import connect_to_first, settle
from agtphost.client.connections import Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ConnectionLost
from agtphost.client.quic.blocking import open_udp
from agtphost.client.quic.core import QuicCredentials
from agtphost.client.quic.driver import MISSES, MOST_PLACES, QuicDriver, await_first
from agtphost.client.quic.errors import PROBE_SECONDS, convert_unsent, to_loss
from agtphost.client.quic.session import QuicSession, choose_patience
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tcp_attempts import ATTEMPT_DELAY, interleave
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits


class AsyncioQuicConnection(asyncio.DatagramProtocol):
    """
    A QUIC connection to one server, on the loop that it is made on.

    :param clock: that of the session.
    :param open: where it is, from its first datagram to its end.
    :param lost: called once, when the connection has ended.
    """

    carrier = "quic"
    is_shared = True

    def __init__(
        self,
        session: QuicSession,
        clock: Clock,
        open: set[Any],
        lost: Callable[[AsyncioQuicConnection], object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._driver = QuicDriver(session, clock, self._loop.call_later, self._write, self._note_ready, self._note_end)
        self._open = open
        self._lost = lost
        self._transport: asyncio.DatagramTransport | None = None
        self._refusing: asyncio.Handle | None = None
        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when a request may be sent; fails with a ClientError."""

        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when its socket is closed."""

    @property
    def reusable(self) -> bool:
        """Whether it can serve further calls."""
        return self._driver.reusable

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused: its end would have been noticed, on a loop that runs."""
        return self.reusable and self._loop is asyncio.get_running_loop()

    @property
    def has_served(self) -> bool:
        """Whether it has served a call before."""
        return self._driver.session.was_answered

    @property
    def ending(self) -> bool:
        """Whether it was closed, or has ended."""
        return self._driver.is_over

    async def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """
        Make a call besides those that are out. Cancelling it ends no other.

        :param stream: takes interim replies.
        :raises agtphost.client.errors.ClientError: if the call gets no final reply.
        """
        deadline.remaining("waiting for the answer")
        deadline.count_silence = self._driver.count_silence
        if not self.reusable:
            # It has ended since the call was given it.
            raise convert_unsent(self._driver.session.fault or to_loss("ended the connection", answered=False))
        final: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        begun = self._driver.begin(call, stream, lambda found: settle(final, found))
        try:
            return await final
        finally:
            self._driver.give_up(begun)
            if final.done() and not final.cancelled():
                final.exception()  # Retrieved, even if the caller was cancelled.

    def close(self) -> asyncio.Future[None]:
        """End the connection, and tell the server; done when the socket is closed."""
        if self._loop.is_closed():
            self._driver.is_over = True
            self._open.discard(self)  # Its socket ends with it: nothing runs there any more.
        else:
            self._driver.close()
        return self.ended

    abort = close

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        # Loops of others have transports of no common class.
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._open.add(self)
        self._driver.flush()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Take a datagram of the server."""
        self._driver.receive(data)

    def error_received(self, exc: Exception) -> None:
        """Take the system's report that nothing listens at the server's port; in a later turn: a write may cause it."""
        if self._refusing is None and not self._driver.is_over:
            self._refusing = self._loop.call_soon(self._note_refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is closed."""
        self._open.discard(self)
        self._driver.can_send = False
        self._driver.close()
        if not self.ended.done():
            self.ended.set_result(None)

    def _note_refused(self) -> None:
        self._refusing = None
        if not self._driver.is_over:
            self._driver.note_unreachable()

    # What the driver calls

    def _write(self, octets: bytes) -> None:
        # A datagram that cannot be sent is lost, and sent again like any other.
        if self._transport is not None:
            with suppress(OSError):
                self._transport.sendto(octets)

    def _note_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _note_end(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._lost(self)
        if not self.ready.done():
            fault = self._driver.session.fault
            self.ready.set_exception(
                fault or ConnectionLost("The connection was closed.", "Try again.", answered=False)
            )
            self.ready.exception()  # Retrieved, even if the caller was cancelled.


async def connect(
    destination: Destination,
    credentials: QuicCredentials,
    limits: Limits,
    deadline: Deadline,
    clock: Clock,
    open: set[Any],
    lost: Callable[[AsyncioQuicConnection], object],
    *,
    tls_port: int | None = 0,
) -> AsyncioQuicConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param clock: that of the deadline.
    :param open: holds the connections that are open.
    :param lost: called once, when the connection has ended.
    :param tls_port: where the error of a silent server looks for TLS: see
        :func:`~agtphost.client.quic.errors.explain_silence`; None: TLS is tried besides, and that error looks nowhere.
    :raises agtphost.client.errors.CannotConnect: if no server answers there by UDP.
    :raises agtphost.client.errors.TLSRefused: if one side refuses the other.
    """
    loop = asyncio.get_running_loop()
    doing = f"connecting to {destination} by QUIC"
    deadline.remaining(doing)
    try:
        found = await loop.getaddrinfo(destination.host, destination.port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise tls.cannot_connect(error, destination) from error

    async def open_link(place: Any) -> AsyncioQuicConnection:
        patience = choose_patience(deadline.remaining(doing), alone=tls_port is not None)
        session = QuicSession(destination, credentials, limits, place[4], clock(), patience)
        link = AsyncioQuicConnection(session, clock, open, lost)
        channel = open_udp(place)
        try:
            channel.setblocking(False)
            await loop.create_datagram_endpoint(lambda: link, sock=channel)
            await link.ready
        except BaseException:
            link.abort()
            if link._transport is None:
                channel.close()
            raise
        return link

    first = connect_to_first(interleave(found)[:MOST_PLACES], open_link, MISSES, AsyncioQuicConnection.abort)
    return await await_first(first, destination, _answers_by_tcp, tls_port)


async def _answers_by_tcp(destination: Destination) -> bool:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(
                destination.host, destination.port, happy_eyeballs_delay=ATTEMPT_DELAY
            )
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True
