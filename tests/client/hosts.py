"""What ``Client.of`` makes, of every kind, behind one asynchronous face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from agtphost.client import Client, aio, sync
from tests.client.drivers import Loop

Face = Any
"""Has the methods of a :class:`agtphost.client.Host`; each gives a Deferred, and ``stream`` one of a list."""


class Blocking:
    """The blocking host, each call in a thread."""

    def __init__(self, *where: Any, **options: Any) -> None:
        self.host = sync.Client.of(*where, **options)

    def __getattr__(self, name: str) -> Callable[..., Deferred[Any]]:
        return lambda *words, **more: deferToThread(getattr(self.host, name), *words, **more)

    def stream(self, *words: Any, **more: Any) -> Deferred[list[Any]]:
        return deferToThread(lambda: list(self.host.stream(*words, **more)))


class Twisted:
    """The Twisted host on the test's reactor."""

    def __init__(self, *where: Any, **options: Any) -> None:
        from twisted.internet import reactor

        self.host = Client.of(reactor, *where, **options)

    def __getattr__(self, name: str) -> Callable[..., Deferred[Any]]:
        return lambda *words, **more: Deferred.fromCoroutine(getattr(self.host, name)(*words, **more))

    def stream(self, *words: Any, **more: Any) -> Deferred[list[Any]]:
        async def collected() -> list[Any]:
            return [reply async for reply in self.host.stream(*words, **more)]

        return Deferred.fromCoroutine(collected())


class Asyncio:
    """The asyncio host on a loop of its own."""

    def __init__(self, *where: Any, **options: Any) -> None:
        self.host = aio.Client.of(*where, **options)
        self._loop = Loop()

    def __getattr__(self, name: str) -> Callable[..., Deferred[Any]]:
        return lambda *words, **more: self._loop.run(getattr(self.host, name)(*words, **more))

    async def close(self) -> None:
        await self._loop.run(self.host.close())
        self._loop.stop()

    def stream(self, *words: Any, **more: Any) -> Deferred[list[Any]]:
        async def collected() -> list[Any]:
            return [reply async for reply in self.host.stream(*words, **more)]

        return self._loop.run(collected())


KINDS: dict[str, Callable[..., Face]] = {"twisted": Twisted, "blocking": Blocking, "asyncio": Asyncio}
