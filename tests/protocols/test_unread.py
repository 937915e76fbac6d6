"""Answers that nobody takes: how long they are kept, and how much of them in all (issue 10, item 10)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from twisted.internet.defer import succeed

from agtphost.identity.peer import Peer
from agtphost.protocols import AGTPServerFactory, ConnectionLimits, accepting
from agtphost.protocols.limits import STALL, UNREAD
from agtphost.wire import Request, Response
from tests.protocols.links import FakeDispatcher, Link, reply

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
    monkeypatch.setattr(accepting, "UNREAD_IN_ALL", 4 * UNREAD)
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
