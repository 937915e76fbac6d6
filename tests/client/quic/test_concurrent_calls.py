"""Calls that share one connection by QUIC: within the server's limit of streams, and each with an end of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from aioquic.quic.packet import QuicErrorCode
from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed

from agtphost.client import CannotConnect, Client, ConnectionLost, Timeout
from agtphost.client.connections import CONNECT_SECONDS
from agtphost.client.quic.calls import QuicCall
from agtphost.client.quic.session import PING_SECONDS
from agtphost.client.reply import Reply
from agtphost.config.quic import QuicSection
from agtphost.protocols import ConnectionLimits
from agtphost.vocabulary.quic_codes import MOST_RESETS, RESET_SECONDS, Code
from agtphost.wire import Headers, Response
from tests.client.quic.sessions import ADDRESS, SessionClient, call_of, credentials_of
from tests.client.quic.test_blocking import QuicHost as RealHost
from tests.client.quic.test_blocking import _held_closing, closed_port
from tests.client.quic.test_twisted import client_of, event
from tests.protocols.links import FakeDispatcher, at_once, reply
from tests.protocols.loopback import Site, make_site
from tests.protocols.quic.network import Network, QuicHost
from tests.protocols.test_tls import good

SEED = 20_261_130


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


class Slow(FakeDispatcher):
    """Leaves every request of the method BOOK waiting, by its Task-ID, and answers all others."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.slow: dict[str, tuple[Any, Deferred[Any]]] = {}

    def _answer(self, request: Any, peer: Any, interim: Any) -> Any:
        if request.method != "BOOK":
            return at_once(request, peer, interim)
        waiting: Deferred[Any] = Deferred()
        self.slow[request.headers.get("task-id")] = request, waiting
        return waiting

    def finish(self, task: str) -> None:
        """Answer a slow request."""
        request, waiting = self.slow.pop(task)
        waiting.callback(reply(request, task.encode()))


def connect(site: Site, dispatcher: FakeDispatcher, network: Network | None = None, **section: Any) -> SessionClient:
    """A session that is ready, at a host."""
    network = network or Network()
    QuicHost(network, site, dispatcher, **section)
    return SessionClient(network, credentials_of(site), patience=20).connect()


# One session, in virtual time


def test_calls_within_the_limit_run_at_a_time_and_the_others_wait_their_turn(site: Site) -> None:
    """A host that allows four requests at a time is asked twenty, and never has more; the first come first."""
    dispatcher = FakeDispatcher()
    client = connect(site, dispatcher, streams=4)
    calls = [client.ask(call_of("BOOK", f"task-{number}")) for number in range(20)]
    most, finals = 0, []
    for number, call in enumerate(calls):
        client.network.run(lambda: len(dispatcher.waiting) == min(4, 20 - number))  # noqa: B023
        most = max(most, len(dispatcher.waiting))
        dispatcher.answer(f"{number}".encode())
        finals.append(client.wait(call))
    assert [(each.headers.get("task-id"), each.body) for each in finals] == [
        (f"task-{number}", f"{number}".encode()) for number in range(20)
    ]
    assert most == 4
    assert client.session.reusable and not client.session._calls


@pytest.mark.parametrize("body", [1, 8_000])
@pytest.mark.parametrize("at_a_time", [8, 16])
def test_no_call_waits_for_a_stream_while_fewer_run_than_are_allowed(site: Site, at_a_time: int, body: int) -> None:
    """The answer that ends a call brings the permission for the next one, before it is acknowledged."""
    dispatcher = FakeDispatcher(lambda request, peer, interim: succeed(reply(request, bytes(body))))
    client = connect(site, dispatcher, Network(delay=0.02), streams=16)
    left, running = 5 * at_a_time, set[QuicCall]()
    while left or running:
        while left and len(running) < at_a_time:
            running.add(client.ask(call_of(task=f"task-{left}")))
            left -= 1
            assert not client.session._waiting
        client.network.run(lambda: any(not call.is_out for call in running))  # noqa: B023
        running = {call for call in running if call.is_out}
    assert len(dispatcher.requests) == 5 * at_a_time and not client.errors


