"""Which of the addresses of a name the clients connect to by QUIC, where some do not answer."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address

from agtphost.client import CannotConnect, Client, TLSRefused, aio, sync
from agtphost.client.quic import aio as quic_aio
from agtphost.client.quic import blocking, handshake_race, twisted
from agtphost.client.quic import driver as quic_driver
from tests.client.quic.test_blocking import QuicHost
from tests.protocols.loopback import Site, in_thread, make_site

SILENT = "127.0.0.2"
"""An address of the name where no server answers by UDP."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


@pytest.fixture
def reactor() -> Any:
    from twisted.internet import reactor

    return reactor


@contextmanager
def resolved(reactor: Any, monkeypatch: pytest.MonkeyPatch, port: int, *addresses: str) -> Iterator[None]:
    """Have all clients find these addresses for each name."""

    def find(name: str, number: int, family: int = 0, type: int = 0, *_: Any) -> Any:
        return [(socket.AF_INET, type, 0, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", find)

    def resolve(receiver: Any, name: str, port: int, **_: Any) -> None:
        for each in addresses:
            receiver.addressResolved(IPv4Address("UDP", each, port))
        receiver.resolutionComplete()

    before = reactor.installNameResolver(SimpleNamespace(resolveHostName=resolve))
    try:
        yield
    finally:
        reactor.installNameResolver(before)


async def call_blocking(reactor: Any, options: dict[str, Any], uri: str) -> int:
    def call() -> int:
        with sync.Client(**options) as client:
            return client.call(uri, "QUERY").status

    return int(await in_thread(call))


async def call_asyncio(reactor: Any, options: dict[str, Any], uri: str) -> int:
    async def call() -> int:
        async with aio.Client(**options) as client:
            return (await client.call(uri, "QUERY")).status

    return int(await in_thread(lambda: asyncio.run(call())))


async def call_twisted(reactor: Any, options: dict[str, Any], uri: str) -> int:
    async with Client(reactor, **options) as client:
        return (await client.call(uri, "QUERY")).status


CALLS = [call_blocking, call_asyncio, call_twisted]


@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_a_silent_address_does_not_delay_the_next(
    call: Callable[..., Any], site: Site, reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next address is tried besides after a pause, long before the first one counts as silent."""
    for module in (blocking, quic_aio, twisted):
        monkeypatch.setattr(module, "choose_patience", lambda seconds, *, alone: 1e6)
    async with QuicHost(site) as host:
        with socket.socket(type=socket.SOCK_DGRAM) as silent:
            silent.bind((SILENT, host.port))
            options = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
            with resolved(reactor, monkeypatch, host.port, SILENT, "127.0.0.1", SILENT):
                assert await call(reactor, options, host.uri) == 200
            assert silent.recv(2000)
    assert [peer.carrier for peer in host.dispatcher.peers] == ["quic"]


class Attempt:
    """A handshake that succeeds with its first datagram, or fails."""

    def __init__(self, channel: Any, fault: Exception | None) -> None:
        self.channel, self._fault = channel, fault
        self.is_ready = self.is_closed = False

    def begin_wait(self) -> float:
        return 10.0

    def end_wait(self, seconds: float) -> None:
        if self._fault is not None:
            raise self._fault
        self.is_ready = True

    def close(self) -> None:
        self.is_closed = True


def test_a_connection_is_used_though_another_fails_in_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocking client wakes up once for both: the first that is ready ends the race."""
    attempts = [Attempt("first", None), Attempt("second", TLSRefused("It is not for this host.", "Check it."))]
    left, now = list(attempts), itertools.count()
    monkeypatch.setattr(handshake_race, "wait_for_any", lambda channels, seconds: channels if len(channels) > 1 else ())
    race = handshake_race.HandshakeRace([1, 2], lambda place: left.pop(0), lambda: 10.0, lambda: next(now), None)
    assert race.run() is attempts[0] and [each.is_closed for each in attempts] == [False, True]


@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_the_addresses_that_are_tried_are_few(
    call: Callable[..., Any], site: Site, reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with very many addresses makes a client begin no more handshakes than it may; closed ports count too."""
    for module in (blocking, quic_aio, twisted):
        monkeypatch.setattr(module, "MOST_PLACES", 2)
    tried = itertools.count()
    for module in (blocking, quic_aio, twisted):
        session = module.QuicSession
        monkeypatch.setattr(module, "QuicSession", lambda *given, session=session: (next(tried), session(*given))[1])
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    options = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
    addresses = "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"
    unanswered = pytest.raises(CannotConnect, match="answers neither by UDP nor by TCP")
    with resolved(reactor, monkeypatch, port, *addresses), unanswered:
        await call(reactor, options, f"agtp://localhost:{port}")
    assert next(tried) == 2 < quic_driver.MOST_PLACES
