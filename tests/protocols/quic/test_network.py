"""Calls on a network that loses, doubles and reorders datagrams: each ends once, and nothing is left."""

from __future__ import annotations

from typing import Any

import pytest
from aioquic import tls
from aioquic.quic.configuration import QuicConfiguration
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall

from agtphost.client.quic.session import PING_SECONDS
from agtphost.protocols import ServerTLS
from agtphost.protocols.listener import SWEEP_INTERVAL
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire.quic.connection import BoundedConnection
from tests.programmes import length
from tests.protocols.authorities import Identity
from tests.protocols.links import FakeDispatcher, ask, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
from tests.protocols.test_tls import good

SEEDS = 300, 10_000
"""In the suite, and with ``--programmes``; half of them for each rate of loss."""

CALLS = 4, 6
LONGEST = 1_500, 3_000
"""Names that the longest answer repeats: more octets than a connection may send before the first acknowledgement."""

MOVED = ("203.0.113.9", 40_000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Identity]:
    found = quic_site(tmp_path_factory.mktemp("network"))
    return found, good(found.root)


class ProbingConnection(BoundedConnection):
    """A client's connection that probes as those of this project do."""

    def __init__(self, configuration: QuicConfiguration) -> None:
        super().__init__(configuration, 0)


@pytest.mark.parametrize("lost", ["nothing", "challenge", "response", "response and acknowledgement"])
def test_a_client_that_moved_gets_its_answer_within_a_second(site: tuple[Site, Identity], lost: str) -> None:
    """It is asked to prove its address until it has, however many packets to the one before are lost."""
    network = Network()
    host = QuicHost(network, site[0], FakeDispatcher())
    client = QuicClient(network, site[0], core=ProbingConnection).connect()
    number = client.call()
    network.pass_time(1)  # The client learns that the handshake is over.
    network.silent_until = network.clock.seconds() + 20
    client.rebind(MOVED)
    host.dispatcher.answer(b"x" * 27_000)
    network.pass_time(20)
    client.core.send_ping(0)
    client.flush()
    if lost == "challenge":
        network.silent_until = network.clock.seconds() + network.delay * 1.05
    elif lost != "nothing":
        network.run(lambda: any(to == MOVED for _, to, _ in network.carried))
        # The response is sent when the challenge arrives, and the acknowledgement a millisecond later.
        network.silent_until = network.clock.seconds() + network.delay + (0.0015 if "and" in lost else 0.0005)
    assert client.wait(number, seconds=1)[0].endswith(b"x" * 27_000)


def test_a_lost_proof_of_an_address_is_asked_for_again(site: tuple[Site, Identity]) -> None:
    """
    What a new address may get is not all used by parts of the answer, of which one is lost too.

    In this seed the client has nothing to repeat then: it waited in silence until the connection was idle for too long.
    """
    network = Network(0, loss=0.03, delay=0.3)
    QuicHost(network, site[0], FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(100_000)))))
    client = QuicClient(network, site[0]).connect()
    for _ in range(5):
        client.wait(client.call())
    number = client.call()
    network.pass_time(2.6 * network.delay)
    client.rebind(MOVED)
    network.delay = 0.02
    client.core.send_ping(0)
    client.flush()
    assert client.wait(number, seconds=3)[0].endswith(bytes(100_000))


def test_a_client_may_have_new_keys_for_each_call(site: tuple[Site, Identity]) -> None:
    """Packets of the keys before that arrive late are sent again, and each call is answered once."""
    network = Network(3, loss=0.1, doubled=0.1, jitter=0.05)
    host = QuicHost(network, site[0])
    client = QuicClient(network, site[0], core=ProbingConnection).connect()
    client.wait(client.call())
    core: Any = client.core
    for count in range(41):
        before = core._packet_number
        core.request_key_update()
        number = client.call(ask(f"new-{count}"))
        client.core.send_ping(count)  # Until the host has acknowledged one it may see no newer ones (RFC 9001, 6.1).
        network.run(lambda before=before: core._spaces[tls.Epoch.ONE_RTT].largest_acked_packet >= before)
        assert client.wait(number)[0].startswith(b"AGTP/1.0 200")
    [link] = host.endpoint._links
    assert len(host.dispatcher.requests) == 42 and link.core._cryptos[tls.Epoch.ONE_RTT].recv.key_phase == 1