def test_a_quick_call_does_not_wait_behind_slow_ones(site: Site) -> None:
    """The answer of one call comes while others wait, and theirs is their own."""
    dispatcher = Slow()
    client = connect(site, dispatcher)
    slow = [client.ask(call_of("BOOK", f"slow-{number}")) for number in range(3)]
    quick = client.ask(call_of("QUERY", "quick"))
    assert client.wait(quick).headers.get("task-id") == "quick"
    assert all(call.is_out and call not in client.found for call in slow)
    for number in (2, 0, 1):
        dispatcher.finish(f"slow-{number}")
        assert client.wait(slow[number]).body == f"slow-{number}".encode()


def test_a_cancelled_call_leaves_the_others(site: Site) -> None:
    """The host hears of this cancellation only; a call that still waits for a stream is never sent."""
    dispatcher = Slow()
    client = connect(site, dispatcher, streams=2)
    first, second, third, fourth = (client.ask(call_of("BOOK", f"task-{number}")) for number in range(4))
    client.network.run(lambda: len(dispatcher.slow) == 2)
    left: list[int] = []
    for number, peer in enumerate(dispatcher.peers):
        peer.leaving.add(lambda number=number: left.append(number))
    client.session.give_up(third)
    client.session.give_up(first)
    client.flush()
    client.network.run(lambda: left)
    dispatcher.finish("task-0")  # Nobody waits for it, but the handler of a slow call ends by itself.
    client.network.run(lambda: "task-3" in dispatcher.slow)
    for number, call in ((1, second), (3, fourth)):
        dispatcher.finish(f"task-{number}")
        assert client.wait(call).body == f"task-{number}".encode()
    assert left == [0]
    assert [request.headers.get("task-id") for request in dispatcher.requests] == ["task-0", "task-1", "task-3"]


def test_the_end_of_a_connection_says_which_calls_were_sent(site: Site) -> None:
    """A call without a stream was not begun with, and any method may be repeated; of the others that is unknown."""
    dispatcher = FakeDispatcher()
    network = Network()
    host = QuicHost(network, site, dispatcher, streams=2)
    client = SessionClient(network, credentials_of(site)).connect()
    calls = [client.ask(call_of("BOOK", f"task-{number}")) for number in range(3)]
    network.run(lambda: len(dispatcher.waiting) == 2)
    [link] = host.endpoint._links
    link.core.close(Code.TOO_MUCH)
    link._wake()
    network.run(lambda: client.session.fault)
    assert [loss_of(client, call).unprocessed for call in calls] == [False, False, True]


def loss_of(client: SessionClient, call: QuicCall) -> ConnectionLost:
    """Why a call has no answer."""
    with pytest.raises(ConnectionLost, match=r"ended the connection|has not begun") as raised:
        client.wait(call)
    assert not raised.value.answered
    return raised.value


def test_a_host_that_drains_answers_what_it_has_begun(site: Site) -> None:
    """Calls that it has not begun with are known as such, those that wait for a stream too; no further one is made."""
    dispatcher = Slow()
    network = Network()
    host = QuicHost(network, site, dispatcher, streams=2)
    client = SessionClient(network, credentials_of(site)).connect()
    begun = client.ask(call_of("BOOK", "begun"))
    network.run(lambda: dispatcher.slow)
    [link] = host.endpoint._links
    link.drain()
    late, later = client.ask(call_of("BOOK", "late")), client.ask(call_of("BOOK", "later"))
    assert (late.stream, later.stream) == (4, None)
    assert loss_of(client, late).unprocessed and loss_of(client, later).unprocessed
    assert not client.session.reusable and client.session.fault is None
    dispatcher.finish("begun")
    assert client.wait(begun).body == b"begun"
    assert len(dispatcher.requests) == 1


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_no_number_of_cancellations_ends_the_connection_of_another_call(site: Site, loss: float) -> None:
    """Calls that wait on a connection with many cancelled ones are made in the end, and no new ones are."""
    dispatcher = Slow()
    client = connect(site, dispatcher, Network(SEED, loss=loss, jitter=0.05))
    network = client.network
    kept = client.ask(call_of("BOOK", "kept"))
    calls = [client.ask(call_of("BOOK", f"task-{number}")) for number in range(250)]
    since, cancelled_by = network.clock.seconds(), 0.0
    for number, call in enumerate(calls):
        network.run(lambda: call.stream is not None)  # noqa: B023
        if loss == 0:
            network.run(lambda: f"task-{number}" in dispatcher.slow)  # noqa: B023
        client.session.give_up(call)
        client.flush()
        assert not client.session.reusable or number >= 99
        cancelled_by = cancelled_by or (network.clock.seconds() if number == 98 else 0.0)
    assert cancelled_by - since < 10 or loss
    network.run(lambda: "kept" in dispatcher.slow)
    dispatcher.finish("kept")
    assert client.wait(kept).status == 200
    network.pass_time(15)
    assert client.session.reusable and client.call(call_of()).status == 200


