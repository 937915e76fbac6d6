"""Listening, limits and draining on a real port."""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.task import deferLater
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.errors import ConfigurationError
from agtphost.protocols import (
    AGTPServerFactory,
    ConnectionLimits,
    ListeningService,
    ServerTLS,
    server_endpoint,
)
from agtphost.protocols.connection_states import Wait
from agtphost.protocols.limits import ABORT_AFTER
from tests.measuring import measured
from tests.protocols.links import FakeDispatcher, ask, parse, task_ids
from tests.protocols.loopback import Host, Site, in_thread, make_site, read_all, read_message
from tests.rows import each_row


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


async def until(host: Host, true: object) -> None:
    """Wait for something to become true; fails after a while."""
    for _ in range(6000):
        if true():  # type: ignore[operator]
            return
        await deferLater(host.reactor, 0.01)
    raise AssertionError("it never became true")


# Listening


@pytest_twisted.ensureDeferred
async def test_the_bound_port_is_known(site: Site) -> None:
    """Port 0 becomes a port; nobody listens before the start, nor after the stop."""
    host = Host(site)
    assert host.service.address is None
    async with host:
        port = host.port
        assert port > 0
        assert (await host.service.when_listening()).port == port
    assert host.service.address is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


@pytest_twisted.ensureDeferred
async def test_a_port_in_use_is_an_error_at_the_start(site: Site) -> None:
    """A host that cannot listen says so when it starts."""
    async with Host(site) as host:
        endpoint = server_endpoint(host.reactor, address="127.0.0.1", port=host.port)
        second = ListeningService(endpoint, host.tls, host.factory, host.reactor, 1)
        with pytest.raises(ConfigurationError, match="cannot listen"):
            second.privilegedStartService()


@pytest_twisted.ensureDeferred
async def test_a_privileged_start_listens_once(site: Site) -> None:
    """Listening begins before privileges are dropped, and only once."""
    host = Host(site)
    host.service.privilegedStartService()
    port = host.port
    async with host:
        assert host.port == port


@pytest_twisted.ensureDeferred
async def test_waiting_for_the_port_before_the_start(site: Site) -> None:
    """Who waits before the start is told; the port has the backlog that floods need."""
    host = Host(site)
    waiting = host.service.when_listening()
    assert not waiting.called
    async with host:
        assert (await waiting).port == host.port
        assert host.service._port.backlog >= 1024


@implementer(IStreamServerEndpoint)
class SlowEndpoint:
    """An endpoint that takes its time."""

    def __init__(self) -> None:
        self.listening: Deferred[IListeningPort] = Deferred()

    def listen(self, factory: object) -> Deferred[IListeningPort]:
        return self.listening


def slow_service(site: Site) -> tuple[SlowEndpoint, ListeningService]:
    reactor = MemoryReactorClock()
    factory = AGTPServerFactory(FakeDispatcher(), ConnectionLimits(), reactor)
    endpoint = SlowEndpoint()
    service = ListeningService(endpoint, ServerTLS.load(site.files), factory, reactor, 30)
    service.startService()
    return endpoint, service


def test_an_endpoint_that_fails_later(site: Site) -> None:
    """Who waits for the port learns that there will be none."""
    endpoint, service = slow_service(site)
    waiting = service.when_listening()
    endpoint.listening.errback(OSError("seeded"))
    caught: list[Failure] = []
    waiting.addErrback(caught.append)
    assert [failure.type for failure in caught] == [OSError]
    stopped: list[None] = []
    service.stopService().addCallback(stopped.append)
    assert stopped == [None]


def test_a_stop_before_the_port_is_there(site: Site) -> None:
    """Stopping gives the port up that was still being waited for."""
    _, service = slow_service(site)
    caught: list[Failure] = []
    service.when_listening().addErrback(caught.append)
    stopped: list[None] = []
    service.stopService().addCallback(stopped.append)
    assert stopped == [None]
    assert [failure.type for failure in caught] == [CancelledError]


def test_a_stop_without_a_start(site: Site) -> None:
    """A service that never started stops."""
    reactor = MemoryReactorClock()
    factory = AGTPServerFactory(FakeDispatcher(), ConnectionLimits(), reactor)
    service = ListeningService(SlowEndpoint(), ServerTLS.load(site.files), factory, reactor, 30)
    stopped: list[None] = []
    service.stopService().addCallback(stopped.append)
    assert stopped == [None]
    assert reactor.getDelayedCalls() == []


