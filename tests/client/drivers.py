"""All clients behind one asynchronous face, so that one suite tests both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from agtphost.client import Client, Reply, aio, sync
from agtphost.client.manifests import ServerManifest
from agtphost.identity.keys import VerifyingKey

T = TypeVar("T")


class Driver(Protocol):
    """What the suite uses."""

    async def __aenter__(self) -> Driver: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def call(self, *arguments: Any, **options: Any) -> Reply: ...

    async def resolve(self, uri: str, format: str | None = None) -> Reply: ...

    async def fetch_signing_keys(self, uri: str) -> dict[str, VerifyingKey]: ...

    async def manifest(self, uri: str, **options: Any) -> ServerManifest: ...

    async def negotiate_catalog(self, uri: str, preferred: str, known: Any = None) -> str: ...


class BlockingDriver:
    """The blocking client, each call in a thread."""

    def __init__(self, **options: Any) -> None:
        self._client = sync.Client(**options)

    async def __aenter__(self) -> BlockingDriver:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    async def call(self, *arguments: Any, **options: Any) -> Reply:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._client.call, *arguments, **options)

    async def resolve(self, uri: str, format: str | None = None) -> Reply:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._client.resolve, uri, format)

    async def fetch_signing_keys(self, uri: str) -> dict[str, VerifyingKey]:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._client.fetch_signing_keys, uri)

    async def manifest(self, uri: str, **options: Any) -> ServerManifest:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._client.manifest, uri, **options)

    async def negotiate_catalog(self, uri: str, preferred: str, known: Any = None) -> str:
        from twisted.internet.threads import deferToThread

        return await deferToThread(self._client.negotiate_catalog, uri, preferred, known)


class Loop:
    """An asyncio loop in a thread of its own: where the asyncio client runs beside the test's reactor."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.noted: list[dict[str, Any]] = []
        """What the loop complained of."""

        self.loop.set_exception_handler(lambda _, context: self.noted.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        """Carry out a coroutine there; cancelling the Deferred cancels it."""
        from twisted.internet import reactor

        running = asyncio.run_coroutine_threadsafe(work, self.loop)
        done: Deferred[T] = Deferred(lambda _: running.cancel())

        def told() -> None:
            if done.called:
                return
            try:
                done.callback(running.result())
            except BaseException:
                done.errback()

        running.add_done_callback(lambda _: reactor.callFromThread(told))  # type: ignore[attr-defined]
        return done

    def stop(self) -> None:
        """End it, with everything that runs on it: nothing must."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        left = asyncio.all_tasks(self.loop)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        assert (left, self.noted) == (set(), [])


class AioDriver:
    """The asyncio client, on a loop that is not the reactor's."""

    def __init__(self, **options: Any) -> None:
        self._client = aio.Client(**options)
        self._loop = Loop()

    async def __aenter__(self) -> AioDriver:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loop.run(self._client.close())
        self._loop.stop()

    def __getattr__(self, name: str) -> Any:
        async def made(*words: Any, **options: Any) -> Any:
            return await self._loop.run(getattr(self._client, name)(*words, **options))

        return made


def twisted_driver(**options: Any) -> Client:
    """The Twisted client on the test's reactor."""
    from twisted.internet import reactor

    return Client(reactor, **options)
