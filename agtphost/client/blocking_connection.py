"""One TLS connection of the blocking client: a standard library socket."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Generator
from types import coroutine

from agtphost.client import tls
from agtphost.client.connections import Stream
from agtphost.client.conversation import Conversation
from agtphost.client.deadline import Deadline
from agtphost.client.errors import ConnectionLost
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tcp_attempts import TcpAttempts
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import Stamp
from agtphost.wire.codec import Limits

_READ = 65536


class BlockingConnection:
    """
    A verified TLS connection to one server.

    :param channel: after its handshake.
    """

    carrier = "tls"
    is_shared = False

    def __init__(self, channel: ssl.SSLSocket, limits: Limits) -> None:
        self._channel = channel
        self._conversation = Conversation(limits)
        self.has_served = False
        """Whether it has served a call before."""

        self.presented: Stamp = None
        """The stamp of the file of the client certificate that it was made with."""

    @property
    def fresh(self) -> bool:
        """Whether the connection can serve a call: no call is running, and neither octets nor an end arrived since."""
        if not self._conversation.reusable:
            return False
        try:
            self._channel.setblocking(False)
            self._channel.recv(1)
        except ssl.SSLWantReadError:
            return True  # Nothing, or TLS's own messages, such as a session ticket.
        except OSError:
            return False
        return False

    @property
    def reusable(self) -> bool:
        """Whether the last call left the connection in order."""
        return self._conversation.reusable

    async def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """
        Make a call. Suspends to hand out interim replies, if they are asked for, and for nothing else.

        :raises agtphost.client.errors.ClientError: if the call gets no final reply.
        """
        deadline.remaining("sending the request")
        octets = self._conversation.ask(call)
        self.has_served = True
        try:
            self._channel.settimeout(deadline.seconds_left)
            # A server that refuses early may end the connection while we write: its answer is still there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                self._channel.sendall(octets)
            while True:
                self._channel.settimeout(deadline.remaining("waiting for the answer"))
                for reply in self._conversation.receive(self._receive()):
                    if not reply.interim:
                        return reply
                    if stream is not None:
                        await handed_out(reply)
        except TimeoutError:
            raise deadline.timeout_error() from None
        except ssl.SSLError as error:
            raise tls.to_refusal(error.reason or "") from error
        except OSError as error:
            raise ConnectionLost(
                f"The connection broke: {explain(error)}.",
                "Whether the server carried the request out is unknown.",
                answered=self._conversation.answered,
            ) from error

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(_READ)
        except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def close(self) -> None:
        """End the connection in both directions, with a notice if it is in order."""
        with contextlib.suppress(OSError, ValueError):
            if self.reusable:
                self._channel.setblocking(False)
                self._channel.unwrap()
        self._channel.close()

    abort = close


@coroutine
def handed_out(reply: Reply) -> Generator[Reply, None, None]:
    """Suspend with a reply: see :func:`agtphost.client.sync.Client.call`."""
    yield reply


def connect(
    destination: Destination,
    context: ssl.SSLContext,
    limits: Limits,
    deadline: Deadline,
    opened: socket.socket | None = None,
) -> BlockingConnection:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :param opened: a connection of TCP to that server, which is used or closed; None: one is made.
    :raises agtphost.client.errors.CannotConnect: if no server answers there.
    :raises agtphost.client.errors.TLSRefused: if one side refuses the other.
    :raises agtphost.client.errors.Timeout: if it takes too long.
    """
    raw = _open_tcp(destination, deadline) if opened is None else opened
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The context detaches `raw`'s descriptor on success and closes it on failure.
    with contextlib.ExitStack() as unless_connected:
        unless_connected.callback(raw.close)
        try:
            raw.settimeout(deadline.remaining(f"shaking hands with {destination}"))
            channel = context.wrap_socket(raw, server_hostname=destination.host)
        except TimeoutError:
            raise deadline.timeout_error() from None
        except OSError as error:
            raise tls.handshake_failed(error, destination.host) from error
        except ValueError as error:
            raise tls.unnameable(destination.host) from error
        unless_connected.callback(channel.close)
        tls.verify_peer_name(channel.getpeercert(binary_form=True) or b"", destination.host)
        unless_connected.pop_all()
    return BlockingConnection(channel, limits)


def _open_tcp(destination: Destination, deadline: Deadline) -> socket.socket:
    doing = f"connecting to {destination}"
    deadline.remaining(doing)
    try:
        with contextlib.closing(TcpAttempts(destination, deadline.clock)) as attempts:
            channel = attempts.connect(deadline.remaining(doing))  # Finding the addresses may have taken most of it.
    except (OSError, UnicodeError) as error:
        raise tls.cannot_connect(error, destination) from error
    if channel is None:
        raise deadline.timeout_error()
    return channel
