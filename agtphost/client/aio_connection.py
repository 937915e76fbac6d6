"""One TLS connection of the asyncio client, on any loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agtphost.client import tls
from agtphost.client.aio_attempts import connect_to_first, settle
from agtphost.client.connections import Stream
from agtphost.client.deadline import Deadline
from agtphost.client.delivery import Delivery
from agtphost.client.errors import ClientError, ConnectionLost, Timeout
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tcp_attempts import interleave
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

T = TypeVar("T")

CLOSE_SECONDS = 1.0
"""How long a server may take to answer the closing notice; then the connection is dropped."""


class AsyncioConnection(asyncio.Protocol):
    """
    A connection to one server, verified once :func:`connect` gave it.

    :param open: where it is, from its handshake to its end.
    :param lost: called once, when the connection has ended.
    """

    carrier = "tls"
    is_shared = False

    def __init__(self, limits: Limits, open: set[Any], lost: Callable[[AsyncioConnection], object]) -> None:
        self._open = open
        self._delivery = Delivery(limits, self.abort)
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._failure: ClientError | None = None
        self.has_served = False
        """Whether it has served a call before."""

        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

        self.ending = False
        """Whether it was closed, or dropped."""

        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when it is gone."""

    @property
    def reusable(self) -> bool:
        """Whether it can serve another call."""
        return not self.ending and not self.ended.done() and self._delivery.reusable

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused: its end would have been noticed, on a loop that runs."""
        return self.reusable and self._loop is asyncio.get_running_loop()

    async def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """
        Make a call; only while :attr:`reusable`. Cancelling ends the connection, unless the answer is there.

        :param stream: takes interim replies.
        :raises ClientError: if the call gets no final reply.
        """
        deadline.remaining("waiting for the answer")
        final: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        self.check()
        assert self._transport is not None
        self._transport.write(self._delivery.ask(call, stream, lambda found: settle(final, found)))
        self.has_served = True
        try:
            return await final
        finally:
            if not self._delivery.reusable:
                self._delivery.forget()
            if final.done() and not final.cancelled():
                final.exception()  # Retrieved, even if the caller was cancelled.

    def close(self) -> asyncio.Future[None]:
        """End the connection in both directions; done when it is gone."""
        if self._loop.is_closed():
            self.abort()
            return self.ended
        self.ending = True
        if self._transport is not None:
            self._transport.close()
        return self.ended

    def abort(self) -> None:
        """Drop the connection immediately."""
        self.ending = True
        if self._loop.is_closed():
            self._open.discard(self)  # Its socket ends with it: nothing runs there any more.
        elif self._transport is not None:
            self._transport.abort()

    def verify(self, host: str) -> None:
        """
        Check that the server's certificate is for ``host``.

        :raises agtphost.client.errors.TLSRefused: it is not.
        """
        assert self._transport is not None
        channel = self._transport.get_extra_info("ssl_object")
        tls.verify_peer_name(channel.getpeercert(binary_form=True) or b"", host)

    def check(self) -> None:
        """Check that the connection has not ended. :raises ClientError: saying why it did."""
        if self.ended.done():
            raise self._failure or ConnectionLost(
                "The server ended the connection before it was asked anything.", "Try again.", answered=False
            )

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is done."""
        # Loops of others have transports of no common class.
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        """Octets of an answer."""
        self._delivery.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection, caused by either side."""
        self._open.discard(self)
        if not self.ended.done():
            self.ended.set_result(None)
        error = self._failure = _reason(exc)
        if error is not None and not self._delivery.has_answer:
            self._delivery.fail(error)
        else:
            self._delivery.receive(b"")
        self._lost(self)


def _reason(exc: Exception | None) -> ClientError | None:
    """Return the error of a connection that ended for a reason of TLS or the network; None if it simply ended."""
    if isinstance(exc, ssl.SSLError) and not isinstance(exc, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        refusal = tls.to_refusal(exc.reason or "")
        refusal.__cause__ = exc
        return refusal
    if exc is None or isinstance(exc, (ConnectionError, ssl.SSLError)):
        return None
    return ConnectionLost(
        f"The connection broke: {explain(exc)}.",
        "Whether the server carried the request out is unknown.",
        answered=False,
    )


async def connect(
    destination: Destination, context: ssl.SSLContext, deadline: Deadline, made: Callable[[], AsyncioConnection]
) -> AsyncioConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param made: makes the connection's protocol.
    :raises agtphost.client.errors.CannotConnect: if no server answers there.
    :raises agtphost.client.errors.TLSRefused: if one side refuses the other.
    """
    loop = asyncio.get_running_loop()
    deadline.remaining(f"connecting to {destination}")
    try:
        raw = await _dial(loop, destination)
    except (OSError, UnicodeError) as error:
        raise tls.cannot_connect(error, destination) from error
    try:
        deadline.remaining(f"shaking hands with {destination}")
        link = made()
        await loop.create_connection(
            lambda: link,
            sock=raw,
            ssl=context,
            server_hostname=destination.host,
            ssl_shutdown_timeout=CLOSE_SECONDS,
        )
    except OSError as error:
        raw.close()
        raise tls.handshake_failed(error, destination.host) from error
    except ValueError as error:
        raw.close()
        raise tls.unnameable(destination.host) from error
    except Timeout:
        raw.close()
        raise
    except asyncio.CancelledError:
        link.abort()  # The loop would end it with a notice, if the handshake is over.
        raise
    try:
        link.verify(destination.host)
        # A server that refuses this client may have reported that already; then no request is sent.
        for _ in range(2):
            await asyncio.sleep(0)
        link.check()
    except BaseException:
        link.abort()
        raise
    return link


class HeardSocket(socket.socket):
    """
    A socket whose server is heard to the end, even where it takes no more octets.

    A server that refuses the client's certificate sends an alert, and resets the connection. The loop would end a
    connection at the write that fails, with the alert unread; so such a write passes, and the end follows by reading.
    """

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send as :meth:`socket.socket.send` does, but ignore that the other side has ended the connection."""
        try:
            return super().send(data, flags)
        except (BrokenPipeError, ConnectionResetError):
            return memoryview(data).nbytes


async def _dial(loop: asyncio.AbstractEventLoop, destination: Destination) -> socket.socket:
    """Open a TCP connection to one of the addresses of a name."""
    places = interleave(await loop.getaddrinfo(destination.host, destination.port, type=socket.SOCK_STREAM))
    return await connect_to_first(places, lambda place: _open(loop, place), (OSError,), socket.socket.close)


async def _open(loop: asyncio.AbstractEventLoop, place: Any) -> socket.socket:
    """Open a TCP connection to an entry of ``getaddrinfo``."""
    family, kind, protocol, _, address = place
    raw = HeardSocket(family, kind, protocol)
    try:
        raw.setblocking(False)
        await loop.sock_connect(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw
