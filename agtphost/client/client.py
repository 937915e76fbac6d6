"""The Twisted client."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from twisted.internet import error as network
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, DeferredQueue, gatherResults
from twisted.internet.endpoints import HostnameEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from agtphost.client.bootstrap import ASK_DOMAINS, BootstrapPolicy
from agtphost.client.bootstrap_fetch import BootstrapFetcher
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
from agtphost.client.connection import Link, LinkFactory
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost
from agtphost.client.manifests import ServerManifest, read_manifest
from agtphost.client.pool import IDLE_SECONDS, PER_DESTINATION, Pool
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall, Scopes
from agtphost.client.resolution import Ask, Believing, Resolution, locating, question, verifying
from agtphost.client.retries import RetryPolicy
from agtphost.client.terminal import escape
from agtphost.client.tls_context import ConnectionCreator, HandshakeNotes, openssl_context
from agtphost.client.verification import signing_keys_of
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.uris import AgtpUri
from agtphost.wire.codec import Limits

T = TypeVar("T")


class Client:
    """
    Calls AGTP hosts over persistent, pooled connections; ``async with`` closes them.

    :param reactor: provides IReactorTime, IReactorTCP and name resolution.
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
        reactor: Any,
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
    ) -> None:
        self._reactor = reactor
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
        self._context = openssl_context(self._caller.settings)
        self._limits = limits
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._pool: Pool[Destination, Link] = Pool(bound=connections, idle=idle)
        self._waiting: dict[Destination, deque[Deferred[None]]] = defaultdict(deque)
        self._reading: dict[Destination, DeferredLock] = {}
        self._closed = False

    @property
    def agent_id(self) -> str | None:
        """Whom calls are made as; None for anonymous ones."""
        return self._caller.identity.agent_id

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""
        self._closed = True
        await gatherResults([link.close() for _, link in self._pool.drain()])

    # Calls

    async def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Callable[[Reply], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Make one call. Cancelling it drops its connection.

        :param input: the method's parameters.
        :param stream: takes each interim reply as it arrives, and asks the server for them.
        :param timeout: seconds, instead of the client's.
        :param options: see :class:`~agtphost.client.caller.CallOptions`.
        :return: the final reply, whatever its status.
        :raises ClientError: if there is none.
        """
        call = self._caller.prepare(uri, method, path, input, streaming=stream is not None, **options)
        seconds = self._timeout if timeout is None else timeout
        if self._caller.manifests.stale(call):
            await self._read_again(call, seconds)
        progress = _Progress()
        return await self._limited(self._make(call, stream, progress, seconds), seconds, progress)

    async def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[Reply]:
        """The same call as an iterator over its interim replies and, last, the final one."""
        arrived: DeferredQueue[Reply | Failure] = DeferredQueue()
        running = Deferred.fromCoroutine(
            self.call(uri, method, path, input, stream=arrived.put, timeout=timeout, **options)
        )
        running.addBoth(arrived.put)
        try:
            while True:
                reply = await arrived.get()
                if isinstance(reply, Failure):
                    reply.raiseException()
                    return
                yield reply
                if not reply.interim:
                    return
        finally:
            running.cancel()

    async def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply:
        """
        What a URI addresses: an Identity Document, a manifest, a namespace (core v08 section 6.1).

        A redirect is followed once. Nothing but the Agent-ID is checked: :meth:`resolution` checks everything.

        :param format: ``manifest``, ``json``, ``yaml``, ``html``, ``certificate`` or ``status``.
        :raises VerificationFailed: if the document is of another agent than the URI names.
        """
        located = await self._resolving(locating(question(uri, format), self._caller.resolvers))
        return located.reply

    async def resolution(
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
        return await self._resolving(
            verifying(question(uri, format), self._caller.resolvers, believing, bootstraps.located, time.time)
        )

    async def fetch_signing_keys(self, uri: str | AgtpUri) -> KeyRing:
        """
        The keys that a server says it signs records with, by ``kid``, from its manifest.

        Trust in them is trust in the server's TLS certificate.

        :raises VerificationFailed: if it publishes none.
        """
        reply = await self.call(server_of(uri), "DISCOVER", anonymous=True)
        if not reply.ok:
            raise no_manifest(reply)
        return signing_keys_of(read_manifest(reply))

    async def manifest(
        self,
        uri: str | AgtpUri,
        *,
        keys: Mapping[str, VerifyingKey] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
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
        kept = self._caller.manifests.fresh(call.destination, keys, self._reactor.seconds())
        if kept is not None:
            return kept
        return await self._read_manifest(call, keys, self._timeout if timeout is None else timeout)

    async def negotiate_catalog(self, uri: str | AgtpUri, preferred: str, known: Collection[str] | None = None) -> str:
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
        reply = await self.call(server, "DISCOVER", anonymous=True)
        if not reply.ok:
            raise no_manifest(reply)
        return self._caller.agreed(server, agree(reply, preferred, known))

    # Manifests and domains

    async def _read_manifest(
        self, call: PreparedCall, keys: Mapping[str, VerifyingKey] | None, seconds: float
    ) -> ServerManifest:
        progress = _Progress()
        reply = await self._limited(self._make(call, None, progress, seconds), seconds, progress)
        if not reply.ok:
            raise no_manifest(reply)
        return self._caller.manifests.adopt(call.destination, reply, keys, self._reactor.seconds())

    async def _read_again(self, call: PreparedCall, seconds: float) -> None:
        """The manifest of a call's server changed: read it before the call, once for all calls that wait."""
        lock = self._reading.setdefault(call.destination, DeferredLock())
        await lock.acquire()
        try:
            if self._caller.manifests.stale(call):
                await self._read_manifest(self._caller.manifest_call(call.destination), None, seconds)
        finally:
            lock.release()

    async def _resolving(self, steps: Generator[Ask, Reply, T]) -> T:
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
                await self._bootstrap(ask.uri)
                answer = await self.call(ask.uri, ask.method, anonymous=ask.anonymous)
            except ClientError as error:
                failure = error

    async def _bootstrap(self, uri: AgtpUri) -> None:
        """Ask the URI's domain where its endpoint is, if it was not asked before."""
        bootstraps = self._caller.bootstraps
        domain = bootstraps.unasked(uri, self._reactor.seconds())
        if domain is not None and bootstraps.policy is not None:
            fetcher = BootstrapFetcher(self._reactor, self._caller.settings, bootstraps.policy)
            bootstraps.note(domain, await fetcher.ask(domain), self._reactor.seconds())

    # The steps of a call

    async def _limited(self, work: Awaitable[T], seconds: float, progress: _Progress) -> T:
        """Give ``work`` that many seconds, then cancel it, wherever it waits."""

        def expired(result: object, after: float) -> object:
            if isinstance(result, Failure) and isinstance(result.value, (CancelledError, ClientError)):
                raise timed_out(after, progress.doing)
            return result

        running: Deferred[T] = Deferred.fromCoroutine(work)  # type: ignore[arg-type]
        running.addTimeout(seconds, self._reactor, onTimeoutCancel=expired)
        return await running

    async def _make(
        self,
        call: PreparedCall,
        stream: Callable[[Reply], object] | None,
        progress: _Progress,
        seconds: float,
    ) -> Reply:
        end = self._reactor.seconds() + seconds
        attempt = 1
        while True:
            reply = await self._reconnecting(call, stream, progress)
            self._caller.note(call, reply)
            wait = self._caller.policy.wait_after(reply, call.repeatable, attempt)
            if wait is None or self._reactor.seconds() + wait >= end:
                return reply
            progress.doing = "waiting to call again"
            await _sleep(self._reactor, wait)
            attempt += 1

    async def _reconnecting(
        self, call: PreparedCall, stream: Callable[[Reply], object] | None, progress: _Progress
    ) -> Reply:
        """One call over a pooled connection, and once more over a new one if that was dead."""
        attempt = 1
        while True:
            link = await self._borrow(call.destination, progress)
            reused = link.used
            progress.doing = "waiting for the answer"
            try:
                return await link.perform(call, stream)
            except ConnectionLost as error:
                again = self._caller.policy.may_reconnect(
                    call.repeatable, reused=reused, answered=error.answered, attempt=attempt
                )
                if not again:
                    raise
                for old in self._pool.drop(call.destination):
                    old.abort()
            finally:
                self._return(call.destination, link)
            attempt += 1

    async def _borrow(self, key: Destination, progress: _Progress) -> Link:
        while True:
            now = self._reactor.seconds()
            for _, old in self._pool.stale(now):
                old.close()
            link = self._pool.take(key, now)
            if link is None:
                if self._pool.open(key):
                    return await self._open(key, progress)
                progress.doing = "waiting for a free connection"
                await self._wait(key)
            elif link.reusable:
                return link
            else:
                self._pool.gone(key)

    def _wait(self, key: Destination) -> Deferred[None]:
        waiting = self._waiting[key]
        turn: Deferred[None] = Deferred(waiting.remove)
        waiting.append(turn)
        return turn

    def _wake(self, key: Destination) -> None:
        waiting = self._waiting.get(key)
        if waiting:
            waiting.popleft().callback(None)
        elif waiting is not None:
            del self._waiting[key]

    async def _open(self, key: Destination, progress: _Progress) -> Link:
        progress.doing = f"connecting to {key}"
        try:
            return await self._limited(self._connect(key, progress), self._connect_timeout, progress)
        except BaseException:
            self._pool.gone(key)
            self._wake(key)
            raise

    async def _connect(self, key: Destination, progress: _Progress) -> Link:
        """A connection whose server is verified."""
        notes = HandshakeNotes()
        link = Link(key.host, notes, self._limits, self._reactor, lambda ended: self._ended(key, ended))
        creator = ConnectionCreator(self._context, key.host, notes)
        factory = TLSMemoryBIOFactory(creator, True, LinkFactory(link), self._reactor)
        endpoint = HostnameEndpoint(self._reactor, key.host, key.port, timeout=self._connect_timeout)
        try:
            await endpoint.connect(factory)
        except (network.ConnectError, network.DNSLookupError, OSError, UnicodeError, ValueError) as error:
            raise CannotConnect(
                f"Cannot connect to {key}: {escape(str(error)).rstrip('.')}.",
                "Check host and port, and that the host is running.",
            ) from error
        progress.doing = f"shaking hands with {key}"
        return await link.ready

    def _return(self, key: Destination, link: Link) -> None:
        if link.reusable and not self._closed:
            self._pool.give_back(key, link, self._reactor.seconds())
        else:
            self._pool.gone(key)
            if self._closed and link.reusable:
                link.close()
            else:
                link.abort()
        self._wake(key)

    def _ended(self, key: Destination, link: Link) -> None:
        """A connection ended: if it was free, it is no more."""
        if self._pool.remove(key, link):
            self._wake(key)


class _Progress:
    """What a call is doing at the moment, for the error that says it took too long."""

    def __init__(self) -> None:
        self.doing = "starting"


def _sleep(clock: Any, seconds: float) -> Deferred[None]:
    slept: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = clock.callLater(seconds, slept.callback, None)
    return slept
