"""The asyncio client over QUIC on real sockets, on a loop that is not the reactor's."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest
import pytest_twisted
from twisted.internet.defer import gatherResults

from agtphost.client import CannotConnect, ConnectionLost, Reply, Timeout, TLSRefused, aio
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.deadline import Deadline
from agtphost.client.quic import session
from agtphost.client.quic.aio import connect
from agtphost.client.quic.blocking import open_udp
from agtphost.client.requests import Destination
from agtphost.vocabulary.quic_codes import Code
from tests.client.drivers import Loop
from tests.client.quic.sessions import call_of, credentials_from
from tests.client.quic.test_blocking import QuicHost, closed_port, streaming
from tests.client.quic.test_concurrent_calls import Slow
from tests.client.quic.test_twisted import event
from tests.protocols.authorities import Identity, issue
from tests.protocols.links import FakeDispatcher
from tests.protocols.loopback import Host, Site, in_thread, make_site
from tests.protocols.test_tls import good


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def client_of(site: Site, identity: Identity | None = None, **options: Any) -> aio.Client:
    certificate, key = (None, None) if identity is None else identity.save(site.folder, "caller")
    given = {"trust": site.folder / "root.pem", "timeout": 30.0, "quic": True, **options}
    return aio.Client(cert=certificate, key=key, **given)


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No UDP socket of this process, and no warning of one."""

    def count() -> int:
        return len(psutil.Process().net_connections("udp"))

    gc.collect()
    before = count()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert ([str(each.message) for each in noted], count()) == ([], before)


@asynccontextmanager
async def running(client: aio.Client) -> AsyncIterator[Loop]:
    """A loop of the client, which must leave no task and no complaint."""
    loop = Loop()
    try:
        yield loop
    finally:
        await loop.run(client.close())
        loop.stop()


@pytest_twisted.ensureDeferred
async def test_calls_share_one_connection_and_a_cancelled_one_ends_alone(site: Site) -> None:
    """Twenty calls cost one handshake; the host hears of the one that is cancelled, and answers the others."""
    dispatcher, client = Slow(), client_of(site, good(site.root))
    with nothing_left():
        async with QuicHost(site, dispatcher) as host:
            async with running(client) as loop:
                calling = [loop.run(client.call(host.uri, "BOOK", task_id=f"task-{n}")) for n in range(20)]
                await event(lambda: len(dispatcher.slow) == 16)
                left: list[str] = []
                dispatcher.peers[0].leaving.add(lambda: left.append("task-0"))
                calling[0].addErrback(lambda _: None).cancel()
                await event(lambda: left)
                for number in range(20):
                    await event(lambda: f"task-{number}" in dispatcher.slow)  # noqa: B023
                    dispatcher.finish(f"task-{number}")
                replies = await gatherResults(calling[1:])
                assert [each.body for each in replies] == [f"task-{number}".encode() for number in range(1, 20)]
                assert host.factory.connections == 1
            await event(lambda: host.factory.connections == 0)
    assert len({id(peer.link) for peer in dispatcher.peers}) == 1
    assert all(peer.certificate is not None and peer.carrier == "quic" for peer in dispatcher.peers)


@pytest_twisted.ensureDeferred
async def test_interim_messages_are_streamed(site: Site) -> None:
    """Interim replies come before the final one, by callback and by iteration; a failing callback ends its own call."""

    async def calls(uri: str) -> list[list[int]]:
        async with client_of(site) as client:
            arrived: list[Reply] = []
            final = await client.call(uri, "EXECUTE", input={}, stream=arrived.append)
            iterated = [reply.status async for reply in client.stream(uri, "EXECUTE", input={})]

            def fail(interim: Reply) -> None:
                raise ValueError("the callback fails")

            with pytest.raises(ValueError, match="the callback fails"):
                await client.call(uri, "EXECUTE", input={}, stream=fail)
            return [[*(each.status for each in arrived), final.status], iterated]

    async with QuicHost(site, FakeDispatcher(streaming)) as host:
        assert await in_thread(asyncio.run, calls(host.uri)) == [[202, 202, 200]] * 2
        assert len({id(peer.link) for peer in host.dispatcher.peers}) == 1


