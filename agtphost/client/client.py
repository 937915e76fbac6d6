"""The Twisted client."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack
from weakref import WeakValueDictionary

from twisted.internet.base import ReactorBase
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, DeferredQueue, gatherResults
from twisted.internet.task import deferLater
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from agtphost.client.async_calls import AsyncCalls
from agtphost.client.bootstrap import BootstrapPolicy, HTTPAnswer
from agtphost.client.bootstrap_fetch import BootstrapFetcher
from agtphost.client.caller import CallOptions, ClientOptions
from agtphost.client.carrier_race import ConnectionRace
from agtphost.client.connection import ConnectionFactory, TwistedConnection, fire
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError, InvalidCall, Timeout
from agtphost.client.host import Host
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination
from agtphost.client.target import find_for_client as found_target
from agtphost.client.tls_context import ConnectionCreator, HandshakeNotes, openssl_context
from agtphost.client.twisted_attempts import connect_by_tcp, start_attempt
from agtphost.vocabulary import times
from agtphost.vocabulary.uris import AgtpUri

if TYPE_CHECKING:
    from agtphost.client.quic.twisted import TwistedQuicConnection

T = TypeVar("T")
A = TypeVar("A")


AnyConnection: TypeAlias = "TwistedConnection | TwistedQuicConnection"


MOST_DRAINING = 3
"""Connections to a host with unwanted answers. With so many a call waits for one of them in place of a handshake."""

DRAIN_PATIENCE = 0.1
"""Seconds that a call waits for the oldest of them, which ends then."""


EARLY = 0.001
"""Seconds that a timer may be early, since clocks are rounded; one that is earlier was moved by the system's clock."""


def _find_clock(reactor: Any) -> Clock:
    """Return a clock that is never set, unlike the system's, which Twisted's reactors read; a test's own as it is."""
    return times.steady if isinstance(reactor, ReactorBase) else reactor.seconds