@pytest.mark.programme
@pytest.mark.parametrize(("first", "bad"), [(0, 0.02), (1, 0.15)])
def test_no_answer_is_lost_or_doubled(site: tuple[Site, Identity], first: int, bad: float) -> None:
    """
    Whatever the network does, each call is dispatched once and answered once, with its own answer.

    An outage is at most half as long as a connection may be idle.
    """
    tls = ServerTLS.load(site[0].files)
    # Of two seeds that follow each other a rate gets one in turn, so that it gets odd and even ones.
    for seed in range(0, length(*SEEDS), 2):
        try_seed(*site, tls, seed + (first + seed // 2) % 2, bad, length(*CALLS), length(*LONGEST))


@pytest.mark.parametrize("seed", [61, 5395])
def test_an_answer_follows_a_client_that_moved_in_an_outage(site: tuple[Site, Identity], seed: int) -> None:
    """Seeds of the long run that stopped: the client was not asked to prove its address, or seldom probed the host."""
    try_seed(*site, ServerTLS.load(site[0].files), seed, 0.15, CALLS[1], LONGEST[1])


def try_seed(site: Site, identity: Identity, tls: ServerTLS, seed: int, bad: float, calls: int, longest: int) -> None:
    """One seed: calls of several sizes, one cancelled, an outage, a change of address, the end of the connection."""
    network = Network(seed, loss=bad, doubled=bad, corrupted=bad / 2, jitter=0.05)

    def answer(request: Any, peer: Any, interim: Any) -> Any:
        late: Deferred[Any] = Deferred()
        octets = (request.headers.get("task-id") or "").encode() * network.random.choice((1, 100, longest))
        network.clock.callLater(network.random.random(), late.callback, reply(request, octets))
        return late

    host = QuicHost(network, site, FakeDispatcher(answer), tls=tls)
    client = QuicClient(network, site, identity, core=ProbingConnection).connect()
    assert client.is_connected, f"seed {seed}"
    names = {client.call(ask(f"{seed}-{number}")): number for number in range(calls)}
    cancelled = client.call(ask(f"{seed}-cancelled"), ends=False)
    client.core.reset_stream(cancelled, Code.CANCELLED)
    client.core.stop_stream(cancelled, Code.CANCELLED)
    network.run(lambda: host.dispatcher.requests)  # An outage within the handshake ends it after ten seconds.
    network.pass_time(network.random.random())
    if seed % 3 == 1:
        network.silent_until = network.clock.seconds() + network.random.random() * 30
    if seed % 2:
        client.rebind(("203.0.113.9", 40_000 + seed))
    keep_open = LoopingCall(lambda: (client.core.send_ping(0), client.flush()))  # As clients of this project do.
    keep_open.clock = network.clock
    keep_open.start(PING_SECONDS, now=False)
    sweeping = LoopingCall(host.factory.sweep)  # As every listener does.
    sweeping.clock = network.clock
    sweeping.start(SWEEP_INTERVAL)
    client.wait(*names, seconds=120)
    keep_open.stop()
    sweeping.stop()
    assert client.closed is None, f"seed {seed}: {client.closed}"
    for stream, number in names.items():
        head, _, body = client.answers[stream].partition(b"\r\n\r\n")
        name = f"task-{seed}-{number}".encode()
        assert head.startswith(b"AGTP/1.0 200 OK") and name in head, f"seed {seed}"
        assert body and body == name * (len(body) // len(name)), f"seed {seed}"
    asked = [request.headers.get("task-id") for request in host.dispatcher.requests]
    assert asked.count(f"task-{seed}-cancelled") <= 1, f"seed {seed}"
    asked = [name for name in asked if name != f"task-{seed}-cancelled"]
    wanted = {f"task-{seed}-{number}" for number in range(calls)}
    assert len(asked) == len(set(asked)) and wanted == set(asked), f"seed {seed}"
    network.run(lambda: not host.endpoint.streams, 120)
    client.close()
    network.pass_time(host.factory.limits.idle_timeout + 60)
    assert (host.endpoint.links, host.endpoint.connection_ids, host.factory.connections) == (0, 0, 0), f"seed {seed}"
    assert not network.clock.getDelayedCalls(), f"seed {seed}"
