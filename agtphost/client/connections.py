"""The connections of a client: which call gets which, and when one is opened or ended."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeVar

from agtphost.client.caller import ClientOptions
from agtphost.client.carriers import AUTO, CarrierTable
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError
from agtphost.client.pool import IDLE_SECONDS, PER_DESTINATION, Pool
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tls import PresentedCertificate, TLSSettings
from agtphost.vocabulary.regular_files import Stamp

CONNECT_SECONDS = 10.0
"""For name, TCP and TLS together."""

Stream = Callable[[Reply], object]
"""Takes an interim reply."""

T = TypeVar("T")


class CallConnection(Protocol):
    """A connection whose server is verified."""

    @property
    def carrier(self) -> str:
        """``tls`` or ``quic``."""

    @property
    def is_shared(self) -> bool:
        """Whether it serves several calls at a time."""

    @property
    def has_served(self) -> bool:
        """Whether it has served a call before."""

    presented: Stamp  # Of the client certificate's file that it was made with.

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused."""

    @property
    def reusable(self) -> bool:
        """Whether it is in order, so that it can serve further calls."""

    def perform(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Awaitable[Reply]:
        """Return the final reply to one call, or raise a ClientError."""

    def close(self) -> object:
        """End it in order."""

    def abort(self) -> object:
        """End it immediately."""


L = TypeVar("L", bound=CallConnection)


class ConnectionSource(Generic[L]):
    """
    Gives each call of a client a connection, from its pool or a new one.

    :param now: seconds, never going back.
    """

    def __init__(self, now: Clock, settings: TLSSettings, options: ClientOptions) -> None:
        self._now = now
        self._limits = options.get("limits", CLIENT_LIMITS)
        self._connect_timeout = options.get("connect_timeout", CONNECT_SECONDS)
        self._most_connections = options.get("connections", PER_DESTINATION)
        self._pool: Pool[Destination, L] = Pool(idle=options.get("idle", IDLE_SECONDS))
        self._guard: AbstractContextManager[object] = nullcontext()
        self._closed = False
        self._carriers: CarrierTable | None = None
        """The carriers of hosts; None where each connection is by the same."""

        self._uses_quic = options.get("quic", False)
        self._tls_port = options.get("tls_port", 0)
        if self._uses_quic == AUTO:
            self._carriers = CarrierTable(options.get("carrier_memory"), options.get("on_fallback"))
        self._presented = PresentedCertificate(settings)

    # What each client does in its own way

    @abstractmethod
    def _connect(self, key: Destination, deadline: Deadline) -> Coroutine[Any, Any, L]:
        """Open a connection and verify its server."""

    @abstractmethod
    def _load_context(self) -> None:
        """Read the certificates for further connections; InvalidCall if they cannot be used, and the old ones stay."""

    @abstractmethod
    def _wait_freed(self, key: Destination, deadline: Deadline) -> Awaitable[object]:
        """Wait until a connection may have become free; called with the guard held."""

    @abstractmethod
    def _wake(self, key: Destination) -> None:
        """Let one who waits for a connection look again; called with the guard held."""

    def _wake_all(self, key: Destination, error: ClientError | None = None) -> None:
        """Let all who wait for a connection look again, or fail; called with the guard held."""
        self._wake(key)

    def _shares(self, key: Destination) -> bool:
        """Return whether the next connection to a host is to be one that all calls share."""
        carriers = self._carriers
        return bool(self._uses_quic if carriers is None else carriers.quic_of(key, self._now()))

    @abstractmethod
    def _run_limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> Awaitable[T]:
        """Carry out work, and give it up at its deadline wherever it waits."""

    # What they have in common

    def _limit_connections(self, key: Destination) -> int:
        """Return how many connections to a host there may be, where each serves one call at a time."""
        return self._most_connections

    async def _borrow(self, key: Destination, deadline: Deadline) -> L:
        while True:
            with self._guard:
                now = self._now()
                for _, old in (
                    self._pool.drain() if self._presented.follow(self._load_context) else self._pool.stale(now)
                ):
                    old.close()
                link = self._pool.take(key, now)
                is_alone = self._shares(key)
                if link is None and not self._pool.open(key, 1 if is_alone else self._limit_connections(key)):
                    deadline.remaining("waiting for a free connection")
                    await self._wait_freed(key, deadline)
                    continue
            if link is None:
                return await self._open(key, deadline, is_alone=is_alone)
            if link.fresh:
                return link
            self._end_use(key, link, keep=False, end=link.abort)

    async def _open(self, key: Destination, deadline: Deadline, *, is_alone: bool = False) -> L:
        """
        Open a connection; its time is the smaller of what connecting and the call are allowed.

        :param is_alone: whether other calls wait for this connection, in place of opening their own. They fail as this
            one does, unless it has less time than connecting is allowed: then they may have more.
        """
        has_all_the_time = deadline.seconds_left >= self._connect_timeout
        try:
            deadline.remaining(f"connecting to {key}")
            sooner = deadline.sooner(self._connect_timeout)
            link = await self._run_limited(self._connect(key, sooner), sooner)
        except BaseException as error:
            with self._guard:
                self._pool.abandon(key)
                if is_alone and has_all_the_time and isinstance(error, ClientError):
                    self._wake_all(key, error)
                else:
                    self._wake(key)
            raise
        with self._guard:
            self._pool.add(key, link)
            if is_alone:
                self._wake_all(key)
        return link

    def _return(self, key: Destination, link: L) -> None:
        is_current = not self._closed and link.presented == self._presented.stamp
        end = link.close if link.reusable else link.abort
        self._end_use(key, link, keep=link.reusable and is_current, end=end)

    def _end_use(self, key: Destination, link: L, *, keep: bool, end: Callable[[], object]) -> None:
        """Note the end of a call, and end the connection after the last one if it is not kept."""
        with self._guard:
            is_over = self._pool.give_back(key, link, self._now(), keep=keep)
        if is_over:
            end()
        with self._guard:
            self._wake(key)

    def _drain(self) -> list[L]:
        """Return the connections that no call uses, to be closed; the others end with their call."""
        with self._guard:
            self._closed = True
            return [link for _, link in self._pool.drain()]