@each_row("description", ["ssl:4480", "tls:4480", "nonsense:1", "tcp", "tcp:port"])
def test_endpoint_descriptions_that_do_not_serve(description: str) -> None:
    """A description that is none, or brings its own TLS, is a configuration error."""
    with pytest.raises(ConfigurationError):
        server_endpoint(MemoryReactorClock(), address="127.0.0.1", port=0, description=description)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest_twisted.ensureDeferred
async def test_either_address_family(site: Site, address: str) -> None:
    """IPv4 and IPv6 addresses are listened on as what they are, and the peer's is known as such."""
    if address == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    host = Host(site)
    endpoint = server_endpoint(host.reactor, address=address, port=0)
    host.service = ListeningService(endpoint, host.tls, host.factory, host.reactor, 1)

    def ask_there() -> bytes:
        raw = socket.create_connection((address, host.port), 10)
        with site.client().wrap_socket(raw, server_hostname="localhost") as connection:
            connection.sendall(ask())
            return read_message(connection)

    async with host:
        assert (await in_thread(ask_there)).startswith(b"AGTP/1.0 200")
        assert [peer.address for peer in host.dispatcher.peers] == [address]


def has_ipv6() -> bool:
    """Whether the IPv6 loopback address can be bound."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest_twisted.ensureDeferred
async def test_an_endpoint_description_listens(site: Site) -> None:
    """A Twisted endpoint string serves instead of address and port."""
    host = Host(site)
    endpoint = server_endpoint(host.reactor, address="", port=0, description="tcp:0:interface=127.0.0.1")
    host.service = ListeningService(endpoint, host.tls, host.factory, host.reactor, 1)
    async with host:
        assert (await in_thread(host.exchange, site.client())).startswith(b"AGTP/1.0 200")


# Limits


@pytest_twisted.ensureDeferred
async def test_connections_over_the_limit_get_no_tls(site: Site) -> None:
    """T-DS-8: the connection after the last is closed without a word; when one ends, another is served."""

    def flood(host: Host) -> list[bytes]:
        context = site.client()
        kept = [host.secure(context) for _ in range(3)]
        with host.connect() as extra:
            seen = [read_all(extra)]
        kept.pop().close()
        for connection in kept:
            connection.sendall(ask())
            seen.append(read_message(connection)[:12])
            connection.close()
        return seen

    async with Host(site, limits=ConnectionLimits(connections=3)) as host:
        assert await in_thread(flood, host) == [b"", b"AGTP/1.0 200", b"AGTP/1.0 200"]
        assert host.factory.refused == 1
        await until(host, lambda: host.factory.connections == 0)
        assert (await in_thread(host.exchange, site.client())).startswith(b"AGTP/1.0 200")


@pytest_twisted.ensureDeferred
async def test_deadlines_on_a_real_port(site: Site) -> None:
    """T-DS-1, T-DS-2: silence before the handshake is cut, half a header is 408, both by the sweep."""

    def silent(host: Host) -> bytes:
        with host.connect() as connection:
            return read_all(connection)

    def slow(host: Host) -> bytes:
        with host.secure(site.client()) as connection:
            connection.sendall(ask()[:20])
            return read_all(connection)

    async with Host(site, limits=ConnectionLimits(handshake_timeout=0.3)) as host:
        assert await in_thread(silent, host) == b""
    # Apart, as a handshake has the time that it takes on a busy machine.
    async with Host(site, limits=ConnectionLimits(header_timeout=0.3)) as host:
        [response] = parse(await in_thread(slow, host))
        assert (response.status, response.headers.get("x-reason")) == (408, "header-timeout")


# Half-close


@pytest.mark.parametrize("kind", ["close_notify", "FIN"])
@pytest_twisted.ensureDeferred
async def test_a_peer_that_ends_its_side_is_gone(site: Site, kind: str) -> None:
    """T-TL-92, T-TL-93: the call completes, its answer is dropped, what was pipelined is not parsed."""
    dispatcher = FakeDispatcher()

    def half_close(host: Host) -> tuple[ssl.SSLSocket, socket.socket]:
        connection = host.secure(site.client())
        connection.sendall(ask(1) + ask(2))
        read = socket.socket(fileno=connection.fileno())
        if kind == "FIN":
            read.shutdown(socket.SHUT_WR)
        return connection, read

    def notify(connection: ssl.SSLSocket) -> None:
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError, OSError):
            connection.unwrap()

    async with Host(site, dispatcher) as host:
        connection, raw = await in_thread(half_close, host)
        raw.detach()
        await until(host, lambda: dispatcher.requests)
        if kind == "close_notify":
            await in_thread(notify, connection)
        await until(host, lambda: host.factory.connections == 0)
        assert host.factory.calls == 1
        dispatcher.answer()
        assert host.factory.calls == 0
        assert len(dispatcher.requests) == 1
        connection.close()


# Draining


@pytest_twisted.ensureDeferred
async def test_draining(site: Site) -> None:
    """SIGTERM: idle connections end at once, the busy one gets its whole answer, new ones are refused."""
    dispatcher = FakeDispatcher()
    host = Host(site, dispatcher)
    host.service.startService()
    port = host.port

    def idle(host: Host) -> bytes:
        with host.secure(site.client()) as connection:
            return read_all(connection)

    def busy(host: Host) -> bytes:
        with host.secure(site.client()) as connection:
            connection.sendall(ask(1) + ask(2))
            return read_all(connection)

    readers = [in_thread(idle, host), in_thread(busy, host)]
    waiting = [Deferred.fromCoroutine(reader) for reader in readers]
    await until(host, lambda: dispatcher.requests and host.factory.connections == 2)
    # Who still shakes hands is cut, not told; with TLS 1.3 the client is done first.
    await until(host, lambda: all(each._wait is not Wait.HANDSHAKE for each in host.factory._connections))
    stopped = host.service.stopService()
    assert await waiting[0] == b""
    await deferLater(host.reactor, 0.02)  # the port closes in the next turn
    assert not stopped.called
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)
    dispatcher.answer(b"z" * 700_000)
    [response] = parse(await waiting[1])
    assert len(response.body) == 700_000
    assert task_ids([response]) == ["1"]
    await stopped
    assert (host.factory.connections, host.factory.calls) == (0, 0)


@pytest_twisted.ensureDeferred
async def test_draining_waits_for_calls_whose_peer_has_gone(site: Site) -> None:
    """A call that still has to be recorded keeps the host from stopping."""
    dispatcher = FakeDispatcher()
    host = Host(site, dispatcher)
    host.service.startService()

    def leave(host: Host) -> None:
        connection = host.secure(site.client())
        connection.sendall(ask())
        connection.close()

    await in_thread(leave, host)
    await until(host, lambda: host.factory.calls == 1 and host.factory.connections == 0)
    stopped = host.service.stopService()
    await deferLater(host.reactor, 0.05)
    assert not stopped.called
    dispatcher.answer()
    await stopped


@pytest_twisted.ensureDeferred
async def test_every_stop_waits_for_the_same_end(site: Site) -> None:
    """A second stop while the first waits for an answer ends with it, and one that comes later ends immediately."""
    dispatcher = FakeDispatcher()
    async with Host(site, dispatcher) as host:
        asking = Deferred.fromCoroutine(in_thread(host.exchange, site.client()))
        await until(host, lambda: dispatcher.waiting)
        stops = [host.service.stopService() for _ in range(3)]
        assert not any(each.called for each in stops)
        dispatcher.answer()
        for each in stops:
            await each.addTimeout(30, host.reactor)
        assert await asking and host.service.stopService().called


@pytest_twisted.ensureDeferred
async def test_draining_has_an_end(site: Site) -> None:
    """After the drain time, what still runs is cut."""
    dispatcher = FakeDispatcher()
    host = Host(site, dispatcher, ConnectionLimits(drain_timeout=0.2))
    host.service.startService()

    def busy(host: Host) -> bytes:
        with host.secure(site.client()) as connection:
            connection.sendall(ask())
            return read_all(connection)

    waiting = Deferred.fromCoroutine(in_thread(busy, host))
    await until(host, lambda: dispatcher.requests)
    await host.service.stopService()
    assert await waiting == b""
    assert host.factory.connections == 0
    dispatcher.answer()
    assert host.factory.calls == 0


@measured
@pytest_twisted.ensureDeferred
async def test_draining_cuts_who_does_not_close(site: Site) -> None:
    """abortConnection is armed behind loseConnection while the host stops, too."""
    host = Host(site, limits=ConnectionLimits(drain_timeout=60))
    host.service.startService()

    def stay(host: Host) -> ssl.SSLSocket:
        connection = host.secure(site.client())
        connection.sendall(ask())
        read_message(connection)
        return connection

    connection = await in_thread(stay, host)
    begun = host.reactor.seconds()
    await host.service.stopService()
    # Long before the time that those have who still do something.
    assert ABORT_AFTER - 0.1 <= host.reactor.seconds() - begun <= 30
    connection.close()