class Client(AsyncCalls[AnyConnection]):
    """
    Calls AGTP hosts over persistent, pooled connections; ``async with`` closes them.

    :param reactor: provides IReactorTime, IReactorTCP and name resolution; for QUIC also IReactorUDP.
    :param options: see :class:`~agtphost.client.caller.ClientOptions`.
    :raises InvalidCall: for files and identifiers that cannot be used.
    """

    def __init__(self, reactor: Any, **options: Unpack[ClientOptions]) -> None:
        super().__init__(_find_clock(reactor), **options)
        self._reactor = reactor
        self._stays_connected = options.get("stay_connected", False)
        self._waiting: dict[Destination, deque[Deferred[None]]] = defaultdict(deque)
        self._locks: WeakValueDictionary[Destination, DeferredLock] = WeakValueDictionary()
        self._draining: dict[tuple[Destination, TwistedConnection], None] = {}
        """The connections with an answer of a cancelled call, the oldest first."""

        self._redials: set[Deferred[None]] = set()

    @classmethod
    def of(
        cls,
        reactor: Any,
        where: str | PathLike[str] | None = None,
        *,
        as_: str | None = None,
        uri: str | None = None,
        anonymous: bool = False,
        signing_key: str | PathLike[str] | None = None,
        verify: bool = True,
        **options: Unpack[ClientOptions],
    ) -> Host[Client]:
        """
        Find a host as the ``agtp`` command does: see :meth:`agtphost.client.sync.Client.of`.

        :param reactor: as for the client itself.
        """
        if isinstance(reactor, (str, PathLike)):
            raise InvalidCall(
                "The Twisted client needs a reactor.",
                "Write Client.of(reactor, ...); or use agtphost.client.sync, or agtphost.client.aio with asyncio.",
            )
        target, found = found_target(where, as_, uri, anonymous, signing_key, options)
        return Host(cls(reactor, **found), target, verify=verify)

    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""
        free = self._drain()
        for _, link in tuple(self._draining):
            link.abort()
        for dialling in tuple(self._redials):
            dialling.cancel()
        await gatherResults([link.close() for link in free])

    async def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncGenerator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one."""
        arrived: DeferredQueue[Reply | Failure] = DeferredQueue()
        more: dict[str, Any] = {"timeout": timeout, "wait_for_approval": wait_for_approval, **options}
        running = Deferred.fromCoroutine(self.call(uri, method, path, input, stream=arrived.put, **more))
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

    # Its own ways

    async def _run_limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        is_late = False
        timer: Any = self._reactor.callLater(max(deadline.seconds_left, 0), lambda: expire())

        def expire() -> None:
            nonlocal is_late, timer
            if deadline.seconds_left > EARLY:  # The system's clock was set ahead.
                timer = self._reactor.callLater(deadline.seconds_left, expire)
                return
            is_late = True
            running.cancel()

        def end(result: T | Failure) -> T | Failure:
            if timer.active():
                timer.cancel()
            is_given_up = isinstance(result, Failure) and isinstance(result.value, (CancelledError, ClientError))
            if is_late and is_given_up:
                raise deadline.timeout_error()
            return result

        running = Deferred.fromCoroutine(work)
        running.addBoth(end)
        return await running

    def _wait_freed(self, key: Destination, deadline: Deadline) -> Deferred[None]:
        waiting = self._waiting[key]
        turn: Deferred[None] = Deferred(waiting.remove)
        waiting.append(turn)
        oldest = next((link for place, link in self._draining if place == key), None)
        if oldest is not None:

            def end_oldest() -> None:
                # An unwanted answer holds up no call for long.
                if (key, oldest) in self._draining:
                    oldest.abort()
                elif turn in waiting:  # Another call has got its connection: this one looks for the next answer.
                    waiting.remove(turn)
                    turn.callback(None)

            impatient = self._reactor.callLater(DRAIN_PATIENCE, end_oldest)

            def stop(found: Failure | None) -> Failure | None:
                if impatient.active():
                    impatient.cancel()
                return found

            turn.addBoth(stop)
        return turn

    def _limit_connections(self, key: Destination) -> int:
        return 0 if self._drains_many(key) else super()._limit_connections(key)

    def _drains_many(self, key: Destination) -> bool:
        """Return whether a call waits for the end of an unwanted answer in place of a handshake."""
        return sum(place == key for place, _ in self._draining) >= MOST_DRAINING

    def _wake(self, key: Destination) -> None:
        waiting = self._waiting.get(key)
        if waiting:
            waiting.popleft().callback(None)
        elif waiting is not None:
            del self._waiting[key]

    def _wake_all(self, key: Destination, error: ClientError | None = None) -> None:
        waiting = self._waiting.pop(key, None)

        def wake() -> None:
            while waiting:
                turn = waiting.popleft()
                turn.callback(None) if error is None else turn.errback(error)

        if waiting:
            self._reactor.callLater(0, wake)  # After the call that has opened the connection.

    def _return(self, key: Destination, link: AnyConnection) -> None:
        if not isinstance(link, TwistedConnection):
            super()._return(key, link)
        elif link.drained is not None and not self._closed:
            self._draining[key, link] = None
            link.drained.addCallback(lambda _: self._end_drain(key, link))
        else:
            super()._return(key, link)
            if link.cancelled and self._stays_connected and not self._closed:
                self._redial(key)

    def _end_drain(self, key: Destination, link: TwistedConnection) -> None:
        drained_many = self._drains_many(key)
        del self._draining[key, link]
        self._return(key, link)
        if drained_many and not self._drains_many(key):
            self._wake_all(key)  # There may be further connections now, and not only one call waits for one.

    def _redial(self, key: Destination) -> None:
        """Open the next connection in the background, where a cancelled call has ended the last one."""
        if self._pool.count(key) or not self._pool.open(key, 1):
            return

        async def dial() -> None:
            # Where it fails, the next call shows what is wrong.
            with suppress(ClientError, CancelledError):
                self._return(key, await self._open(key, Deadline(self._now, self._connect_timeout)))

        dialling = Deferred.fromCoroutine(dial())
        self._redials.add(dialling)
        dialling.addBoth(lambda _: self._redials.discard(dialling))

    def _sleep(self, seconds: float) -> Deferred[None]:
        return deferLater(self._reactor, seconds)

    @asynccontextmanager
    async def _reading(self, key: Destination) -> AsyncIterator[None]:
        async with self._locks.setdefault(key, DeferredLock()):
            yield

    async def _fetch(self, domain: str, policy: BootstrapPolicy) -> HTTPAnswer | str:
        return await BootstrapFetcher(self._reactor, self._caller.settings, policy).ask(domain)

    def _load_tls(self) -> None:
        self._context = openssl_context(self._caller.settings)

    async def _race(
        self,
        by_quic: Callable[[], Coroutine[Any, Any, AnyConnection]],
        by_tls: Callable[[], Coroutine[Any, Any, AnyConnection]],
        lost: Callable[[str], object],
    ) -> AnyConnection:
        winner: Deferred[AnyConnection] = Deferred(lambda _: race.stop())
        later = self._reactor.callLater
        race: ConnectionRace[AnyConnection] = ConnectionRace(
            start_attempt, later, by_quic, by_tls, lost, lambda found: fire(winner, found)
        )
        return await winner

    async def _connect_by_quic(
        self, key: Destination, deadline: Deadline, place: Destination, *, alone: bool
    ) -> TwistedQuicConnection:
        from agtphost.client.quic import twisted

        return await twisted.connect(
            self._reactor,
            place,
            self._quic,
            self._limits,
            deadline,
            lambda ended: self._note_end(key, ended),
            tls_port=self._tls_port if alone else None,
        )

    async def _connect_by_tls(self, key: Destination, deadline: Deadline) -> TwistedConnection:
        notes = HandshakeNotes()
        link = TwistedConnection(key.host, notes, self._limits, self._reactor, lambda ended: self._note_end(key, ended))
        creator = ConnectionCreator(self._context, key.host, notes)
        factory = TLSMemoryBIOFactory(creator, True, ConnectionFactory(link), self._reactor)
        seconds = deadline.remaining(f"connecting to {key}")
        await connect_by_tcp(self._reactor, key, factory, seconds)
        try:
            deadline.remaining(f"shaking hands with {key}")
        except Timeout:
            link.ready.addErrback(lambda _: None)  # Its error would be logged.
            link.abort()
            raise
        return await link.ready
