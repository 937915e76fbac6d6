"""The Twisted client over QUIC on real sockets."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.python.failure import Failure

from agtphost.client import CannotConnect, Client, ConnectionLost, InvalidCall, Reply, Timeout, TLSRefused
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.deadline import Deadline
from agtphost.client.quic import session
from agtphost.client.quic.twisted import connect
from agtphost.client.requests import Destination
from agtphost.vocabulary.quic_codes import Code
from tests.client.quic.sessions import credentials_from
from tests.client.quic.test_blocking import QuicHost, closed_port, streaming
from tests.protocols.authorities import Identity, issue
from tests.protocols.links import FakeDispatcher, at_once
from tests.protocols.loopback import PATIENCE, Site, make_site
from tests.protocols.test_tls import good


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def client_of(site: Site, identity: Identity | None = None, **options: Any) -> Client:
    from twisted.internet import reactor

    certificate, key = (None, None) if identity is None else identity.save(site.folder, "caller")
    given = {"trust": site.folder / "root.pem", "timeout": 30.0, "quic": True, **options}
    return Client(reactor, cert=certificate, key=key, **given)


async def event(waited: Any) -> None:
    """Wait until something holds, a turn of the reactor at a time; what never happens fails the test."""
    from twisted.internet import reactor
    from twisted.internet.task import deferLater

    end = time.monotonic() + PATIENCE
    while not waited():
        assert time.monotonic() < end, "it did not happen in time"
        await deferLater(reactor, 0.001)  # type: ignore[arg-type]


@pytest_twisted.ensureDeferred
async def test_an_address_that_no_way_leads_to_leaves_no_port(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an address of IPv6 where the machine has no way there: the system refuses it, and the next one is tried."""
    from twisted.internet import reactor

    used: Any = reactor
    listen, links = used.listenUDP, list[Any]()
    monkeypatch.setattr(used, "listenUDP", lambda *given, **more: (links.append(given[1]), listen(*given, **more))[1])
    async with client_of(site) as client:
        with pytest.raises(CannotConnect, match="neither by UDP nor by TCP"):
            await client.call("agtp://255.255.255.255", "QUERY")  # No socket may be connected to it.
        await event(lambda: [each.transport for each in links] == [None])


@pytest_twisted.ensureDeferred
async def test_calls_are_answered_over_quic(site: Site) -> None:
    """One connection serves calls in turn and together, and closing leaves neither port nor timer."""
    from twisted.internet import reactor

    timers: Any = reactor
    identity = good(site.root)
    async with QuicHost(site) as host:
        before = {*timers.getDelayedCalls()}
        async with client_of(site, identity) as client:
            for _ in range(3):
                assert (await client.call(host.uri, "QUERY")).status == 200
            assert host.factory.connections == 1
            await gatherResults([Deferred.fromCoroutine(client.call(host.uri, "QUERY")) for _ in range(2)])
            assert host.factory.connections == 1
        peers = host.dispatcher.peers
        assert {peer.carrier for peer in peers} == {"quic"}
        assert all(peer.certificate is not None for peer in peers)
        await event(lambda: host.factory.connections == 0)
        left = {call for call in timers.getDelayedCalls() if call not in before}
        assert not [call for call in left if "client.quic" in str(call)]


@pytest_twisted.ensureDeferred
async def test_interim_messages_are_streamed(site: Site) -> None:
    """Interim replies are handed out before the final one; a callback that fails ends its call, and no other."""
    arrived: list[Reply] = []

    def fail(interim: Reply) -> None:
        raise ValueError("the callback fails")

    async with QuicHost(site, FakeDispatcher(streaming)) as host, client_of(site) as client:
        final = await client.call(host.uri, "EXECUTE", input={}, stream=arrived.append)
        with pytest.raises(ValueError, match="the callback fails"):
            await client.call(host.uri, "EXECUTE", input={}, stream=fail)
        assert (await client.call(host.uri, "EXECUTE")).status == 200
        assert host.factory.connections == 1
    assert [(each.status, each.interim) for each in arrived] == [(202, True)] * 2
    assert final.interims == 2


@pytest_twisted.ensureDeferred
async def test_a_cancelled_call_costs_no_connection(site: Site) -> None:
    """Ninety-nine calls are cancelled: each is known to the host, and all take one connection, as does the next."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host, client_of(site) as client:
        left: list[int] = []
        for number in range(99):
            calling = Deferred.fromCoroutine(client.call(host.uri, "QUERY"))
            await event(lambda: dispatcher.waiting)
            dispatcher.peers[-1].leaving.add(lambda number=number: left.append(number))
            calling.cancel()
            with pytest.raises(CancelledError):
                await calling
            await event(lambda number=number: number in left)
            dispatcher.answer()
        assert left == list(range(99))
        calling = Deferred.fromCoroutine(client.call(host.uri, "QUERY"))
        await event(lambda: dispatcher.waiting)
        dispatcher.answer()
        assert (await calling).status == 200
        assert len({id(peer.link) for peer in dispatcher.peers}) == 1
        assert host.factory.connections == 1


@pytest.mark.parametrize(("method", "attempts"), [("QUERY", 2), ("BOOK", 1)])
@pytest_twisted.ensureDeferred
async def test_a_connection_that_ends_within_a_call_is_replaced_where_that_is_safe(
    site: Site, method: str, attempts: int
) -> None:
    """As over TLS, only a call that may be carried out twice is made again, on a new connection."""
    asked: list[str] = []

    def close_the_second(request: Any, peer: Any, interim: Any) -> Any:
        asked.append(request.method)
        if len(asked) != 2:
            return at_once(request, peer, interim)
        for link in host.quic.endpoint._links:
            link.core.close(Code.TOO_MUCH)
            link._wake()
        return Deferred()

    host = QuicHost(site, FakeDispatcher(close_the_second))
    async with host, client_of(site) as client:
        await client.call(host.uri, "QUERY")
        if attempts == 2:
            assert (await client.call(host.uri, method)).status == 200
        else:
            with pytest.raises(ConnectionLost, match="before it answered"):
                await client.call(host.uri, method)
    assert asked == ["QUERY", *[method] * attempts]


def report_closed(link: Any) -> None:
    """Do what epoll's reactor does when the system reports that nothing listens at the server's port."""
    from twisted.internet import reactor

    port: Any = link.transport
    reactor.removeReader(port)  # type: ignore[attr-defined]
    port.connectionLost(Failure(ConnectionRefusedError()))  # type: ignore[no-untyped-call]


@pytest_twisted.ensureDeferred
async def test_a_report_of_a_closed_port_ends_no_connection(site: Site) -> None:
    """It is easily forged: the port is opened again, the call goes on, and the host sees the same address."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host, client_of(site) as client:
        links = note_links(client)
        calling = Deferred.fromCoroutine(client.call(host.uri, "BOOK"))
        await event(lambda: dispatcher.waiting)
        [link] = links
        before = link.transport.getHost()
        report_closed(link)
        await event(lambda: link.transport is not None)
        assert link.transport.getHost() == before
        dispatcher.answer()
        assert (await calling).status == 200
        assert host.factory.connections == 1


