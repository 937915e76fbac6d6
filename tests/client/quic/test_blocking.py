"""The blocking client over QUIC on real sockets, next to the TLS listener of the same port."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater

from agtphost.client import CannotConnect, ConnectionLost, InvalidCall, Reply, Timeout, sync
from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.deadline import Deadline
from agtphost.client.quic import handshake_race, loading
from agtphost.client.quic.blocking import connect
from agtphost.client.quic.core import WINDOW
from agtphost.client.quic.session import ANSWER_SECONDS, PING_SECONDS
from agtphost.client.requests import Destination
from agtphost.config.quic import QuicSection
from agtphost.protocols.quic.listener import QuicListeningService
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire import Headers, Response
from tests.client.quic.sessions import credentials_from
from tests.programmes import seed_of_chance
from tests.protocols.authorities import Identity, issue
from tests.protocols.links import FakeDispatcher, at_once, reply
from tests.protocols.loopback import Host, Site, in_thread, make_site
from tests.protocols.test_tls import good
from tests.system.hosting import until


class QuicHost(Host):
    """A host that listens by both carriers."""

    section = QuicSection(enabled=True)

    async def __aenter__(self) -> QuicHost:
        self.quic = QuicListeningService(
            self.section, self.tls, self.factory, self.service, self.reactor, "127.0.0.1", lambda: b"s" * 32
        )
        self.quic.startService()
        await super().__aenter__()
        await self.quic.when_listening()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.factory.cut()
        await self.quic.stopService()
        await super().__aexit__(*exception)

    @property
    def uri(self) -> str:
        """Where it is, by name."""
        return f"agtp://localhost:{self.port}"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def streaming(request: Any, peer: Any, interim: Any) -> Any:
    """Answer with two interim messages and a final one."""
    for number in range(2):
        interim(Response(status=202, headers=Headers([("Continuation-Token", f"c{number}")]), body=b""))
    return succeed(reply(request))


def client_of(site: Site, identity: Identity | None = None, **options: Any) -> sync.Client:
    certificate, key = (None, None) if identity is None else identity.save(site.folder, "caller")
    return sync.Client(
        trust=site.folder / "root.pem", cert=certificate, key=key, **{"timeout": 30.0, "quic": True, **options}
    )


def call_in_turn(client: sync.Client, uri: str, *methods: str, **options: Any) -> list[Reply]:
    """Make calls one after the other; to be called in a thread."""
    with client:
        return [client.call(uri, method, **options) for method in methods]


@pytest_twisted.ensureDeferred
async def test_calls_are_answered_over_quic(site: Site) -> None:
    """One connection serves all calls, and the host knows the same certificate as over TLS."""
    identity = good(site.root)
    async with QuicHost(site) as host:
        answers = await in_thread(call_in_turn, client_of(site, identity), host.uri, "QUERY", "SUBMIT", "QUERY")
        assert [answer.status for answer in answers] == [200, 200, 200]
        [over_tls] = await in_thread(call_in_turn, client_of(site, identity, quic=False), host.uri, "QUERY")
        assert over_tls.status == 200
        peers = host.dispatcher.peers
        assert [peer.carrier for peer in peers] == ["quic"] * 3 + ["tls"]
        assert len({id(peer.link) for peer in peers}) == 2
        assert peers[0].certificate == peers[3].certificate is not None


@pytest_twisted.ensureDeferred
async def test_calls_that_are_over_are_forgotten(site: Site) -> None:
    """A connection that serves for long keeps nothing of its calls."""

    def calls(uri: str) -> Any:
        with client_of(site) as client:
            for _ in range(3):
                client.call(uri, "QUERY")
            [[entry]] = client._calls._pool._entries.values()
            made: Any = entry.connection
            return made._session

    async with QuicHost(site) as host:
        session = await in_thread(calls, host.uri)
    assert (session._changed, session._waiting) == ({}, {})
    assert len(session._calls) <= 1  # The end of the last stream may come after its answer.


class Threads:
    """Calls of one client at the same time, each in a thread of its own."""

    def __init__(self, client: sync.Client, host: QuicHost) -> None:
        self._client, self._host = client, host
        self._pool = ThreadPoolExecutor(50)

    def call(self, task: str, method: str = "QUERY", **options: Any) -> Future[Reply]:
        return self._pool.submit(self._client.call, self._host.uri, method, task_id=task, **options)

    def stream(self, task: str, note: Callable[[Reply], object]) -> Future[None]:
        """Iterate over the replies to a call."""

        def work() -> None:
            for each in self._client.stream(self._host.uri, "EXECUTE", input={}, task_id=task):
                note(each)

        return self._pool.submit(work)

    async def wait_for_requests(self, count: int) -> None:
        """Wait until so many requests have no answer."""
        await self.wait(lambda: len(self._host.dispatcher.waiting) >= count)

    async def wait(self, until: Callable[[], object]) -> None:
        end = time.monotonic() + 30
        while not until():
            assert time.monotonic() < end, "it did not happen in time"
            await deferLater(self._host.reactor, 0.001)

    async def end(self) -> None:
        await in_thread(self._pool.shutdown)
        await in_thread(self._client.close)


@pytest_twisted.ensureDeferred
async def test_calls_of_many_threads_share_a_connection(site: Site) -> None:
    """Fifty calls at a time cost one handshake; each thread gets its own answer, whichever of them reads."""
    choice, dispatcher = Random(seed_of_chance()), FakeDispatcher()
    async with QuicHost(site, dispatcher) as host:
        threads = Threads(client_of(site), host)
        calling = [threads.call(f"task-{number}") for number in range(50)]
        answered = 0
        while answered < 50:
            await threads.wait_for_requests(min(10, 50 - answered))
            asked = list(zip(dispatcher.requests[answered:], dispatcher.waiting, strict=True))
            dispatcher.waiting.clear()
            choice.shuffle(asked)
            for request, answer in asked:
                answer.callback(reply(request))
            answered += len(asked)
        await threads.wait(lambda: all(each.done() for each in calling))
        assert [each.result().headers.get("task-id") for each in calling] == [f"task-{each}" for each in range(50)]
        assert host.quic.endpoint.counts.handshakes.total() == 0  # None has ended.
        assert host.factory.connections == len({id(peer.link) for peer in dispatcher.peers}) == 1
        await threads.end()
    assert host.quic.endpoint.counts.handshakes == {"done": 1}


@pytest_twisted.ensureDeferred
async def test_a_thread_that_gives_up_ends_no_other_call(site: Site) -> None:
    """A call that takes too long resets its stream, be its thread the one that reads or not; the others go on."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host:
        threads = Threads(client_of(site), host)
        first = threads.call("first", timeout=1)
        await threads.wait_for_requests(1)
        others = [threads.call("second"), threads.call("third", timeout=1), threads.call("fourth")]
        await threads.wait_for_requests(4)
        await threads.wait(lambda: first.done() and others[1].done())
        for late in (first, others[1]):
            with pytest.raises(Timeout, match="waiting for the answer"):
                late.result()
        await threads.wait(lambda: host.quic.endpoint.streams == 2)
        for answer, request in zip(dispatcher.waiting, dispatcher.requests, strict=True):
            answer.callback(reply(request))
        await threads.wait(lambda: all(each.done() for each in others))
        assert others[0].result().ok and others[2].result().ok
        last = threads.call("last")
        await threads.wait_for_requests(5)
        dispatcher.waiting[-1].callback(reply(dispatcher.requests[-1]))
        await threads.wait(last.done)
        assert last.result().ok and host.factory.connections == 1
        await threads.end()
    assert len({id(peer.link) for peer in dispatcher.peers}) == 1


