"""What epoll's reactor does in fewer steps, it does as before."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.process import ProcessReader
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock
from twisted.python import log

from agtphost.protocols import polling
from agtphost.protocols.immediate_write import Prompting, PromptServer
from agtphost.protocols.polling import hasten


class Echo(Protocol):
    """Says what it hears, and remembers why it ended; fails where it hears an exclamation mark."""

    ends: list[type[BaseException]] = []

    def dataReceived(self, data: bytes) -> None:
        if data == b"!":
            raise ZeroDivisionError
        assert self.transport is not None
        self.transport.write(data)

    def connectionLost(self, reason: Any = None) -> None:
        self.ends.append(reason.type)


class Site:
    """A reactor of its own with one port."""

    def __init__(self, *, hastened: bool) -> None:
        self.reactor: Any = EPollReactor()
        assert not hastened or hasten(self.reactor)
        Echo.ends = []
        self.port = Prompting(self.reactor).listenTCP(0, Factory.forProtocol(Echo), interface="127.0.0.1")

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + 30
        while not (found := condition()):
            assert time.monotonic() < end
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.01)
        return found

    def client(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port.getHost().port))  # type: ignore[attr-defined]
        made.setblocking(False)
        return made

    def heard(self, client: socket.socket) -> bytes:
        def read() -> bytes:
            try:
                return client.recv(100)
            except BlockingIOError:
                return b""

        found: bytes = self.until(read)
        return found

    def close(self) -> None:
        self.port.stopListening()
        self.reactor.removeAll()
        self.reactor._poller.close()


@pytest.fixture(params=[True, False], ids=["hastened", "usual"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(hastened=request.param)
    yield made
    made.close()


def test_what_is_sent_is_heard_and_whoever_ends_is_gone(site: Site) -> None:
    clients = [site.client() for _ in range(3)]
    for number in (1, 2):
        for client in clients:
            client.send(b"%d" % number)
        assert [site.heard(client) for client in clients] == [b"%d" % number] * 3
    clients[0].close()
    site.until(lambda: Echo.ends == [ConnectionDone])
    clients[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    clients[1].close()
    site.until(lambda: len(Echo.ends) == 2)
    assert Echo.ends[1] is ConnectionLost
    clients[2].send(b"x")
    assert site.heard(clients[2]) == b"x"
    clients[2].close()


def test_what_fails_is_logged_by_its_name_and_ended_alone(site: Site) -> None:
    seen: list[dict[str, Any]] = []
    observer = lambda event: seen.append(event)  # noqa: E731
    log.addObserver(observer)
    try:
        bad, good = site.client(), site.client()
        good.send(b"a")
        assert site.heard(good) == b"a"
        bad.send(b"!")
        site.until(lambda: Echo.ends)
    finally:
        log.removeObserver(observer)
    errors = [event for event in seen if event.get("isError")]
    assert [event["failure"].type for event in errors] == [ZeroDivisionError]
    assert errors[0]["system"].startswith("Echo,")
    assert Echo.ends == [ZeroDivisionError]
    good.send(b"b")
    assert site.heard(good) == b"b"
    bad.close()
    good.close()


def test_reads_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without it, each read has a name put around it."""
    named: list[Any] = []
    for hastened in (True, False):
        monkeypatch.setattr(log, "callWithContext", lambda *given: (named.append(given[2]), given[1](*given[2:]))[1])
        site = Site(hastened=hastened)
        client = site.client()
        for _ in range(4):
            client.send(b"x")
            site.heard(client)
        reads = [each for each in named if type(each) is PromptServer]
        assert len(reads) == (0 if hastened else 4)
        client.close()
        monkeypatch.undo()
        site.close()


def test_other_reactors_are_left_as_they_are() -> None:
    for other in (Clock(), SelectReactor()):
        before = vars(other).copy()
        assert not hasten(other)
        assert vars(other) == before


def test_a_reactor_that_keeps_its_parts_elsewhere_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("twisted.internet.posixbase._DisconnectSelectableMixin._disconnectSelectable")
    made: Any = EPollReactor()
    assert not hasten(made)
    made._poller.close()


class PipeOwner:
    """What a process is to the pipe of its output."""

    def __init__(self, reactor: Any) -> None:
        self.heard = bytearray()
        self.ended: list[type[BaseException]] = []
        reading, self.writing = os.pipe()
        self.pipe = ProcessReader(reactor, self, "output", reading)  # type: ignore[no-untyped-call]

    def childDataReceived(self, name: str, data: bytes) -> None:
        self.heard.extend(data)

    def childConnectionLost(self, name: str, reason: Any) -> None:
        self.ended.append(reason.type)


def test_pipes_of_processes_and_the_waker_take_the_short_way(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process writes is heard, the reactor is woken by other threads, and the end of a pipe is noticed."""
    named: list[Any] = []
    monkeypatch.setattr(log, "callWithContext", lambda *given: (named.append(given[2]), given[1](*given[2:]))[1])
    owner, woken = PipeOwner(site.reactor), list[int]()
    for number in range(1, 5):
        os.write(owner.writing, b"x")
        site.until(lambda expected=number: len(owner.heard) == expected)
        site.reactor.callFromThread(woken.append, number)
        site.until(lambda expected=number: len(woken) == expected)
        site.reactor.doIteration(0)
    reads = {kind: [each for each in named if each is kind] for kind in (owner.pipe, site.reactor.waker)}
    hastened = site.reactor.doIteration.__module__ == polling.__name__
    assert [len(found) > 3 for found in reads.values()] == [not hastened] * 2
    os.close(owner.writing)
    site.until(lambda: owner.ended)
    assert owner.ended == [ConnectionDone]
