"""Both clients behind one asynchronous face, so that one suite tests both."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from agtphost.client import Client, Reply, sync
from agtphost.client.manifests import ServerManifest
from agtphost.identity.keys import VerifyingKey


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


def twisted_driver(**options: Any) -> Client:
    """The Twisted client on the test's reactor."""
    from twisted.internet import reactor

    return Client(reactor, **options)