@pytest_twisted.ensureDeferred
async def test_a_lost_cancellation_is_repeated_while_another_thread_reads(site: Site) -> None:
    """The thread that reads learns that something is due sooner than what it waits for, which is the next PING."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host:
        client = client_of(site)
        threads = Threads(client, host)
        kept = threads.call("kept", timeout=300)
        await threads.wait_for_requests(1)
        [[entry]] = client._calls._pool._entries.values()
        link: Any = entry.connection
        await threads.wait(lambda: (link._reads_until or 0) > time.monotonic() + PING_SECONDS / 2)
        late = threads.call("late", timeout=1)
        await threads.wait_for_requests(2)
        link._channel = lossy = LossySocket(link._channel)
        await threads.wait(late.done)
        assert isinstance(late.exception(), Timeout) and lossy.lost
        link._channel = lossy.channel
        await threads.wait(lambda: host.quic.endpoint.streams == 1)
        dispatcher.waiting[0].callback(reply(dispatcher.requests[0]))
        await threads.wait(kept.done)
        assert kept.result().ok
        await threads.end()


class LossySocket:
    """A UDP socket of a network that loses what is sent."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.lost = 0

    def send(self, octets: bytes, /) -> None:
        self.lost += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)


@pytest_twisted.ensureDeferred
async def test_the_end_of_a_shared_connection_ends_each_of_its_calls(site: Site) -> None:
    """Each thread gets an error that says what to do, and the next call has a new connection."""
    dispatcher = FakeDispatcher()
    async with QuicHost(site, dispatcher) as host:
        threads = Threads(client_of(site), host)
        calling = [threads.call(f"task-{number}", "BOOK") for number in range(5)]
        await threads.wait_for_requests(5)
        for link in tuple(host.quic.endpoint._links):
            link.core.close(Code.TOO_MUCH)
            link._wake()
        await threads.wait(lambda: all(each.done() for each in calling))
        for each in calling:
            error = each.exception()
            assert isinstance(error, ConnectionLost) and error.remedy
        dispatcher.waiting.clear()
        again = threads.call("again", "BOOK")
        await threads.wait_for_requests(1)
        dispatcher.waiting[0].callback(reply(dispatcher.requests[-1]))
        await threads.wait(again.done)
        assert again.result().ok
        await threads.end()
    assert len(dispatcher.requests) == 6 and len({id(peer.link) for peer in dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_a_thread_that_is_slow_with_its_replies_stops_no_other(site: Site) -> None:
    """While a thread handles an interim reply another one reads, and what arrives for the first is bounded."""
    go_on, arrived = threading.Event(), list[Reply]()
    dispatcher = FakeDispatcher()

    def handle(each: Reply) -> None:
        arrived.append(each)
        if len(arrived) == 1:
            go_on.wait(30)

    async with QuicHost(site, dispatcher) as host:
        client = client_of(site)
        threads = Threads(client, host)
        slow = threads.stream("slow", handle)
        await threads.wait_for_requests(1)
        [answer] = dispatcher.waiting
        part = Response(
            status=202,
            headers=Headers([("Continuation-Token", "c"), ("Content-Type", "text/plain")]),
            body=bytes(10_000),
        )
        dispatcher.interims[0](part)
        await threads.wait(lambda: arrived)
        quick = [threads.call(f"quick-{number}") for number in range(3)]
        await threads.wait_for_requests(4)
        for _ in range(100):
            dispatcher.interims[0](part)
        [[entry]] = client._calls._pool._entries.values()
        link: Any = entry.connection
        [call] = [each for each in link._session._calls.values() if each.consumed]
        await threads.wait(lambda: call.consumed >= WINDOW)
        for request, waiting in zip(dispatcher.requests[1:], dispatcher.waiting[1:], strict=True):
            waiting.callback(reply(request))
        await threads.wait(lambda: all(each.done() for each in quick))
        allowed = link._session._core._streams[call.stream].max_stream_data_local
        go_on.set()
        assert allowed <= WINDOW + 3 * 10_200 and len(arrived) == 1 and not slow.done()
        assert all(each.result().ok for each in quick)
        answer.callback(reply(dispatcher.requests[0]))
        await threads.wait(slow.done)
        slow.result()
        assert len(arrived) == 102
        await threads.end()


def test_threads_that_wait_for_a_connection_fail_with_it(site: Site) -> None:
    """One attempt tells all threads that no host answers: they do not try one after the other."""
    client = client_of(site)
    made: list[int] = []
    begun, barrier = threading.Event(), threading.Barrier(5)
    connect_by_quic = client._calls._connect_by_quic

    def connect_and_count(*arguments: Any) -> Any:
        made.append(1)
        begun.wait(30)
        return connect_by_quic(*arguments)

    client._calls._connect_by_quic = connect_and_count  # type: ignore[method-assign]
    uri = f"agtp://127.0.0.1:{closed_port()}"

    def call() -> None:
        barrier.wait(30)
        client.call(uri, "QUERY")

    with ThreadPoolExecutor(5) as pool:
        calling = [pool.submit(call) for _ in range(5)]
        until(lambda: len(client._calls._changed._waiters) == 4)  # type: ignore[attr-defined]
        begun.set()
        for each in calling:
            assert isinstance(each.exception(30), CannotConnect)
    assert made == [1]


@pytest_twisted.ensureDeferred
async def test_interim_messages_are_streamed(site: Site) -> None:
    """Interim replies are handed out as they arrive, before the final one."""
    arrived: list[Reply] = []
    async with QuicHost(site, FakeDispatcher(streaming)) as host:
        [final] = await in_thread(
            lambda: call_in_turn(client_of(site), host.uri, "EXECUTE", input={}, stream=arrived.append)
        )
    assert [(each.status, each.interim) for each in arrived] == [(202, True)] * 2
    assert (final.status, final.interims) == (200, 2)


@pytest_twisted.ensureDeferred
async def test_a_replaced_certificate_is_shown_by_the_next_call(site: Site) -> None:
    """A certificate that was renewed while the client runs is presented without a restart, as over TLS."""
    first, second = good(site.root), good(site.root)

    def calls(uri: str) -> None:
        with client_of(site, first) as client:
            client.call(uri, "QUERY")
            certificate, _ = second.save(site.folder, "caller")
            os.utime(certificate, ns=(1, 1))  # so that it is another file, however fast this is
            client.call(uri, "QUERY")

    async with QuicHost(site) as host:
        await in_thread(calls, host.uri)
        before, after = (peer.certificate for peer in host.dispatcher.peers)
    assert before is not None and after is not None and before.fingerprint != after.fingerprint


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
            link.core.close(0x05)
            link._wake()
        return Deferred()

    host = QuicHost(site, FakeDispatcher(close_the_second))
    async with host:
        calling = in_thread(call_in_turn, client_of(site), host.uri, "QUERY", method)
        if attempts == 2:
            assert [answer.status for answer in await calling] == [200, 200]
        else:
            with pytest.raises(ConnectionLost, match="before it answered"):
                await calling
    assert asked == ["QUERY", *[method] * attempts]


@pytest_twisted.ensureDeferred
async def test_a_call_that_a_draining_host_has_not_begun_is_made_again(site: Site) -> None:
    """Any method is repeated where the host says that it was not begun with it, and nothing is carried out twice."""

    def drain_after_the_first(request: Any, peer: Any, interim: Any) -> Any:
        for link in host.quic.endpoint._links:
            link._draining = len(host.dispatcher.requests) == 1
        return at_once(request, peer, interim)

    host = QuicHost(site, FakeDispatcher(drain_after_the_first))
    with _held_closing():
        async with host:
            answers = await in_thread(call_in_turn, client_of(site), host.uri, "BOOK", "BOOK")
    assert [answer.status for answer in answers] == [200, 200]
    assert len(host.dispatcher.requests) == 2


@contextmanager
def _held_closing() -> Iterator[None]:
    """Keep back the notice of idle connections that the host ends: it is still on its way."""
    from agtphost.protocols.quic.core import ServerCore
    from agtphost.vocabulary.quic_codes import Code

    close = ServerCore.close

    def close_later(self: Any, error_code: int = 0, *more: Any) -> None:
        if error_code != Code.ENDING:
            close(self, error_code, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerCore, "close", close_later)
        yield


# Hosts that do not answer


class SilentSocket:
    """
    A UDP socket of a network that drops UDP; waiting lets the clock of the test go on.

    :param is_closed: whether the system reports that nothing listens at the port.
    :param now: what the clock shows at first.
    """

    def __init__(self, *, is_closed: bool = False, now: float = 0.0) -> None:
        self._reports = is_closed
        self.sent: list[bytes] = []
        self.now = now
        self._timeout = 0.0
        self._real = socket.socket(type=socket.SOCK_DGRAM)
        self.is_closed = False

    def send(self, octets: bytes, /) -> None:
        self.sent.append(octets)

    def recv(self, size: int, /) -> bytes:
        if self._reports:
            raise ConnectionRefusedError
        self.now += self._timeout
        raise TimeoutError

    def settimeout(self, seconds: float, /) -> None:
        self._timeout = seconds

    def fileno(self) -> int:
        return self._real.fileno()

    def close(self) -> None:
        self._real.close()
        self.is_closed = True


def error_of_silence(site: Site, port: int, *, is_closed: bool = False) -> tuple[CannotConnect, SilentSocket]:
    """The error of a connection whose datagrams all vanish, and the socket that they were given to."""
    silent = SilentSocket(is_closed=is_closed)
    clock = lambda: silent.now  # noqa: E731
    with pytest.raises(CannotConnect) as raised:
        connect(
            Destination("127.0.0.1", port),
            credentials_from(site.folder / "root.pem"),
            CLIENT_LIMITS,
            Deadline(clock, 10),
            clock,
            lambda place: silent,
        )
    return raised.value, silent


def test_a_network_that_drops_udp_is_told_from_a_host_that_is_down(site: Site) -> None:
    """After three seconds and a few datagrams the error says what answers by TCP, and what turns the listener on."""
    with socket.create_server(("127.0.0.1", 0)) as answering:
        error, silent = error_of_silence(site, answering.getsockname()[1])
    assert "does not answer by UDP; without --quic it answers" in error.explanation
    assert "enabled = true in [quic]" in error.remedy
    assert silent.now == pytest.approx(ANSWER_SECONDS, abs=0.1)
    assert 3 <= len(silent.sent) <= 7 and silent.is_closed
    down, _ = error_of_silence(site, closed_port())
    assert "neither by UDP nor by TCP" in down.explanation
    assert "If [quic] port is not TLS's, TCP has another: call without --quic." in down.remedy
    reported, closed = error_of_silence(site, closed_port(), is_closed=True)
    assert "neither by UDP nor by TCP" in reported.explanation
    assert closed.now == 0 and len(closed.sent) <= 2  # the first packet, and the end of the attempt


def test_a_call_without_time_is_not_blamed_on_the_network(site: Site) -> None:
    """Silence of a few milliseconds says nothing of UDP: the error names the time, and asks for more."""
    silent = SilentSocket()
    clock = lambda: silent.now  # noqa: E731
    with socket.create_server(("127.0.0.1", 0)) as answering, pytest.raises(Timeout) as raised:
        connect(
            Destination("127.0.0.1", answering.getsockname()[1]),
            credentials_from(site.folder / "root.pem"),
            CLIENT_LIMITS,
            Deadline(clock, 0.01),
            clock,
            lambda place: silent,
        )
    assert "longer than 0.01 seconds, while connecting" in raised.value.explanation
    assert raised.value.remedy and silent.now == pytest.approx(0.01, abs=0.002)


def test_a_call_with_little_time_tries_each_address(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next address of a host is tried after 250 ms, besides the first one, which goes on."""
    places = [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", (f"127.0.0.{number}", 4480)) for number in (1, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    silent, tried = SilentSocket(), []

    def clock() -> float:
        return silent.now

    def opened(place: Any) -> SilentSocket:
        nonlocal silent
        tried.append((place[4][0], silent.now))
        silent = SilentSocket(now=silent.now)
        return silent

    def wait(channels: Any, seconds: float) -> Any:
        silent.now += seconds
        return ()

    monkeypatch.setattr(handshake_race, "wait_for_any", wait)

    with pytest.raises(Timeout, match="longer than 1 seconds"):
        connect(
            Destination("localhost", 4480),
            credentials_from(site.folder / "root.pem"),
            CLIENT_LIMITS,
            Deadline(clock, 1),
            clock,
            opened,
        )
    assert tried == [("127.0.0.1", 0), ("127.0.0.2", pytest.approx(0.25, abs=0.01))]


def closed_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as was:
        return int(was.getsockname()[1])


@pytest_twisted.ensureDeferred
async def test_a_host_without_the_listener_is_told_at_once(site: Site) -> None:
    """Where the system reports that nothing listens by UDP, nothing is waited for."""
    async with Host(site) as host:
        with pytest.raises(CannotConnect, match="without --quic it answers"):
            await in_thread(call_in_turn, client_of(site), f"agtp://127.0.0.1:{host.port}", "QUERY")
        assert host.dispatcher.requests == []


def test_unknown_names_are_reported_as_over_tls(site: Site) -> None:
    """A host name that does not exist is an error of its own."""
    with pytest.raises(CannotConnect, match=r"Cannot connect to nowhere\.invalid"):
        call_in_turn(client_of(site), "agtp://nowhere.invalid", "QUERY")


# Clients that cannot


def test_without_the_extra_the_error_names_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where aioquic is not installed, the client says what to install, and does not call over TLS instead."""
    monkeypatch.setattr(loading, "is_installed", lambda package: False)
    with pytest.raises(InvalidCall, match=r"pip install 'agtphost\[quic\]'"):
        client_of(site)


def test_client_certificates_that_are_not_a_pair_are_refused(site: Site) -> None:
    """A key of another certificate is noticed when the client is made."""
    certificate, _ = issue().save(site.folder, "one")
    _, key = issue().save(site.folder, "other")
    with pytest.raises(InvalidCall, match="not a certificate and its private key"):
        sync.Client(cert=certificate, key=key, quic=True)
