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
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from agtphost.client import bootstrap_blocking, tls
from agtphost.client.bootstrap import ASK_DOMAINS, BootstrapPolicy
from agtphost.client.caller import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    Caller,
    CallOptions,
    Resolvers,
    no_manifest,
    server_of,
    timed_out,
)
from agtphost.client.catalogs import agree, check_versions
from agtphost.client.conversation import CLIENT_LIMITS, Conversation
from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost, Timeout
from agtphost.client.manifests import ServerManifest, read_manifest
from agtphost.client.pool import IDLE_SECONDS, PER_DESTINATION, Pool
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall, Scopes
from agtphost.client.resolution import Ask, Believing, Resolution, locating, question, verifying
from agtphost.client.retries import RetryPolicy
from agtphost.client.verification import signing_keys_of
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.uris import AgtpUri
from agtphost.wire.codec import Limits

_READ = 65536

Clock = Callable[[], float]
T = TypeVar("T")


class Deadline:
    """A moment after which a call is given up."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock() + seconds

    def remaining(self, doing: str) -> float:
        """
        Seconds left.

        :param doing: what would have to wait, for the error.
        :raises Timeout: if there are none.
        """
        left = self._end - self._clock()
        if left <= 0:
            raise self.passed(doing)
        return left

    def passed(self, doing: str) -> Timeout:
        """The error that says so."""
        return timed_out(self._seconds, doing)


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

    @property
    def answered(self) -> bool:
        """Whether any octet of an answer to the last call arrived."""
        return self._conversation.answered

    def replies(self, call: PreparedCall, deadline: Deadline) -> Iterator[Reply]:
        """
        Make a call; yields its interim replies and, last, the final one.

        :raises ClientError: if there is none.
        """
        octets = self._conversation.ask(call)
        self.used = True
        try:
            self._channel.settimeout(deadline.remaining("sending the request"))
            # A server that refuses early may end the connection while we write: its answer is still there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                self._channel.sendall(octets)
            while True:
                self._channel.settimeout(deadline.remaining("waiting for the answer"))
                for reply in self._conversation.receive(self._receive()):
                    yield reply
                    if not reply.interim:
                        return
        except TimeoutError:
            raise deadline.passed("waiting for the answer") from None
        except ssl.SSLError as error:
            raise tls.refused(error.reason or "") from error
        except OSError as error:
            raise ConnectionLost(
                f"The connection broke: {error.strerror or error}.",
                "Whether the server carried the request out is unknown.",
                answered=self.answered,
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
        raise deadline.passed(f"connecting to {destination}") from None
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
        return deadline.passed(f"shaking hands with {destination}")
    if isinstance(error, ssl.SSLEOFError):
        return tls.refused("")
    if isinstance(error, ssl.SSLError):
        return tls.refused(error.reason or "")
    return tls.refused(error.strerror or "")


_NAME_MISMATCH = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


class Client:
    """
    Calls AGTP hosts; a context manager that keeps connections open between calls.

    :param trust: a PEM file of CA certificates; None for the platform's.
    :param cert: a PEM file with the client certificate; its Agent-ID is the default of ``agent_id``.
    :param key: a PEM file with its private key.
    :param agent_id: whom to call as; None: whom the certificate names, or nobody.
    :param scopes: what calls claim unless they say otherwise.
    :param session_id: what calls carry unless they say otherwise.
    :param resolver: the URI of a host that knows Agent-IDs, or several; needed for Form 1 URIs.
    :param connect_timeout: seconds for name, TCP and TLS together.
    :param timeout: seconds for a whole call.
    :param connections: how many to one destination at most.
    :param idle: seconds that a connection is kept unused.
    :param retries: how many times a repeatable call answered with 429 or 503 is made again.
    :param limits: sizes of an answer.
    :param bootstrap: how :meth:`resolve` asks domains for their AGTP endpoint; None asks nobody.
    :param plain_parameters: sends parameters at the top of the body, for servers that know no envelope.
    :raises InvalidCall: for files and identifiers that cannot be used.
    """

    def __init__(
        self,
        *,
        trust: str | Path | None = None,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        agent_id: str | None = None,
        scopes: Scopes = None,
        session_id: str | None = None,
        resolver: Resolvers = None,
        connect_timeout: float = CONNECT_SECONDS,
        timeout: float = CALL_SECONDS,
        connections: int = PER_DESTINATION,
        idle: float = IDLE_SECONDS,
        retries: int = 0,
        limits: Limits = CLIENT_LIMITS,
        bootstrap: BootstrapPolicy | None = ASK_DOMAINS,
        plain_parameters: bool = False,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._caller = Caller(
            trust=trust,
            cert=cert,
            key=key,
            agent_id=agent_id,
            scopes=scopes,
            session_id=session_id,
            resolver=resolver,
            policy=RetryPolicy(statuses=retries),
            bootstrap=bootstrap,
            plain_parameters=plain_parameters,
        )
        self._context = tls.stdlib_context(self._caller.settings)
        self._limits = limits
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._pool: Pool[Destination, Link] = Pool(bound=connections, idle=idle)
        self._changed = threading.Condition()
        self._reading = threading.Lock()

    @property
    def agent_id(self) -> str | None:
        """Whom calls are made as; None for anonymous ones."""
        return self._caller.identity.agent_id

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no call is using; the others close when their calls end."""
        with self._changed:
            idle = self._pool.drain()
        for _, link in idle:
            link.close()

    # Calls

    def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Callable[[Reply], object] | None = None,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Make one call.

        :param input: the method's parameters.
        :param stream: takes each interim reply as it arrives, and asks the server for them.
        :param timeout: seconds, instead of the client's.
        :param options: see :class:`~agtphost.client.caller.CallOptions`.
        :return: the final reply, whatever its status.
        :raises ClientError: if there is none.
        """
        call = self._caller.prepare(uri, method, path, input, streaming=stream is not None, **options)
        return self._final(call, timeout, stream)

    def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """The same call as an iterator over its interim replies and, last, the final one."""
        call = self._caller.prepare(uri, method, path, input, streaming=True, **options)
        return self._replies(call, timeout)

    def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply:
        """
        What a URI addresses: an Identity Document, a manifest, a namespace (core v08 section 6.1).

        A redirect is followed once. Nothing but the Agent-ID is checked: :meth:`resolution` checks everything.

        :param format: ``manifest``, ``json``, ``yaml``, ``html``, ``certificate`` or ``status``.
        :raises VerificationFailed: if the document is of another agent than the URI names.
        """
        located = self._resolving(locating(question(uri, format), self._caller.resolvers))
        return located.reply

    def resolution(
        self,
        uri: str | AgtpUri,
        format: str | None = None,
        *,
        believing: Believing = Believing(),  # noqa: B008
    ) -> Resolution:
        """
        What a URI addresses, put to every check: the level 2 check of core v08 section 10.2 for agents.

        A check that fails is in the answer, and no exception.

        :param believing: whose signatures count, and how old a Namespace Document may be.
        :raises VerificationFailed: if the answer is of another agent than the URI names.
        """
        bootstraps = self._caller.bootstraps
        return self._resolving(
            verifying(question(uri, format), self._caller.resolvers, believing, bootstraps.located, time.time)
        )

    def fetch_signing_keys(self, uri: str | AgtpUri) -> KeyRing:
        """
        The keys that a server says it signs records with, by ``kid``, from its manifest.

        Trust in them is trust in the server's TLS certificate.

        :raises VerificationFailed: if it publishes none.
        """
        reply = self.call(server_of(uri), "DISCOVER", anonymous=True)
        if not reply.ok:
            raise no_manifest(reply)
        return signing_keys_of(read_manifest(reply))

    def manifest(
        self,
        uri: str | AgtpUri,
        *,
        keys: Mapping[str, VerifyingKey] | None = None,
        timeout: float | None = None,
    ) -> ServerManifest:
        """
        The manifest of a server, from memory as long as it may be kept.

        From the first time on, calls to this server compare its
        ``AGTP-API-Version``, and read the manifest again before the next call
        once it changed (core v08 section 7.6).

        :param keys: that may have signed it, by ``kid``; None: those given before. An absent or invalid
            signature is warned of (:class:`.manifests.ManifestWarning`), and the manifest returned all the same.
        :raises VerificationFailed: if the server does not show one.
        """
        call = self._caller.manifest_call(uri)
        kept = self._caller.manifests.fresh(call.destination, keys, self._clock())
        return kept if kept is not None else self._read_manifest(call, keys, timeout)

    def negotiate_catalog(self, uri: str | AgtpUri, preferred: str, known: Collection[str] | None = None) -> str:
        """
        Agree with a server on a version of the method catalog (AGTP-API section 4.6).

        Where the server has several, later calls of this client to it state the version.

        :param preferred: the client's own version; taken wherever the server has it.
        :param known: every version the client can work with; None: those of the preferred one's MAJOR version.
        :return: the preferred version, else the highest in common.
        :raises CatalogMismatch: if there is none.
        :raises VerificationFailed: if the server does not show its manifest, or that does not say.
        """
        check_versions(preferred, known)
        server = server_of(uri)
        reply = self.call(server, "DISCOVER", anonymous=True)
        if not reply.ok:
            raise no_manifest(reply)
        return self._caller.agreed(server, agree(reply, preferred, known))

    # Manifests and domains

    def _read_manifest(
        self, call: PreparedCall, keys: Mapping[str, VerifyingKey] | None, timeout: float | None
    ) -> ServerManifest:
        reply = self._final(call, timeout, None)
        if not reply.ok:
            raise no_manifest(reply)
        return self._caller.manifests.adopt(call.destination, reply, keys, self._clock())

    def _resolving(self, steps: Generator[Ask, Reply, T]) -> T:
        """Carry out a procedure of resolution: ask what it wants to know, and tell it the answers."""
        answer: Reply | None = None
        failure: ClientError | None = None
        while True:
            try:
                ask = steps.throw(failure) if failure is not None else steps.send(answer)  # type: ignore[arg-type]
            except StopIteration as ended:
                result: T = ended.value
                return result
            answer = failure = None
            try:
                self._bootstrap(ask.uri)
                answer = self.call(ask.uri, ask.method, anonymous=ask.anonymous)
            except ClientError as error:
                failure = error

    def _bootstrap(self, uri: AgtpUri) -> None:
        """Ask the URI's domain where its endpoint is, if it was not asked before."""
        bootstraps = self._caller.bootstraps
        domain = bootstraps.unasked(uri, self._clock())
        if domain is not None and bootstraps.policy is not None:
            answer = bootstrap_blocking.ask(domain, self._caller.settings, bootstraps.policy)
            bootstraps.note(domain, answer, self._clock())

    # The steps of a call

    def _final(self, call: PreparedCall, timeout: float | None, stream: Callable[[Reply], object] | None) -> Reply:
        for reply in self._replies(call, timeout):
            if not reply.interim:
                return reply
            if stream is not None:
                stream(reply)
        raise AssertionError("a call ends with a final reply or an error")

    def _replies(self, call: PreparedCall, timeout: float | None) -> Iterator[Reply]:
        if self._caller.manifests.stale(call):
            # Once for all threads that wait.
            with self._reading:
                if self._caller.manifests.stale(call):
                    self._read_manifest(self._caller.manifest_call(call.destination), None, timeout)
        deadline = Deadline(self._clock, self._timeout if timeout is None else timeout)
        policy = self._caller.policy
        attempt = 1
        while True:
            for reply in self._reconnecting(call, deadline):
                wait = None
                if not reply.interim:
                    self._caller.note(call, reply)
                    wait = policy.wait_after(reply, call.repeatable, attempt)
                if wait is None:
                    yield reply
                    if not reply.interim:
                        return
            attempt += 1
            if wait is not None:
                if wait >= deadline.remaining("waiting to call again"):
                    yield reply
                    return
                self._sleep(wait)

    def _reconnecting(self, call: PreparedCall, deadline: Deadline) -> Iterator[Reply]:
        """One call over a pooled connection, and once more over a new one if that was dead."""
        attempt = 1
        while True:
            link = self._borrow(call.destination, deadline)
            reused = link.used
            try:
                yield from link.replies(call, deadline)
                return
            except ConnectionLost as error:
                again = self._caller.policy.may_reconnect(
                    call.repeatable, reused=reused, answered=error.answered, attempt=attempt
                )
                if not again:
                    raise
                self._drop_idle(call.destination)
            finally:
                self._return(call.destination, link)
            attempt += 1

    def _borrow(self, key: Destination, deadline: Deadline) -> Link:
        while True:
            with self._changed:
                now = self._clock()
                for _, old in self._pool.stale(now):
                    old.close()
                link = self._pool.take(key, now)
                if link is None and not self._pool.open(key):
                    self._changed.wait(deadline.remaining("waiting for a free connection"))
                    continue
            if link is None:
                return self._open(key, deadline)
            if link.fresh:
                return link
            self._discard(key, link)

    def _open(self, key: Destination, deadline: Deadline) -> Link:
        """A new connection; its time is the smaller of what connecting and the call are allowed."""
        try:
            seconds = min(self._connect_timeout, deadline.remaining(f"connecting to {key}"))
            return connect(key, self._context, self._limits, Deadline(self._clock, seconds))
        except BaseException:
            with self._changed:
                self._pool.gone(key)
                self._changed.notify()
            raise

    def _return(self, key: Destination, link: Link) -> None:
        if not link.reusable:
            self._discard(key, link)
            return
        with self._changed:
            self._pool.give_back(key, link, self._clock())
            self._changed.notify()

    def _discard(self, key: Destination, link: Link) -> None:
        link.close()
        with self._changed:
            self._pool.gone(key)
            self._changed.notify()

    def _drop_idle(self, key: Destination) -> None:
        with self._changed:
            dropped = self._pool.drop(key)
            self._changed.notify_all()
        for link in dropped:
            link.close()


__all__ = ["Client", "ClientError", "Reply"]