def test_calls_that_run_are_counted_as_if_they_were_cancelled(site: Site) -> None:
    """A host that allows more requests at a time than cancellations gets no more than it takes cancelled together."""
    dispatcher = Slow()
    client = connect(site, dispatcher, streams=128)
    calls = [client.ask(call_of("BOOK", f"task-{number:03}")) for number in range(128)]
    client.network.run(lambda: len(dispatcher.slow) == MOST_RESETS)
    for call in calls[:MOST_RESETS]:
        client.session.give_up(call)
    client.flush()
    client.network.run(lambda: len(dispatcher.requests) == 128, RESET_SECONDS + 1)
    dispatcher.finish("task-127")
    assert client.wait(calls[127]).status == 200


def test_a_request_that_crosses_the_end_of_an_idle_connection_is_repeatable(site: Site) -> None:
    """A host that drains ends an idle connection with 0x06: what was on its way then was not begun with."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    network.pass_time(1)
    [link] = host.endpoint._links
    link.drain()
    network.pass_time(0.001)  # The notice is under way.
    call = client.ask(call_of("BOOK"))
    assert loss_of(client, call).unprocessed
    assert host.dispatcher.requests == []


def test_a_request_that_crosses_the_end_of_an_unconfirmed_connection_is_repeatable(site: Site) -> None:
    """A host that drains within the handshake can't say why it ends, but it has read no request."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    call = client.ask(call_of("BOOK"))
    [link] = host.endpoint._links
    assert host.endpoint.half_open == 1
    link.drain()
    assert loss_of(client, call).unprocessed
    assert host.dispatcher.requests == []


