"""What the clients with an event loop have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from agtphost.client.call_flow import Calls
from agtphost.client.caller import CallOptions, ClientOptions
from agtphost.client.carriers import CarrierTable, may_fall_back
from agtphost.client.connections import L
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError
from agtphost.client.quic.loading import load_quic
from agtphost.client.reply import SHORT, Reply
from agtphost.client.requests import Destination
from agtphost.vocabulary.uris import AgtpUri


class AsyncCalls(Calls[L]):
    """
    The procedures of a client that suspends in them.

    :param now: seconds, never going back.
    """

    def __init__(self, now: Clock, **options: Unpack[ClientOptions]) -> None:
        super().__init__(now, **options)
        self._load_context()

    def __repr__(self) -> str:
        return f"<Client {caller(self.agent_id)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""

    @abstractmethod
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
    ) -> AsyncGenerator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one."""

    # Connecting

    @abstractmethod
    def _load_tls(self) -> None:
        """Read the certificates for connections by TLS."""

    @abstractmethod
    async def _connect_by_tls(self, key: Destination, deadline: Deadline) -> L:
        """Connect by TLS."""

    @abstractmethod
    async def _connect_by_quic(self, key: Destination, deadline: Deadline, place: Destination, *, alone: bool) -> L:
        """
        Connect by QUIC.

        :param place: where the host listens for it.
        :param alone: whether TLS is not tried besides.
        """

    @abstractmethod
    async def _race(
        self,
        by_quic: Callable[[], Coroutine[Any, Any, L]],
        by_tls: Callable[[], Coroutine[Any, Any, L]],
        lost: Callable[[str], object],
    ) -> L:
        """Return the connection of a :class:`.carrier_race.ConnectionRace`."""

    def _load_context(self) -> None:
        if self._uses_quic:
            self._quic = load_quic(self._caller.settings)
        if self._uses_quic is not True:
            self._load_tls()

    async def _connect(self, key: Destination, deadline: Deadline) -> L:
        presented = self._presented.stamp
        if self._carriers is not None:
            link = await self._connect_by_either(self._carriers, key, deadline)
        elif self._uses_quic:
            link = await self._connect_by_quic(key, deadline, key, alone=True)
        else:
            link = await self._connect_by_tls(key, deadline)
        link.presented = presented
        return link

    async def _connect_by_either(self, carriers: CarrierTable, key: Destination, deadline: Deadline) -> L:
        place = carriers.quic_of(key, self._now())
        causes, connected = [""], False
        try:
            if place is None:
                link = await self._connect_by_tls(key, deadline)
            else:
                link = await self._race(
                    lambda: self._connect_by_quic(key, deadline, place, alone=False),
                    lambda: self._connect_by_tls(key, deadline),
                    causes.append,
                )
            connected = link.carrier == "tls"
        except ClientError as error:
            if place is not None and not may_fall_back(error):
                carriers.forget(key)
            raise
        finally:
            carriers.end_attempt(key, self._now(), connected=connected, cause=causes[-1])
        return link

    def _note_end(self, key: Destination, link: L) -> None:
        """Give no more calls to a connection that has ended."""
        if self._pool.remove(key, link):
            self._wake(key)


def caller(agent_id: str | None) -> str:
    """Return a text that names the agent that calls are made as."""
    return f"as {agent_id[:SHORT] if agent_id else 'no agent'}"
