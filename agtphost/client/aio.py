"""
The asyncio client, for programs on any asyncio loop: no reactor, and no Twisted in the process.

Has the options, rules and errors of :class:`agtphost.client.Client`. Connections belong to the loop that they were made
on: on another one the client makes new ones.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from os import PathLike
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack
from weakref import WeakValueDictionary

from agtphost.client import blocking_https, tls
from agtphost.client.aio_attempts import await_race, settle, start_attempt
from agtphost.client.aio_connection import AsyncioConnection, connect
from agtphost.client.async_calls import AsyncCalls
from agtphost.client.bootstrap import BootstrapPolicy, HTTPAnswer
from agtphost.client.caller import CallOptions, ClientOptions
from agtphost.client.carrier_race import ConnectionRace
from agtphost.client.deadline import Deadline
from agtphost.client.errors import ClientError
from agtphost.client.host import Host
from agtphost.client.purchase import Buyer
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination
from agtphost.client.target import find_for_client as found_target
from agtphost.vocabulary.uris import AgtpUri

if TYPE_CHECKING:
    from agtphost.client.quic.aio import AsyncioQuicConnection

T = TypeVar("T")


AnyConnection: TypeAlias = "AsyncioConnection | AsyncioQuicConnection"


class Client(AsyncCalls[AnyConnection]):
    """
    Calls AGTP hosts over persistent, pooled connections; ``async with`` closes them.

    :param options: see :class:`~agtphost.client.caller.ClientOptions`.
    :raises agtphost.client.errors.InvalidCall: for files and identifiers that cannot be used.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        super().__init__(monotonic, **options)
        self._waiting: dict[Destination, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._locks: WeakValueDictionary[Destination, asyncio.Lock] = WeakValueDictionary()
        self._open_links: set[AnyConnection] = set()

    @classmethod
    def of(
        cls,
        where: str | PathLike[str] | None = None,
        *,
        as_: str | None = None,
        uri: str | None = None,
        anonymous: bool = False,
        signing_key: str | PathLike[str] | None = None,
        verify: bool = True,
        **options: Unpack[ClientOptions],
    ) -> Host[Client]:
        """Find a host as the ``agtp`` command does: see :meth:`agtphost.client.sync.Client.of`."""
        target, found = found_target(where, as_, uri, anonymous, signing_key, options)
        return Host(cls(**found), target, verify=verify)

    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""
        for link in self._drain():
            link.close()
        ending = [link.ended for link in self._open_links if link.ending]
        if ending:
            await asyncio.wait(ending)

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
        arrived: asyncio.Queue[Reply | None] = asyncio.Queue()
        more: dict[str, Any] = {"timeout": timeout, "wait_for_approval": wait_for_approval, **options}
        running = asyncio.ensure_future(self.call(uri, method, path, input, stream=arrived.put_nowait, **more))
        running.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (reply := await arrived.get()) is not None:
                yield reply
            yield running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # Retrieved, even if the caller reads no further.

    # Its own ways

    async def _run_limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        try:
            async with asyncio.timeout(max(deadline.seconds_left, 0)):
                return await work
        except TimeoutError:
            raise deadline.timeout_error() from None

    async def _wait_freed(self, key: Destination, deadline: Deadline) -> None:
        waiting = self._waiting[key]
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._wake(key)  # It was this one's turn: now it is the next one's.
            elif turn in waiting:
                waiting.remove(turn)
            raise

    def _wake(self, key: Destination) -> None:
        waiting = self._waiting.get(key)
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(key, None)

    def _wake_all(self, key: Destination, error: ClientError | None = None) -> None:
        waiting = self._waiting.pop(key, None)
        while waiting:
            turn = waiting.popleft()
            settle(turn, error)
            if error is not None and not turn.cancelled():
                turn.exception()  # Retrieved, even if the caller is cancelled before it reads it.

    def _sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds)

    def _reading(self, key: Destination) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _fetch(self, domain: str, policy: BootstrapPolicy) -> HTTPAnswer | str:
        return await asyncio.to_thread(blocking_https.bootstrap, domain, self._caller.settings, policy)

    def _load_tls(self) -> None:
        self._context = tls.stdlib_context(self._caller.settings)

    async def _race(
        self,
        by_quic: Callable[[], Coroutine[Any, Any, AnyConnection]],
        by_tls: Callable[[], Coroutine[Any, Any, AnyConnection]],
        lost: Callable[[str], object],
    ) -> AnyConnection:
        later = asyncio.get_running_loop().call_later

        def begin(done: Callable[[AnyConnection | BaseException], object]) -> Callable[[], object]:
            race: ConnectionRace[AnyConnection] = ConnectionRace(start_attempt, later, by_quic, by_tls, lost, done)
            return race.stop

        return await await_race(begin, lambda late: late.abort())

    async def _connect_by_tls(self, key: Destination, deadline: Deadline) -> AsyncioConnection:
        def make() -> AsyncioConnection:
            return AsyncioConnection(self._limits, self._open_links, lambda ended: self._note_end(key, ended))

        return await connect(key, self._context, deadline, make)

    async def _connect_by_quic(
        self, key: Destination, deadline: Deadline, place: Destination, *, alone: bool
    ) -> AsyncioQuicConnection:
        from agtphost.client.quic import aio

        return await aio.connect(
            place,
            self._quic,
            self._limits,
            deadline,
            self._now,
            self._open_links,
            lambda ended: self._note_end(key, ended),
            tls_port=self._tls_port if alone else None,
        )


__all__ = ["Buyer", "Client", "ClientError", "Host", "Reply"]
