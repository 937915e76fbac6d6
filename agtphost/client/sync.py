"""
The blocking client, for scripts and the command line: standard library sockets, no reactor.

Has the options, rules and errors of :class:`agtphost.client.Client`. Safe to
share between threads: each call has a connection to itself while it runs.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Generator, Iterator, Mapping
from types import TracebackType, coroutine
from typing import Any, TypeVar, Unpack

from agtphost.client import blocking_https, purchasing, tls
from agtphost.client.bootstrap import BootstrapPolicy, HTTPAnswer
from agtphost.client.caller import CallOptions, ClientOptions
from agtphost.client.calls import Calls, Clock, Deadline, Stream, completed, patient
from agtphost.client.conversation import Conversation
from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost
from agtphost.client.manifests import ServerManifest
from agtphost.client.purchasing import Counterparty
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.resolution import Resolution, TrustPolicy
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.uris import AgtpUri
from agtphost.wire.codec import Limits

_READ = 65536

T = TypeVar("T")


class Link:
    """
    One TLS connection to one server, verified.

    :param channel: after its handshake.
    """

    def __init__(self, channel: ssl.SSLSocket, limits: Limits) -> None:
        self._channel = channel
        self._conversation = Conversation(limits)
        self.used = False
        """Whether a call was made over it before."""

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call: nothing is out, and neither octets nor an end arrived meanwhile."""
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

        :raises ClientError: if there is no final reply.
        """
        deadline.remaining("sending the request")
        octets = self._conversation.ask(call)
        self.used = True
        try:
            self._channel.settimeout(deadline.left)
            # A server that refuses early may end the connection while we write: its answer is still there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                self._channel.sendall(octets)
            while True:
                self._channel.settimeout(deadline.remaining("waiting for the answer"))
                for reply in self._conversation.receive(self._receive()):
                    if not reply.interim:
                        return reply
                    if stream is not None:
                        await _handed_out(reply)
        except TimeoutError:
            raise deadline.passed() from None
        except ssl.SSLError as error:
            raise tls.refused(error.reason or "") from error
        except OSError as error:
            raise ConnectionLost(
                f"The connection broke: {error.strerror or error}.",
                "Whether the server carried the request out is unknown.",
                answered=self._conversation.answered,
            ) from error

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(_READ)
        except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def close(self) -> None:
        """End the connection in both directions at once, with a notice if it is in order."""
        with contextlib.suppress(OSError, ValueError):
            if self.reusable:
                self._channel.setblocking(False)
                self._channel.unwrap()
        self._channel.close()

    abort = close


@coroutine
def _handed_out(reply: Reply) -> Generator[Reply, None, None]:
    """Suspend with a reply: see :func:`_replies`."""
    yield reply


def _replies(work: Coroutine[Reply, None, Reply]) -> Iterator[Reply]:
    """Carry out a call: what it hands out, and its result."""
    with contextlib.closing(work):
        try:
            while True:
                yield work.send(None)
        except StopIteration as ended:
            final: Reply = ended.value
        yield final


def connect(destination: Destination, context: ssl.SSLContext, limits: Limits, deadline: Deadline) -> Link:
    """
    Connect, and verify the server before a single octet of a request can be sent.

    :raises CannotConnect: if nobody answers there.
    :raises TLSRefused: if one side refuses the other.
    :raises Timeout: if it takes too long.
    """
    try:
        raw = socket.create_connection(
            (destination.host, destination.port), deadline.remaining(f"connecting to {destination}")
        )
    except TimeoutError:
        raise deadline.passed() from None
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotConnect(
            f"Cannot connect to {destination}: {why}.", "Check host and port, and that the host is running."
        ) from error
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The context detaches `raw`'s descriptor on success and closes it on failure.
    with contextlib.ExitStack() as unless_connected:
        unless_connected.callback(raw.close)
        try:
            raw.settimeout(deadline.remaining(f"shaking hands with {destination}"))
            channel = context.wrap_socket(raw, server_hostname=destination.host)
        except OSError as error:
            raise _handshake_error(error, destination, deadline) from error
        except ValueError as error:
            raise CannotConnect(f"{destination.host} cannot be the name of a TLS server.") from error
        unless_connected.callback(channel.close)
        tls.verify_peer_name(channel.getpeercert(binary_form=True) or b"", destination.host)
        unless_connected.pop_all()
    return Link(channel, limits)


def _handshake_error(error: OSError, destination: Destination, deadline: Deadline) -> ClientError:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAME_MISMATCH:
            return tls.wrong_name(destination.host)
        return tls.refused("certificate verify failed", error.verify_message)
    if isinstance(error, TimeoutError):
        return deadline.passed()
    if isinstance(error, ssl.SSLEOFError):
        return tls.refused("")
    if isinstance(error, ssl.SSLError):
        return tls.refused(error.reason or "")
    return tls.refused(error.strerror or "")


_NAME_MISMATCH = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


class _BlockingCalls(Calls[Link]):
    """The procedures of the client, where whatever has to be waited for blocks the thread."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None], **options: Unpack[ClientOptions]) -> None:
        super().__init__(clock, **options)
        self._blocks = sleep
        self._context = tls.stdlib_context(self._caller.settings)
        self._guard = self._changed = threading.Condition()
        self._lock = threading.Lock()

    def begin(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str,
        input: Mapping[str, Any] | None,
        stream: Stream | None,
        timeout: float | None,
        patience: float | None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """A call that is known to be well-formed, to be carried out by iterating over its replies."""
        options = patient(options, stream, patience)
        call = self._caller.prepare(uri, method, path, input, streaming=stream is not None, **options)
        return _replies(self._decided(call, stream, timeout, patience))

    def close(self) -> None:
        for link in self._drain():
            link.close()

    async def _limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        return await work  # Whatever blocks asks the deadline for how long.

    async def _freed(self, key: Destination, deadline: Deadline) -> None:
        self._changed.wait(deadline.left)

    def _wake(self, key: Destination) -> None:
        self._changed.notify_all()

    async def _sleep(self, seconds: float) -> None:
        self._blocks(seconds)

    @contextlib.asynccontextmanager
    async def _reading(self, key: Destination) -> AsyncIterator[None]:
        with self._lock:
            yield

    async def _fetch(self, domain: str, policy: BootstrapPolicy) -> HTTPAnswer | str:
        return blocking_https.bootstrap(domain, self._caller.settings, policy)

    async def _connect(self, key: Destination, deadline: Deadline) -> Link:
        return connect(key, self._context, self._limits, deadline)


class Client:
    """
    Calls AGTP hosts; a context manager that keeps connections open between calls.

    :param clock: seconds, never going back.
    :param sleep: lets them pass.
    :param options: see :class:`~agtphost.client.caller.ClientOptions`.
    :raises InvalidCall: for files and identifiers that cannot be used.
    """

    def __init__(
        self,
        *,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._calls = _BlockingCalls(clock, sleep, **options)

    @property
    def agent_id(self) -> str | None:
        """Whom calls are made as; None for anonymous ones."""
        return self._calls.agent_id

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no call is using; the others close when their calls end."""
        self._calls.close()

    def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """Make one call: see :meth:`agtphost.client.Client.call`."""
        for reply in self._calls.begin(uri, method, path, input, stream, timeout, wait_for_approval, **options):
            if not reply.interim:
                return reply
            if stream is not None:
                stream(reply)
        raise AssertionError("a call ends with a final reply or an error")

    def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """The same call as an iterator over its interim replies and, last, the final one."""
        return self._calls.begin(uri, method, path, input, lambda _: None, timeout, wait_for_approval, **options)

    def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply:
        """What a URI addresses: see :meth:`agtphost.client.Client.resolve`."""
        return completed(self._calls.resolve(uri, format))

    def resolution(
        self,
        uri: str | AgtpUri,
        format: str | None = None,
        *,
        policy: TrustPolicy = TrustPolicy(),  # noqa: B008
    ) -> Resolution:
        """What a URI addresses, put to every check: see :meth:`agtphost.client.Client.resolution`."""
        return completed(self._calls.resolution(uri, format, policy=policy))

    def fetch_signing_keys(self, uri: str | AgtpUri) -> KeyRing:
        """The keys that a server signs with: see :meth:`agtphost.client.Client.fetch_signing_keys`."""
        return completed(self._calls.fetch_signing_keys(uri))

    def manifest(
        self,
        uri: str | AgtpUri,
        *,
        keys: Mapping[str, VerifyingKey] | None = None,
        timeout: float | None = None,
    ) -> ServerManifest:
        """The manifest of a server: see :meth:`agtphost.client.Client.manifest`."""
        return completed(self._calls.manifest(uri, keys=keys, timeout=timeout))

    def negotiate_catalog(self, uri: str | AgtpUri, preferred: str, known: Collection[str] | None = None) -> str:
        """Agree on a version of the method catalog: see :meth:`agtphost.client.Client.negotiate_catalog`."""
        return completed(self._calls.negotiate_catalog(uri, preferred, known))


class Buyer:
    """
    Buys from merchants that it verified: see :class:`agtphost.client.Buyer`.

    :param client: makes the calls, as its own agent.
    :param registrars: keys that merchants' documents have to be signed with; without any, a signature may be missing.
    """

    def __init__(self, client: Client, registrars: Collection[VerifyingKey] = ()) -> None:
        self._buyer = purchasing.Buyer(client._calls, registrars)

    def verify(self, uri: str | AgtpUri, merchant_id: str | None = None) -> Counterparty:
        """See :meth:`agtphost.client.Buyer.verify`."""
        return completed(self._buyer.verify(uri, merchant_id))

    def purchase(
        self,
        uri: str | AgtpUri,
        path: str,
        input: Mapping[str, Any],
        *,
        counterparty: Counterparty | None = None,
        intent_assertion: str | None = None,
        cart_digest: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """See :meth:`agtphost.client.Buyer.purchase`."""
        return completed(
            self._buyer.purchase(
                uri,
                path,
                input,
                counterparty=counterparty,
                intent_assertion=intent_assertion,
                cart_digest=cart_digest,
                **options,
            )
        )


__all__ = ["Buyer", "Client", "ClientError", "Reply"]