def test_an_end_of_the_handshakes_kind_says_nothing_after_it(site: Site) -> None:
    """A request may have been begun with if its host has confirmed the handshake."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    network.pass_time(1)
    call = client.ask(call_of("BOOK"))
    [link] = host.endpoint._links
    link.core.close(QuicErrorCode.APPLICATION_ERROR, 0)
    link._wake()
    assert not loss_of(client, call).unprocessed


def test_the_way_stays_open_until_the_last_call_has_ended(site: Site) -> None:
    """PINGs go on while any call is out, and end with it."""
    dispatcher = Slow()
    client = connect(site, dispatcher)
    network = client.network
    calls = [client.ask(call_of("BOOK", f"task-{number}")) for number in range(2)]
    network.run(lambda: len(dispatcher.slow) == 2)

    def count_sent(seconds: float) -> int:
        before = sum(origin == ADDRESS for origin, _, _ in network.carried)
        network.pass_time(seconds)
        return sum(origin == ADDRESS for origin, _, _ in network.carried) - before

    dispatcher.finish("task-0")
    client.wait(calls[0])
    network.pass_time(1)
    assert count_sent(2 * PING_SECONDS) >= 2
    dispatcher.finish("task-1")
    client.wait(calls[1])
    network.pass_time(1)
    assert count_sent(2 * PING_SECONDS) == 0


def test_no_concurrent_answer_is_lost_or_doubled_on_a_bad_network(site: Site) -> None:
    """With a tenth of the datagrams lost, doubled and late, twelve calls on five streams have their own answers."""
    for seed in range(SEED, SEED + 3):
        network = Network(seed, loss=0.1, doubled=0.1, jitter=0.05)

        def answer(request: Any, peer: Any, interim: Any, network: Network = network) -> Any:
            late: Deferred[Any] = Deferred()
            octets = (request.headers.get("task-id") or "").encode() * network.random.choice((1, 100, 3000))
            network.clock.callLater(network.random.random(), late.callback, reply(request, octets))
            return late

        dispatcher = FakeDispatcher(answer)
        client = connect(site, dispatcher, network, streams=5)
        calls = {name: client.ask(call_of("BOOK", name)) for name in (f"task-{seed}-{n:02}" for n in range(12))}
        for name, call in calls.items():
            body = client.wait(call).body
            assert body and body == name.encode() * (len(body) // len(name)), seed
        assert len(dispatcher.requests) == 12, seed


# The Twisted client, on real sockets


def ask(client: Client, host: RealHost, method: str, task: str, **options: Any) -> Deferred[Reply]:
    return Deferred.fromCoroutine(client.call(host.uri, method, task_id=task, **options))


@pytest_twisted.ensureDeferred
async def test_calls_made_together_share_one_connection(site: Site) -> None:
    """Forty calls, of which the host takes sixteen at a time, cost one handshake; over TLS they cost eight."""
    for quic, handshakes in ((True, 1), (False, 8)):
        dispatcher = Slow()
        async with RealHost(site, dispatcher) as host, client_of(site, quic=quic) as client:
            calling = [ask(client, host, "BOOK", f"task-{number}") for number in range(40)]
            await event(lambda: len(dispatcher.slow) == (16 if quic else 8))  # noqa: B023
            for number in range(40):
                await event(lambda: f"task-{number}" in dispatcher.slow)  # noqa: B023
                dispatcher.finish(f"task-{number}")
            replies = await gatherResults(calling)
            assert [each.body for each in replies] == [f"task-{number}".encode() for number in range(40)]
            assert len({id(peer.link) for peer in dispatcher.peers}) == handshakes
            if quic:
                endpoint = host.quic.endpoint
                assert (endpoint.links, endpoint.counts.handshakes.total()) == (1, 0)


@pytest_twisted.ensureDeferred
async def test_many_cancelled_calls_leave_the_others_and_cost_few_connections(site: Site) -> None:
    """A hundred and twenty calls are cancelled one by one, and a slow one is answered on the first connection."""
    dispatcher = Slow()
    async with RealHost(site, dispatcher) as host, client_of(site) as client:
        kept = ask(client, host, "BOOK", "kept")
        await event(lambda: dispatcher.slow)
        for number in range(MOST_RESETS + 20):
            call = ask(client, host, "BOOK", f"task-{number}")
            await event(lambda number=number: f"task-{number}" in dispatcher.slow)
            call.cancel()
            with pytest.raises(CancelledError):
                await call
        dispatcher.finish("kept")
        assert (await kept).status == 200
    assert len(dispatcher.requests) == MOST_RESETS + 21
    assert len({id(peer.link) for peer in dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_only_calls_that_are_safe_to_repeat_are_made_again(site: Site) -> None:
    """Where a shared connection ends, each call of it is judged by itself, and the repeated ones share the next."""
    dispatcher = Slow()
    async with RealHost(site, dispatcher) as host, client_of(site) as client:
        await client.call(host.uri, "QUERY")
        keyed = ask(client, host, "BOOK", "keyed", idempotency_key="k1")
        plain = ask(client, host, "BOOK", "plain")
        idempotent = ask(client, host, "BOOK", "idempotent", idempotent=True)
        await event(lambda: len(dispatcher.slow) == 3)
        dispatcher.slow.clear()
        [link] = host.quic.endpoint._links
        link.core.close(Code.TOO_MUCH)
        link._wake()
        with pytest.raises(ConnectionLost, match="before it answered"):
            await plain
        await event(lambda: len(dispatcher.slow) == 2)
        for task in ("keyed", "idempotent"):
            dispatcher.finish(task)
        assert [(await each).status for each in (keyed, idempotent)] == [200, 200]
    tasks = [request.headers.get("task-id") for request in dispatcher.requests[1:]]
    assert sorted(map(str, tasks)) == ["idempotent", "idempotent", "keyed", "keyed", "plain"]
    assert len({id(peer.link) for peer in dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_calls_on_a_new_connection_that_dies_are_not_repeated(site: Site) -> None:
    """As over TLS: a connection that never served a call has another cause for its end than having lain unused."""
    dispatcher = Slow()
    async with RealHost(site, dispatcher) as host, client_of(site) as client:
        calling = [ask(client, host, "BOOK", f"task-{number}", idempotent=True) for number in range(2)]
        await event(lambda: len(dispatcher.slow) == 2)
        [link] = host.quic.endpoint._links
        link.core.close(Code.TOO_MUCH)
        link._wake()
        for each in calling:
            with pytest.raises(ConnectionLost):
                await each
    assert len(dispatcher.requests) == 2


@pytest_twisted.ensureDeferred
async def test_a_draining_host_keeps_its_calls_and_gets_no_more(site: Site) -> None:
    """A call of any method that it has not begun with goes out again on a new connection, beside the one that ends."""
    dispatcher = Slow()
    with _held_closing():
        async with RealHost(site, dispatcher) as host, client_of(site) as client:
            begun = ask(client, host, "BOOK", "begun")
            await event(lambda: dispatcher.slow)
            [link] = host.quic.endpoint._links
            link.drain()
            others = [ask(client, host, "BOOK", f"task-{number}") for number in range(3)]
            await event(lambda: len(dispatcher.slow) == 4)
            for task in tuple(dispatcher.slow):
                dispatcher.finish(task)
            assert [(await each).status for each in (begun, *others)] == [200] * 4
    assert len(dispatcher.requests) == 4
    assert len({id(peer.link) for peer in dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_calls_that_wait_for_a_connection_fail_with_it(site: Site) -> None:
    """One attempt tells all calls that no host answers: they do not try one after the other."""
    async with client_of(site) as client:
        made: list[int] = []
        connect: Any = client._connect

        async def connect_and_count(*arguments: Any) -> Any:
            made.append(1)
            return await connect(*arguments)

        client._connect = connect_and_count  # type: ignore[method-assign]
        uri = f"agtp://127.0.0.1:{closed_port()}"
        calling = [Deferred.fromCoroutine(client.call(uri, "QUERY")) for _ in range(5)]
        for each in calling:
            with pytest.raises(CannotConnect, match="neither by UDP nor by TCP"):
                await each
        assert made == [1]


@pytest.mark.parametrize("end", ["cancelled", "late", "impatient"])
@pytest_twisted.ensureDeferred
async def test_a_call_that_gives_up_connecting_leaves_the_others(site: Site, end: str) -> None:
    """The next of the calls that wait connects for the rest, in place of failing with a caller's own end."""
    async with RealHost(site) as host, client_of(site) as client:
        held: list[Deferred[None]] = []
        connect: Any = client._connect

        async def connect_when_let(*arguments: Any) -> Any:
            if not held:
                held.append(Deferred())
                await held[0]
            return await connect(*arguments)

        client._connect = connect_when_let  # type: ignore[method-assign]
        seconds = {"late": 0.02, "impatient": CONNECT_SECONDS - 1}.get(end)
        first = ask(client, host, "QUERY", "first", timeout=seconds)
        others = [ask(client, host, "QUERY", f"task-{number}") for number in range(3)]
        if end == "cancelled":
            first.cancel()
        elif end == "impatient":
            held[0].errback(CannotConnect("No answer came in half of the time of this call."))
        with pytest.raises({"cancelled": CancelledError, "late": Timeout, "impatient": CannotConnect}[end]):
            await first
        assert [(await each).status for each in others] == [200] * 3
        assert len({id(peer.link) for peer in host.dispatcher.peers}) == 1


