"""Many requests on one real connection: in order, and bounded in memory."""

from __future__ import annotations

import contextlib
import gc
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from agtphost.protocols import ConnectionLimits
from agtphost.protocols.connection import ServerConnection
from agtphost.wire import Headers, Request, Response
from tests.protocols.links import FakeDispatcher, ask, at_once, parse, reply, task_ids
from tests.protocols.loopback import PATIENCE, Host, Site, in_thread, make_site

MEBIBYTE = 1 << 20
ENOUGH = 8 * MEBIBYTE
"""Growth of a host that goes on working for a peer that reads nothing."""

ANSWERED = 4_096
"""Requests whose answers fit into the buffers of sockets."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


class DelayingDispatcher(FakeDispatcher):
    """
    Answers each request after a random while.

    :param confused: whether one answer is another request's.
    """

    def __init__(self, clock: Any, seed: int, *, confused: bool = False) -> None:
        super().__init__(self.delayed)
        self.confused = confused
        self.clock = clock
        self.random = random.Random(seed)
        self.running = 0
        self.most_running = 0

    async def delayed(self, request: Request, peer: Any, interim: Any) -> Response:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        if self.random.random() < 0.5:
            await deferLater(self.clock, self.random.random() * 0.004)
        self.running -= 1
        if self.confused and len(self.requests) == 50:
            request = self.requests[48]
        return reply(request, b"b" * self.random.randrange(3000))


def pipeline(host: Host, octets: bytes, portions: random.Random) -> bytes:
    """Send everything in portions of random sizes, reading meanwhile, until the host closes."""
    received = bytearray()
    at = 0
    with host.secure(host.site.client()) as connection:
        connection.setblocking(False)
        while True:
            select.select([connection], [connection] if at < len(octets) else [], [], PATIENCE)
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if at < len(octets):
                    at += connection.send(octets[at : at + portions.choice((1, 7, 100, 3000))])
            with contextlib.suppress(ssl.SSLWantReadError):
                portion = connection.recv(65536)
                if not portion:
                    return bytes(received)
                received += portion


async def order_of_answers(site: Site, count: int, *, confused: bool = False) -> tuple[list[str], int]:
    """Whose answers came, in order, and how many calls ran at once at most."""
    from twisted.internet import reactor

    dispatcher = DelayingDispatcher(reactor, 1, confused=confused)
    host = Host(site, dispatcher, ConnectionLimits(requests_per_connection=count))
    octets = b"".join(ask(number, body=b"q" * (number % 50)) for number in range(count))
    async with host:
        received = await in_thread(pipeline, host, octets, random.Random(2))
    return task_ids(parse(received)), dispatcher.most_running


@pytest_twisted.ensureDeferred
async def test_hundreds_of_pipelined_requests(site: Site) -> None:
    """T-PL-1: handlers take random times, one at a time; answers are those of the requests, in order."""
    order, most_running = await order_of_answers(site, 600)
    assert order == [str(number) for number in range(600)]
    assert most_running == 1


@pytest_twisted.ensureDeferred
async def test_the_control_an_answer_to_another_request_is_noticed(site: Site) -> None:
    """The control: a single answer that belongs to another request fails the comparison above."""
    order, _ = await order_of_answers(site, 100, confused=True)
    assert order != [str(number) for number in range(100)]
    assert len(order) == 100


def large(request: Request, peer: Any, interim: Any) -> Awaitable[Response]:
    """Four kibibytes for twenty octets."""
    answer: Deferred[Response] = Deferred()
    answer.callback(Response(status=200, headers=Headers([("Content-Type", "text/plain")]), body=b"x" * 4096))
    return answer


def flood(host: Host, seconds: float, over: threading.Event) -> int:
    """Pipeline short requests without ever reading, until it is over; how many octets were taken."""
    raw = host.connect()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection = host.site.client().wrap_socket(raw, server_hostname="localhost")
    connection.settimeout(0.2)
    octets = b"AGTP/1.0 QUERY /\r\n\r\n" * 800
    until = time.monotonic() + seconds
    sent = 0
    try:
        while time.monotonic() < until and not over.is_set():
            with contextlib.suppress(TimeoutError):  # The host reads no more, or is slow: once more.
                sent += connection.send(octets)
    except OSError:
        over.wait(max(0.0, until - time.monotonic()))
    connection.close()
    return sent


async def growth_under_flood(site: Site, seconds: float) -> tuple[int, int]:
    """Octets by which this process grew at most, and requests that were answered."""
    dispatcher = FakeDispatcher(at_once)
    limits = ConnectionLimits(requests_per_connection=10**7)
    async with Host(site, dispatcher, limits) as host:
        # What is needed once, such as the code paths' own memory, is no growth.
        await in_thread(host.exchange, site.client())
        dispatcher.handler = large
        gc.collect()
        process = psutil.Process()
        before = most = process.memory_info().rss
        over = threading.Event()
        flooding = Deferred.fromCoroutine(in_thread(flood, host, seconds, over))
        while not flooding.called:
            await deferLater(host.reactor, 0.05)
            most = max(most, process.memory_info().rss)
            if most - before > ENOUGH and len(dispatcher.requests) > ANSWERED:
                over.set()
        await flooding
        return most - before, len(dispatcher.requests)


@pytest_twisted.ensureDeferred
async def test_a_peer_that_never_reads_costs_little(site: Site) -> None:
    """T-PL-10: a peer that pipelines and never reads makes the host neither work nor grow."""
    growth, answered = await growth_under_flood(site, 1.0)
    assert growth <= 4 * MEBIBYTE
    # What fits into socket buffers is answered, no more: the requests are no work either.
    assert answered <= ANSWERED


@pytest.mark.release
@pytest_twisted.ensureDeferred
async def test_the_control_without_back_pressure_grows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same connection, deaf to the transport's pause, grows without end."""
    monkeypatch.setattr(ServerConnection, "pauseProducing", lambda connection: None)
    growth, answered = await growth_under_flood(site, 30.0)
    assert growth > ENOUGH
    assert answered > ANSWERED


@pytest_twisted.ensureDeferred
async def test_an_honest_peer_is_served_beside_floods(site: Site) -> None:
    """P13: while others pipeline without reading, a request is answered: it waits for none of them to end."""
    dispatcher, over = FakeDispatcher(large), threading.Event()
    async with Host(site, dispatcher, ConnectionLimits(requests_per_connection=10**7)) as host:
        floods = [Deferred.fromCoroutine(in_thread(flood, host, 120.0, over)) for _ in range(4)]
        while host.factory.connections < len(floods):
            await deferLater(host.reactor, 0.01)
        await deferLater(host.reactor, 0.3)
        try:
            assert (await in_thread(host.exchange, site.client())).startswith(b"AGTP/1.0 200")
            assert not any(each.called for each in floods)
        finally:
            over.set()
        for each in floods:
            await each
