"""Answers that nobody takes: how long they are kept, and how much of them in all."""

from __future__ import annotations

import select
import socket
from collections.abc import Awaitable
from sys import getsizeof
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from agtphost.identity.peer import Peer
from agtphost.protocols import AGTPServerFactory, ConnectionLimits, listener_connections, peer_liveness
from agtphost.protocols.limits import HASTE, LAGGING_IN_ALL, READ_AHEAD, STALL, UNREAD, WAITING
from agtphost.wire import Request, Response
from tests.protocols.links import FakeDispatcher, Link, reply
from tests.system.hosting import until

ASK = b"AGTP/1.0 QUERY /\r\nTask-ID: 1\r\n\r\n"


def answering(octets: int) -> FakeDispatcher:
    """Answers everything with so many octets."""

    def answer(request: Request, peer: Peer, interim: Any) -> Awaitable[Response]:
        return succeed(reply(request, b"x" * octets))

    return FakeDispatcher(answer)


@pytest.mark.parametrize(("octets", "patience"), [(UNREAD // 2, 30.0), (3 * UNREAD, STALL)])
def test_the_more_waits_the_shorter_it_is_kept(octets: int, patience: float) -> None:
    """A large answer of which nothing is taken has a few seconds, a small one the write timeout."""
    link = Link(answering(octets), ConnectionLimits(write_timeout=30.0))
    link.receive(ASK)
    assert link.connection.unread > 0
    link.wait(patience - 0.1)
    assert "abort" not in link.calls
    link.wait(0.2)
    assert "abort" in link.calls
    assert link.connection.unread == 0


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    """What the peers' systems have acknowledged, by transport."""
    found: dict[Any, int] = {}
    monkeypatch.setattr(peer_liveness, "count_acknowledged", lambda transport: found.get(transport, 0))
    return found


def test_more_than_two_mebibytes_wait_for_a_second(taken: dict[Any, int]) -> None:
    """Whoever takes nothing in a second is cut; with less there is the time that there was."""
    few, many = Link(answering(WAITING)), Link(answering(WAITING + 2 * UNREAD))
    for link in (few, many):
        link.receive(ASK)
        link.wait(0.5)
        link.wait(HASTE - 0.1)
        assert "abort" not in link.calls
        link.wait(0.2)
    assert "abort" not in few.calls and few.connection.unread <= WAITING
    assert "abort" in many.calls and many.connection.unread == 0
    few.wait(STALL)
    assert "abort" in few.calls


def test_a_slow_reader_takes_something_in_each_second(taken: dict[Any, int]) -> None:
    """It keeps its answer, though our system says of nothing that it takes more; too little of it is not enough."""
    links = slow, slowest = Link(answering(16 * UNREAD)), Link(answering(16 * UNREAD))
    limits = ConnectionLimits()
    for link, each_second in zip(links, (limits.output_high_water // 4, 1), strict=True):
        link.receive(ASK)
        for _ in range(20):
            taken[link.transport] = taken.get(link.transport, 0) + each_second
            link.wait(HASTE - 0.1)
    assert "abort" not in slow.calls
    assert "abort" in slowest.calls
    slow.wait(0.1)
    slow.wait(HASTE)
    assert "abort" in slow.calls


def test_what_a_system_has_acknowledged_is_told() -> None:
    """Of a real connection: of what nobody reads it is what the other system keeps, and then no more."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    with server, client, peer:
        transport = SimpleNamespace(transport=SimpleNamespace(socket=client))
        client.setblocking(False)
        sent = client.send(b"x" * (4 << 20))
        found = [peer_liveness.count_acknowledged(transport)]
        while len(found) < 3 or found[-1] != found[-2]:
            select.select([], [], [], 0.05)
            found.append(peer_liveness.count_acknowledged(transport))
        assert found[-1] is not None and 0 < found[-1] < sent
        before, read = found[-1], 0
        while read < sent // 2:
            read += len(peer.recv(65_536))
        until(lambda: (peer_liveness.count_acknowledged(transport) or 0) > before)
    assert peer_liveness.count_acknowledged(transport) is None
    assert peer_liveness.count_acknowledged(SimpleNamespace()) is None


@pytest.mark.parametrize("leave", ["end", "reset"])
def test_a_peer_that_has_left_is_known_without_reading(leave: str) -> None:
    """Of a TCP connection with unread octets, the system says that the peer has ended it or reset it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        own, _ = server.accept()
    with own:
        transport = SimpleNamespace(transport=SimpleNamespace(socket=own))
        peer.sendall(b"x" * 1_000)
        assert not peer_liveness.has_left(transport)
        if leave == "end":
            peer.shutdown(socket.SHUT_WR)
        else:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01" + bytes(7))
        peer.close()
        until(lambda: peer_liveness.has_left(transport))
    assert not peer_liveness.has_left(SimpleNamespace())


def test_who_pipelines_and_leaves_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """While so much waits behind an unanswered request that nothing is read, a peer that has left is noticed."""
    left: list[bool] = []
    monkeypatch.setattr(peer_liveness, "has_left", lambda transport: bool(left))
    waiting: Deferred[Response] = Deferred()
    ended: list[str] = []

    def answer(request: Request, peer: Peer, interim: Any) -> Awaitable[Response]:
        peer.leaving.add(lambda: ended.append("left"))
        return waiting

    link = Link(FakeDispatcher(answer), ConnectionLimits())
    link.receive(ASK + ASK * (2 * READ_AHEAD // len(ASK)))
    assert "pause" in link.calls
    link.wait(1.0)
    assert not ended and "abort" not in link.calls
    left.append(True)
    link.wait(1.0)
    assert "abort" in link.calls
    assert ended == ["left"]


def test_a_slow_reader_of_a_large_answer_is_not_cut() -> None:
    """Every piece that is taken gives it the time anew."""
    link = Link(answering(3 * UNREAD))
    link.receive(ASK)
    while link.connection.unread:
        link.wait(STALL - 0.5)
        link.transport.take()
    assert "abort" not in link.calls
    assert len(link.transport.value()) > 3 * UNREAD


def test_who_leaves_the_most_unread_is_cut_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what may wait in all, whatever their deadlines say; the others stay."""
    monkeypatch.setattr(listener_connections, "UNREAD_IN_ALL", 4 * UNREAD)
    small, large = answering(UNREAD // 2), answering(3 * UNREAD)
    first = Link(small)
    factory: AGTPServerFactory = first.factory
    links = [first]
    for dispatcher in (small, large, large):
        factory._dispatcher = dispatcher
        links.append(Link(dispatcher, factory=factory))
    for link in links:
        link.receive(ASK)
    factory.sweep()
    assert ["abort" in link.calls for link in links] == [False, False, True, False]


def large_ones(number: int) -> list[Link]:
    """Peers of one listener, each with 15 MiB that it has asked for; so many as do not fit, and more."""
    dispatcher = answering(15 * UNREAD)
    links = [Link(dispatcher)]
    links += [Link(dispatcher, factory=links[0].factory) for _ in range(number - 1)]
    return links


def test_large_answers_that_nobody_takes_never_exceed_their_bound() -> None:
    """At no moment, also between two looks at the deadlines; who came first and took nothing is cut first."""
    links = large_ones(20)
    for number, link in enumerate(links):
        link.receive(ASK)
        links[0].clock.advance(0.01)
        assert sum(each.connection.unread for each in links) <= LAGGING_IN_ALL, number
    left = [link for link in links if "abort" not in link.calls]
    assert left == links[-2:]


def test_who_takes_its_answer_keeps_it_beside_those_who_do_not() -> None:
    """A slow reader gets all of it, however many others come and take nothing."""
    reader, *others = large_ones(40)
    clock = reader.clock
    reader.receive(ASK)
    for other in others:
        other.receive(ASK)
        clock.advance(0.01)
        reader.transport.take()
    assert "abort" not in reader.calls
    assert sum("abort" in other.calls for other in others) >= len(others) - 2
    while reader.connection.unread:
        reader.transport.take()
    assert len(reader.transport.value()) > 15 * UNREAD


def test_a_single_answer_is_not_cut_for_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody to make room for."""
    monkeypatch.setattr(listener_connections, "LAGGING_IN_ALL", UNREAD)
    link = Link(answering(3 * UNREAD))
    link.receive(ASK)
    assert "abort" not in link.calls


def test_what_waits_has_no_more_memory_than_it_needs() -> None:
    """Eaten piece by piece, a quarter is unused at the most; the octets stay what they are."""
    waiting, left = bytearray(range(256)) * 40_000, bytes(range(256)) * 40_000
    while len(waiting) > UNREAD:
        del waiting[:65_536]
        left = left[65_536:]
        waiting = listener_connections.compact(waiting)
        assert getsizeof(waiting) <= len(waiting) * 4 / 3
    assert waiting == left