@pytest_twisted.ensureDeferred
async def test_a_callback_that_fails_ends_its_own_call(site: Site) -> None:
    """What a caller's function raises is the error of that call, which the host is told; the neighbour is answered."""

    def stream_then_wait(request: Any, peer: Any, interim: Any) -> Any:
        if request.method == "EXECUTE":
            peer.leaving.add(lambda: left.append(request.method))
            interim(Response(status=202, headers=Headers([("Continuation-Token", "c")]), body=b""))
            return Deferred()
        return neighbour

    def fail(interim: Reply) -> None:
        raise ValueError("the callback fails")

    neighbour: Deferred[Any] = Deferred()
    left: list[str] = []
    dispatcher = FakeDispatcher(stream_then_wait)
    async with RealHost(site, dispatcher) as host, client_of(site) as client:
        waiting = ask(client, host, "BOOK", "neighbour")
        with pytest.raises(ValueError, match="the callback fails"):
            await ask(client, host, "EXECUTE", "own", input={}, stream=fail)
        await event(lambda: left == ["EXECUTE"])
        neighbour.callback(reply(next(each for each in dispatcher.requests if each.method == "BOOK")))
        assert (await waiting).status == 200


@pytest_twisted.ensureDeferred
async def test_a_host_with_one_stream_serves_all_in_turn(site: Site) -> None:
    """The smallest limit makes calls wait and none fail."""
    host = RealHost(site)
    host.section = QuicSection(enabled=True, streams=1)
    async with host, client_of(site) as client:
        replies = await gatherResults([ask(client, host, "QUERY", f"task-{number}") for number in range(10)])
    assert [each.headers.get("task-id") for each in replies] == [f"task-{number}" for number in range(10)]
    assert len({id(peer.link) for peer in host.dispatcher.peers}) == 1


