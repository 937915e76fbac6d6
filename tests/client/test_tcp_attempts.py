"""Which of the addresses of a name the clients connect to, where some do not answer."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.protocol import Factory, Protocol

from agtphost.client import address_race, aio_connection, blocking_connection, tcp_attempts, twisted_attempts
from agtphost.client.deadline import Deadline
from agtphost.client.errors import CannotConnect, Timeout
from agtphost.client.requests import Destination
from agtphost.client.tcp_rival import Overtaken, TcpRival

NAME = Destination("agents.example", 4480)
PATIENCE = 10.0
"""Seconds that a call may take."""


@contextmanager
def silent_place() -> Iterator[Any]:
    """Give an address that answers no attempt: its queue of connections is full, and nobody accepts them."""
    fillers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        try:
            for _ in range(4):
                fillers.append(socket.socket())
                fillers[-1].setblocking(False)
                fillers[-1].connect_ex(server.getsockname())
            yield server.getsockname()
        finally:
            for each in fillers:
                each.close()


@contextmanager
def closed_place() -> Iterator[Any]:
    """Give an address where nothing listens."""
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()


def dial_blocking() -> socket.socket:
    deadline = Deadline(time.monotonic, PATIENCE)
    channel = blocking_connection._open_tcp(NAME, deadline)
    deadline.remaining("shaking hands")
    return channel


def dial_asyncio() -> socket.socket:
    async def dial() -> socket.socket:
        async with asyncio.timeout(PATIENCE):
            return await aio_connection._dial(asyncio.get_running_loop(), NAME)

    return asyncio.run(dial())


def dial_rival() -> socket.socket:
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams, closing(TcpRival(NAME, time.monotonic)) as rival:
        datagrams.bind(("127.0.0.1", 0))
        try:
            rival.wait([datagrams], PATIENCE)
        except Overtaken:
            return rival.take()
    raise AssertionError("TCP was not connected")


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def resolve_to(*places: Any) -> None:
        families = [socket.AF_INET6 if ":" in place[0] else socket.AF_INET for place in places]
        found = [(family, socket.SOCK_STREAM, 0, "", place) for family, place in zip(families, places, strict=True)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: list(found))

    return resolve_to


@pytest.mark.parametrize("before", [silent_place, closed_place])
@pytest.mark.parametrize("dial", [dial_blocking, dial_asyncio, dial_rival])
def test_an_address_that_does_not_answer_is_left_for_the_next(
    dial: Callable[[], socket.socket], before: Callable[[], Any], resolve_to: Callable[..., None]
) -> None:
    """The others are tried besides, long before the call's time is over; the first that is there is used."""
    with before() as first, silent_place() as last, socket.create_server(("127.0.0.1", 0)) as server:
        resolve_to(first, server.getsockname(), last)
        with dial() as channel:
            assert channel.getpeername() == server.getsockname()


@pytest.mark.parametrize("dial", [dial_blocking, dial_asyncio])
def test_the_error_is_that_of_the_first_address(
    dial: Callable[[], socket.socket], resolve_to: Callable[..., None]
) -> None:
    """Where no address takes a connection, nothing is waited for."""
    with closed_place() as first:
        resolve_to(first, first)
        with pytest.raises((CannotConnect, ConnectionRefusedError)):
            dial()


@pytest.mark.parametrize("dial", [dial_blocking, dial_asyncio, dial_rival])
def test_addresses_of_two_families_take_turns(
    dial: Callable[[], socket.socket], resolve_to: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family that leads nowhere costs one pause, however many addresses of it a name has (RFC 8305 section 4)."""
    for module in (tcp_attempts, address_race):
        monkeypatch.setattr(module, "ATTEMPT_DELAY", 10 * PATIENCE)
    with closed_place() as closed, silent_place() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        mapped = [(f"::ffff:{host}", port) for host, port in (closed, silent)]
        resolve_to(*mapped, server.getsockname())
        with dial() as channel:
            assert channel.getpeername() == server.getsockname()


def test_the_search_for_addresses_is_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose time is over once they are found connects no more."""
    now = [0.0]

    def find_slowly(*_: Any, **__: Any) -> Any:
        now[0] += 5
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", server.getsockname())]

    monkeypatch.setattr(socket, "getaddrinfo", find_slowly)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Timeout):
        blocking_connection._open_tcp(NAME, Deadline(lambda: now[0], 4))


def test_silence_of_all_addresses_ends_with_the_time_of_the_call(resolve_to: Callable[..., None]) -> None:
    """The error says that it took too long, however many addresses there are."""
    with silent_place() as first, silent_place() as second:
        resolve_to(first, second)
        with pytest.raises(Timeout, match=r"longer than 0\.4 seconds, while connecting to agents\.example:4480"):
            blocking_connection._open_tcp(NAME, Deadline(time.monotonic, 0.4))


def reactor_that_finds(*places: Any) -> Any:
    """The reactor, with a resolver that finds these addresses; their ports take turns as the attempts do."""

    def resolve(receiver: Any, name: str, port: int, **_: Any) -> None:
        for host, _ in places:
            kind = IPv6Address if ":" in host else IPv4Address
            receiver.addressResolved(kind("TCP", host, port))
        receiver.resolutionComplete()

    ports = dict(places)

    def connect(host: str, port: int, *more: Any, **options: Any) -> Any:
        return reactor.connectTCP(host, ports[host], *more, **options)  # type: ignore[attr-defined]

    later = reactor.callLater  # type: ignore[attr-defined]
    return SimpleNamespace(nameResolver=SimpleNamespace(resolveHostName=resolve), connectTCP=connect, callLater=later)


async def dial_twisted(*places: Any) -> Any:
    """Return the address that the Twisted client connects to."""
    found = await twisted_attempts.connect_by_tcp(
        reactor_that_finds(*places), NAME, Factory.forProtocol(Protocol), PATIENCE
    )
    found.transport.abortConnection()
    peer = found.transport.getPeer()
    return peer.host, peer.port


@pytest.mark.parametrize("before", [silent_place, closed_place])
@pytest_twisted.ensureDeferred
async def test_the_twisted_client_leaves_a_silent_address_too(
    before: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries the next one after the pause that the other clients have."""
    monkeypatch.setattr(address_race, "ATTEMPT_DELAY", 0.01)
    with before() as first, silent_place() as last, socket.create_server(("127.0.0.1", 0)) as server:
        silent = [("::ffff:127.0.0.1", first[1]), ("::ffff:7f00:1", last[1])]
        assert await dial_twisted(silent[0], server.getsockname(), silent[1]) == server.getsockname()


@pytest_twisted.ensureDeferred
async def test_families_take_turns_in_the_twisted_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempts are as those of the other clients: an address of the other family follows the first one."""
    monkeypatch.setattr(address_race, "ATTEMPT_DELAY", 10 * PATIENCE)
    with closed_place() as closed, silent_place() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        mapped = [("::ffff:127.0.0.1", closed[1]), ("::ffff:7f00:1", silent[1])]
        assert await dial_twisted(*mapped, server.getsockname()) == server.getsockname()


@pytest_twisted.ensureDeferred
async def test_a_name_that_cannot_be_one_is_an_error_of_the_twisted_client() -> None:
    """Nothing is waited for: the resolver of Twisted never ends with such a name."""
    with pytest.raises(CannotConnect, match="Cannot connect to"):
        await twisted_attempts.find_places(reactor, Destination("a" * 64 + ".example", 4480))
