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
from agtphost.client.pool import IDLE_SECONDS, PER_DESTINATION, Pool
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tls import PresentedCertificate, Stamp, TLSSettings

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

    used: bool
    """Whether a call was made over it before."""

    presented: Stamp  # Of the client certificate's file that it was made with.

    @property
    def fresh(self) -> bool:
        """Whether it can serve a call after it lay unused."""

    @property
    def reusable(self) -> bool:
        """Whether the last call left it in order."""

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
        self._pool: Pool[Destination, L] = Pool(
            bound=options.get("connections", PER_DESTINATION), idle=options.get("idle", IDLE_SECONDS)
        )
        self._guard: AbstractContextManager[object] = nullcontext()
        self._closed = False
        self._carriers: CarrierTable | None = None
        """The carriers of hosts; None where each connection is by the same."""

        if options.get("quic", False) == AUTO:
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

    @abstractmethod
    def _run_limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> Awaitable[T]:
        """Carry out work, and give it up at its deadline wherever it waits."""

    # What they have in common

    async def _borrow(self, key: Destination, deadline: Deadline) -> L:
        while True:
            with self._guard:
                now = self._now()
                for _, old in (
                    self._pool.drain() if self._presented.follow(self._load_context) else self._pool.stale(now)
                ):
                    old.close()
                link = self._pool.take(key, now)
                if link is None and not self._pool.open(key):
                    deadline.remaining("waiting for a free connection")
                    await self._wait_freed(key, deadline)
                    continue
            if link is None:
                return await self._open(key, deadline)
            if link.fresh:
                return link
            link.abort()
            self._forget(key)

    async def _open(self, key: Destination, deadline: Deadline) -> L:
        """Open a connection; its time is the smaller of what connecting and the call are allowed."""
        try:
            deadline.remaining(f"connecting to {key}")
            sooner = deadline.sooner(self._connect_timeout)
            return await self._run_limited(self._connect(key, sooner), sooner)
        except BaseException:
            self._forget(key)
            raise

    def _return(self, key: Destination, link: L) -> None:
        if link.reusable and not self._closed and link.presented == self._presented.stamp:
            with self._guard:
                self._pool.give_back(key, link, self._now())
                self._wake(key)
            return
        if link.reusable:
            link.close()
        else:
            link.abort()
        self._forget(key)

    def _forget(self, key: Destination) -> None:
        with self._guard:
            self._pool.forget(key)
            self._wake(key)

    def _drain(self) -> list[L]:
        """Return the connections that no call uses, to be closed; the others end with their call."""
        with self._guard:
            self._closed = True
            return [link for _, link in self._pool.drain()]