@pytest_twisted.ensureDeferred
async def test_a_host_with_few_requests_per_connection_serves_all(site: Site) -> None:
    """What a connection has no request left for is made again on the next one, however often that takes."""
    host = RealHost(site, limits=ConnectionLimits(requests_per_connection=2))
    async with host, client_of(site) as client:
        replies = await gatherResults([ask(client, host, "BOOK", f"task-{number}") for number in range(12)])
    assert [each.headers.get("task-id") for each in replies] == [f"task-{number}" for number in range(12)]
    assert len(host.dispatcher.requests) == 12


@pytest_twisted.ensureDeferred
async def test_a_renewed_certificate_leaves_the_running_calls(site: Site) -> None:
    """The next call shows the new one on a connection of its own; the old one ends with its last call."""
    first, second = good(site.root), good(site.root)
    dispatcher = Slow()
    async with RealHost(site, dispatcher) as host, client_of(site, first) as client:
        slow = [ask(client, host, "BOOK", f"task-{number}") for number in range(2)]
        await event(lambda: len(dispatcher.slow) == 2)
        certificate, _ = second.save(site.folder, "caller")
        os.utime(certificate, ns=(1, 1))  # so that it is another file, however fast this is
        await ask(client, host, "QUERY", "new")
        shown = [peer.certificate.fingerprint for peer in dispatcher.peers if peer.certificate is not None]
        assert shown[0] == shown[1] != shown[2]
        for number in range(2):
            assert host.factory.connections == 2
            dispatcher.finish(f"task-{number}")
            assert (await slow[number]).status == 200
        await event(lambda: host.factory.connections == 1)
        await ask(client, host, "QUERY", "newer")
        assert len({id(peer.link) for peer in dispatcher.peers}) == 2


@pytest_twisted.ensureDeferred
async def test_an_unused_connection_is_closed_after_its_time_and_a_used_one_is_not(site: Site) -> None:
    """Only a connection without any call lies unused."""
    dispatcher = Slow()
    async with RealHost(site, dispatcher) as host, client_of(site, idle=0.0) as client:
        slow = ask(client, host, "BOOK", "slow")
        await event(lambda: dispatcher.slow)
        await ask(client, host, "QUERY", "quick")
        await ask(client, host, "QUERY", "quick")
        assert len({id(peer.link) for peer in dispatcher.peers}) == 1
        dispatcher.finish("slow")
        await slow
        await ask(client, host, "QUERY", "quick")
        assert len({id(peer.link) for peer in dispatcher.peers}) == 2