@pytest_twisted.ensureDeferred
async def test_a_server_that_is_reported_as_gone_again_and_again_is(site: Site) -> None:
    """Three reports without a datagram between them end the call, long before its time is over."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host, client_of(site) as client:
        links = note_links(client)
        calling = Deferred.fromCoroutine(client.call(host.uri, "BOOK"))
        await event(lambda: dispatcher.waiting)
        [link] = links
        link._driver.session.receive = lambda *_: None  # Nothing of the server arrives any more.
        for _ in range(session.MOST_UNREACHABLE):
            await event(lambda: link.transport is not None)
            report_closed(link)
        with pytest.raises(ConnectionLost, match="is gone"):
            await calling
        await event(lambda: client._pool.count(Destination("localhost", host.port)) == 0)
        dispatcher.answer()


def note_links(client: Client) -> list[Any]:
    """A list that gets each connection that a client makes."""
    links: list[Any] = []
    connect: Any = client._connect

    async def connect_and_note(*arguments: Any) -> Any:
        links.append(await connect(*arguments))
        return links[-1]

    client._connect = connect_and_note  # type: ignore[method-assign]
    return links


@pytest_twisted.ensureDeferred
async def test_an_idle_connection_that_the_host_ends_is_not_used_again(site: Site) -> None:
    """The end of a connection that lies unused is noticed when it comes, and the next call opens another."""
    async with QuicHost(site) as host, client_of(site) as client:
        await client.call(host.uri, "BOOK")
        [link] = host.quic.endpoint._links
        link.core.close(Code.DONE)
        link._wake()
        await event(lambda: client._pool.count(Destination("localhost", host.port)) == 0)
        assert (await client.call(host.uri, "BOOK")).status == 200


@pytest_twisted.ensureDeferred
async def test_a_bad_server_is_refused(site: Site) -> None:
    """Authority and name are checked within the handshake, as they are over TLS."""
    other = issue(name="another", authority=True)
    async with QuicHost(site) as host:
        other.save(site.folder, "other")
        async with client_of(site, trust=site.folder / "other.pem") as client:
            with pytest.raises(TLSRefused, match="not trusted"):
                await client.call(host.uri, "QUERY")
        assert host.dispatcher.requests == []


@pytest_twisted.ensureDeferred
async def test_a_silent_host_is_told_from_one_that_is_down(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer by UDP the error says what answers by TCP; a closed port is not waited for."""
    from twisted.internet import reactor

    clock: Any = reactor
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.05)
    credentials = credentials_from(site.folder / "root.pem")

    async def message(port: int) -> str:
        lost: list[object] = []
        with pytest.raises(CannotConnect) as raised:
            deadline = Deadline(clock.seconds, 30)
            await connect(clock, Destination("127.0.0.1", port), credentials, CLIENT_LIMITS, deadline, lost.append)
        assert len(lost) == 1
        return str(raised.value)

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as silent:
        port = listener.getsockname()[1]
        silent.bind(("127.0.0.1", port))
        assert "without --quic it answers" in await message(port)
    monkeypatch.setattr(session, "ANSWER_SECONDS", 30.0)
    assert "neither by UDP nor by TCP" in await message(closed_port())


@pytest_twisted.ensureDeferred
async def test_a_call_without_time_is_not_blamed_on_the_network(site: Site) -> None:
    """Silence of a few milliseconds says nothing of UDP: the error names the time, and asks for more."""
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        async with client_of(site, timeout=0.05) as client:
            with pytest.raises(Timeout, match=r"longer than 0\.05 seconds, while connecting"):
                await client.call(f"agtp://127.0.0.1:{silent.getsockname()[1]}", "QUERY")


@pytest_twisted.ensureDeferred
async def test_unknown_names_are_reported(site: Site) -> None:
    """A host name that does not exist is an error of its own."""
    async with client_of(site) as client:
        with pytest.raises(CannotConnect, match=r"nowhere\.invalid"):
            await client.call("agtp://nowhere.invalid", "QUERY")


def test_unusable_files_are_refused(site: Site) -> None:
    """A key of another certificate is noticed when the client is made."""
    from twisted.internet import reactor

    certificate, _ = issue().save(site.folder, "one")
    _, key = issue().save(site.folder, "other")
    with pytest.raises(InvalidCall, match="not a certificate and its private key"):
        Client(reactor, cert=certificate, key=key, quic=True)