@pytest_twisted.ensureDeferred
async def test_only_calls_that_are_safe_to_repeat_are_made_again(site: Site) -> None:
    """Where a shared connection ends, each of its calls is judged by itself."""
    dispatcher, client = Slow(), client_of(site)
    async with QuicHost(site, dispatcher) as host, running(client) as loop:
        await loop.run(client.call(host.uri, "QUERY"))
        plain = loop.run(client.call(host.uri, "BOOK", task_id="plain"))
        keyed = loop.run(client.call(host.uri, "BOOK", task_id="keyed", idempotency_key="k1"))
        await event(lambda: len(dispatcher.slow) == 2)
        dispatcher.slow.clear()
        [link] = host.quic.endpoint._links
        link.core.close(Code.TOO_MUCH)
        link._wake()
        with pytest.raises(ConnectionLost, match="before it answered"):
            await plain
        await event(lambda: dispatcher.slow)
        dispatcher.finish("keyed")
        assert (await keyed).status == 200


@pytest_twisted.ensureDeferred
async def test_a_silent_host_is_told_from_one_that_is_down(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer by UDP the error says what answers by TCP, for all calls that wait; no socket is left."""

    async def fail(uri: str, calls: int = 3) -> list[str]:
        async with client_of(site) as client:
            found = await asyncio.gather(*(client.call(uri, "QUERY") for _ in range(calls)), return_exceptions=True)
        assert {type(each) for each in found} == {CannotConnect}
        return [str(each) for each in found]

    with nothing_left():
        for message in await in_thread(asyncio.run, fail(f"agtp://127.0.0.1:{closed_port()}")):
            assert "neither by UDP nor by TCP" in message
        async with Host(site) as host:
            for message in await in_thread(asyncio.run, fail(f"agtp://127.0.0.1:{host.port}")):
                assert "without --quic it answers" in message
            monkeypatch.setattr(session, "ANSWER_SECONDS", 0.05)
            with socket.socket(type=socket.SOCK_DGRAM) as silent:
                silent.bind(("127.0.0.1", host.port))
                [message] = await in_thread(asyncio.run, fail(f"agtp://127.0.0.1:{host.port}", 1))
                assert "without --quic it answers" in message


@pytest_twisted.ensureDeferred
async def test_a_bad_server_is_refused(site: Site) -> None:
    """Authority and name are checked within the handshake; nothing is dispatched, and no socket is left."""
    issue(name="another", authority=True).save(site.folder, "other")

    async def call(uri: str) -> None:
        async with client_of(site, trust=site.folder / "other.pem") as client:
            await client.call(uri, "QUERY")

    with nothing_left():
        async with QuicHost(site) as host:
            with pytest.raises(TLSRefused, match="not trusted"):
                await in_thread(asyncio.run, call(host.uri))
    assert host.dispatcher.requests == []


@pytest_twisted.ensureDeferred
async def test_a_client_on_a_second_loop_opens_a_second_connection(site: Site) -> None:
    """Connections belong to their loop, and end where the client is closed."""

    def use(uri: str) -> None:
        client = client_of(site)

        async def call_twice() -> None:
            for _ in range(2):
                await client.call(uri, "QUERY")

        async def call_and_close() -> None:
            await call_twice()
            await client.close()

        asyncio.run(call_twice())
        asyncio.run(call_and_close())

    async with QuicHost(site) as host:
        await in_thread(use, host.uri)
    assert len(host.dispatcher.requests) == 4
    assert len({id(peer.link) for peer in host.dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_a_server_that_is_reported_as_gone_again_and_again_is(site: Site) -> None:
    """One report of the system, which is easily forged, ends no call; three without a datagram between them do."""
    dispatcher, client = FakeDispatcher(), client_of(site)
    async with QuicHost(site, dispatcher) as host, running(client) as loop:
        calling = loop.run(client.call(host.uri, "BOOK"))
        await event(lambda: dispatcher.waiting)
        [link] = client._open_links
        link._driver.session.receive = lambda *_: None  # type: ignore[union-attr]  # The host says nothing any more.

        async def report(times: int) -> None:
            for _ in range(times):
                link.error_received(ConnectionRefusedError())  # type: ignore[union-attr]
                await asyncio.sleep(0)

        await loop.run(report(session.MOST_UNREACHABLE - 1))
        assert link.reusable
        await loop.run(report(1))
        with pytest.raises(ConnectionLost, match="is gone"):
            await calling
        dispatcher.answer()


@pytest_twisted.ensureDeferred
async def test_an_attempt_that_takes_too_long_leaves_nothing(site: Site) -> None:
    """A call whose time is over while it connects is a timeout, and its socket is closed."""

    async def call(uri: str) -> None:
        async with client_of(site, timeout=0.05) as client:
            await client.call(uri, "QUERY")

    with nothing_left(), socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(Timeout, match=r"longer than 0\.05 seconds, while connecting"):
            await in_thread(asyncio.run, call(f"agtp://127.0.0.1:{silent.getsockname()[1]}"))


@pytest_twisted.ensureDeferred
async def test_a_call_on_a_new_connection_that_dies_is_not_repeated(site: Site) -> None:
    """As over TLS, however safe it would be: the connection had served no call."""
    dispatcher, client = Slow(), client_of(site)
    async with QuicHost(site, dispatcher) as host, running(client) as loop:
        calling = loop.run(client.call(host.uri, "BOOK", idempotent=True))
        await event(lambda: dispatcher.slow)
        [link] = host.quic.endpoint._links
        link.core.close(Code.TOO_MUCH)
        link._wake()
        with pytest.raises(ConnectionLost):
            await calling
    assert len(dispatcher.requests) == 1


@pytest_twisted.ensureDeferred
async def test_a_call_that_meets_the_end_of_its_connection_was_not_sent(site: Site) -> None:
    """A connection may end in the turn in which a call gets it: any method may be made again."""

    async def meet(port: int) -> ConnectionLost:
        lost: list[object] = []
        place, credentials = Destination("localhost", port), credentials_from(site.folder / "root.pem")
        deadline = Deadline(monotonic, 30)
        link = await connect(place, credentials, CLIENT_LIMITS, deadline, monotonic, set(), lost.append)
        await link.close()
        with pytest.raises(ConnectionLost) as raised:
            await link.perform(call_of("BOOK"), None, deadline)
        assert lost == [link]
        return raised.value

    async with QuicHost(site) as host:
        assert (await in_thread(asyncio.run, meet(host.port))).unprocessed
    assert host.dispatcher.requests == []


def test_a_socket_that_the_loop_does_not_take_is_closed(site: Site) -> None:
    """Where the loop cannot watch the socket, the error is that of a host that cannot be reached."""

    async def fail() -> None:
        async def refuse(*_: Any, **more: Any) -> None:
            raise OSError("no more descriptors")

        asyncio.get_running_loop().create_datagram_endpoint = refuse  # type: ignore[method-assign, assignment]
        async with client_of(site) as client:
            await client.call(f"agtp://127.0.0.1:{closed_port()}", "QUERY")

    with nothing_left(), pytest.raises(CannotConnect):
        asyncio.run(fail())


def test_a_connection_that_wins_for_a_cancelled_call_is_ended(site: Site) -> None:
    """Where a call is given up in the turn in which its race is won, the connection is not left open."""

    class Link:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    async def race() -> bool:
        link: Any = Link()

        async def win() -> Any:
            asyncio.get_running_loop().call_soon(racing.cancel)
            return link

        racing = asyncio.ensure_future(client_of(site)._race(win, win, lambda _: None))
        with pytest.raises(asyncio.CancelledError):
            await racing
        return bool(link.aborted)

    assert asyncio.run(race())


def test_there_is_no_twisted_in_the_process() -> None:
    """QUIC on asyncio uses nothing of Twisted."""
    program = """
import asyncio, sys
from agtphost.client import ClientError, aio
async def main():
    async with aio.Client(connect_timeout=1, quic=True) as client:
        try:
            await client.call("agtp://127.0.0.1:1", "QUERY")
        except ClientError:
            pass
asyncio.run(main())
assert "agtphost.client.quic.aio" in sys.modules
print([name for name in sys.modules if name.split(".")[0] == "twisted"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_an_open_socket_of_a_place_is_connected() -> None:
    """The control of the sockets that the tests count: it is one of this process until it is closed."""
    with nothing_left():
        [place, *_] = socket.getaddrinfo("127.0.0.1", 9, type=socket.SOCK_DGRAM)
        with contextlib.closing(open_udp(place)) as channel:
            assert channel.getpeername() == ("127.0.0.1", 9)
