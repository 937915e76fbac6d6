"""Services in order, signals, and the line that says ready."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.host.listener import START_TIMEOUT, Announcement
from agtphost.host.ordered_services import LedgerService, OrderedServices
from agtphost.host.signals import SignalHandlers
from agtphost.stores import MemoryStore
from agtphost.upstream.supervision import UpstreamState
from tests.audit.drafting import KEY


class Told(Service):
    """Tells when it starts and stops, and waits for as long as the test wants."""

    def __init__(self, name: str, diary: list[str], stopping: Deferred[None] | None = None) -> None:
        self._label = name
        self._diary = diary
        self._stopping = stopping

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._diary.append(f"+{self._label}")

    def stopService(self) -> Deferred[None] | None:
        super().stopService()  # type: ignore[no-untyped-call]
        self._diary.append(f"-{self._label}")
        return self._stopping


def ordered_services(*services: Service) -> OrderedServices:
    host = OrderedServices()
    for service in services:
        service.setServiceParent(host)
    return host


def test_the_last_one_stops_first_and_each_waits() -> None:
    """Connections need the ledger: nothing stops before what uses it is gone."""
    diary: list[str] = []
    draining: Deferred[None] = Deferred()
    host = ordered_services(Told("ledger", diary), Told("server", diary), Told("listening", diary, draining))
    host.startService()
    done: list[object] = []
    host.stopService().addCallback(done.append)
    assert diary == ["+ledger", "+server", "+listening", "-listening"]
    draining.callback(None)
    assert diary[-2:] == ["-server", "-ledger"]
    assert done == [None]


def test_a_service_that_fails_to_stop_keeps_no_other_from_stopping() -> None:
    """Whatever goes wrong above it, the ledger is flushed; the failure is in the log."""

    class Raises(Told):
        def stopService(self) -> Deferred[None] | None:
            raise RuntimeError("it cannot stop")

    diary: list[str] = []
    host = ordered_services(
        Told("ledger", diary), Raises("first", diary), Told("second", diary, fail(RuntimeError("late")))
    )
    host.startService()
    events, close = observe_log()
    done: list[object] = []
    host.stopService().addCallback(done.append)
    close()
    assert diary[-1] == "-ledger"
    assert done == [None]
    assert sum("did not stop cleanly" in event.get("log_format", "") for event in events) == 2


def test_all_at_once_would_be_caught() -> None:
    """The control: Twisted's own MultiService stops everything at once."""
    from twisted.application.service import MultiService

    diary: list[str] = []
    host = MultiService()
    for service in (Told("ledger", diary), Told("listening", diary, Deferred())):
        service.setServiceParent(host)
    host.startService()
    host.stopService()
    assert "-ledger" in diary


def test_a_ledger_is_kept_from_start_to_stop() -> None:
    """The ledger takes records exactly while its service runs."""

    class CallQueue(Clock):
        def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:
            self.waiting.append((function, arguments))

        waiting: list[Any] = []

    clock = CallQueue()
    ledger = Ledger(MemoryStore(), KEY, clock, server_id="agtp.test", lifecycle=LifecycleTable())  # type: ignore[arg-type]
    keeping = LedgerService(ledger)
    assert not ledger.healthy
    keeping.startService()
    assert ledger.healthy
    stopped: list[object] = []
    keeping.stopService().addCallback(stopped.append)
    assert not ledger.healthy
    while not stopped:
        while clock.waiting:
            function, arguments = clock.waiting.pop(0)
            function(*arguments)


# Ready


def observe_log() -> tuple[list[Any], Callable[[], None]]:
    """What is logged from now on, and how to stop listening."""
    events: list[Any] = []
    globalLogPublisher.addObserver(events.append)
    return events, lambda: globalLogPublisher.removeObserver(events.append)


class Running(Clock):
    """A clock that is a running reactor."""

    def callWhenRunning(self, function: Callable[[], object]) -> None:
        function()


class Port:
    """A listening service that has its port when the test says so."""

    def __init__(self) -> None:
        self.bound: Deferred[Any] = Deferred()

    def when_listening(self) -> Deferred[Any]:
        return self.bound


class Upstream:
    """A server's state."""

    def __init__(self, state: UpstreamState) -> None:
        self.state = state
        self.name = "mcp.files"


def lines(events: list[Any]) -> list[str]:
    return [event["log_format"].format(**event) for event in events if event["log_namespace"].endswith("listener")]


SUMMARY = {"server_id": "localhost", "agents": 1, "endpoints": 3, "tools": 5}


def announcing(*states: UpstreamState) -> tuple[Running, Port, list[Upstream], Announcement]:
    clock, port, servers = Running(), Port(), [Upstream(state) for state in states]
    announcement = Announcement(clock, port, servers, lambda: SUMMARY)  # type: ignore[arg-type]
    announcement.startService()
    return clock, port, servers, announcement


def test_ready_is_said_once_the_port_accepts_and_the_servers_are_up() -> None:
    """Interface section 1: one line with address, server id and counts, not before both."""
    events, close = observe_log()
    try:
        clock, port, servers, _ = announcing(UpstreamState.STARTING, UpstreamState.IDLE)
        assert lines(events) == []
        port.bound.callback(IPv4Address("TCP", "127.0.0.1", 4480))
        clock.advance(0.9)
        assert lines(events) == []
        servers[0].state = UpstreamState.UP
        clock.advance(0.1)
        clock.advance(5)
        assert lines(events) == [
            "agtphost ready: agtp://127.0.0.1:4480 (server localhost, 1 agents, 3 endpoints, 5 tools)"
        ]
    finally:
        close()


@pytest.mark.parametrize(("udp", "words"), [(4480, ", quic"), (4481, ", quic at UDP port 4481"), (None, "")])
def test_ready_line_says_whether_quic_listens(udp: int | None, words: str) -> None:
    """Interface section 1: after the port, with QUIC's own port if that is another; the service manager is told too."""
    events, close = observe_log()
    try:
        clock, port, told = Running(), Port(), []
        announcement = Announcement(clock, port, [], lambda: SUMMARY, told.append, udp_port=lambda: udp)  # type: ignore[arg-type]
        announcement.startService()
        port.bound.callback(IPv4Address("TCP", "127.0.0.1", 4480))
        assert [line.split(" (")[0] for line in lines(events)] == [f"agtphost ready: agtp://127.0.0.1:4480{words}"]
        assert told == [f"serving at agtp://127.0.0.1:4480{words}"]
    finally:
        close()


def test_a_slow_server_holds_the_line_back_for_a_while_only() -> None:
    """One bad upstream does not keep the others from being used; what the line waits for is said."""
    events, close = observe_log()
    try:
        clock, port, _, _ = announcing(UpstreamState.STARTING)
        port.bound.callback(IPv6Address("TCP", "::1", 4480))
        clock.pump([0.05] * int(START_TIMEOUT / 0.05 - 2))
        assert lines(events) == ["the port accepts; still starting, for 9 s at most: mcp.files"]
        clock.pump([0.05] * 4)
        assert [line.split(" (")[0] for line in lines(events)[1:]] == [
            "agtphost ready: agtp://[::1]:4480",
            "not up yet: mcp.files",
        ]
    finally:
        close()


def test_a_server_that_cannot_be_reached_does_not_hold_the_line_back() -> None:
    """Interface section 1: ready once the port accepts; an upstream that failed is not waited for again."""
    events, close = observe_log()
    try:
        clock, port, servers, _ = announcing(UpstreamState.BACKOFF, UpstreamState.STARTING, UpstreamState.UP)
        port.bound.callback(IPv4Address("TCP", "127.0.0.1", 4480))
        servers[0].state, servers[1].state = UpstreamState.STARTING, UpstreamState.BACKOFF
        clock.advance(0.05)
        assert [line.split(" (")[0] for line in lines(events)] == [
            "agtphost ready: agtp://127.0.0.1:4480",
            "not up yet: mcp.files, mcp.files",
        ]
    finally:
        close()


def test_a_host_that_takes_no_records_says_so_and_is_ready_later() -> None:
    """Interface section 1: another line with the reason; the line itself follows once there is room."""
    events, close = observe_log()
    try:
        clock, port, why, told = Running(), Port(), ["the disk is nearly full"], []
        announcement = Announcement(clock, port, [], lambda: SUMMARY, told.append, lambda: why[0])  # type: ignore[arg-type]
        announcement.startService()
        port.bound.callback(IPv4Address("TCP", "127.0.0.1", 4480))
        clock.advance(5)
        (line,) = lines(events)
        assert line.startswith("agtphost serves, and is not ready: agtp://127.0.0.1:4480 (server localhost")
        assert line.endswith("): the disk is nearly full")
        assert told == ["serving at agtp://127.0.0.1:4480"], "the service manager is not to end it"
        why[0] = ""
        clock.advance(1)
        assert [each.split(" (")[0] for each in lines(events)[1:]] == ["agtphost ready: agtp://127.0.0.1:4480"]
        assert clock.getDelayedCalls() == []
    finally:
        close()


def test_a_host_that_stopped_meanwhile_says_nothing() -> None:
    """No ready line after the end, and no timer left."""
    events, close = observe_log()
    try:
        clock, port, _, announcement = announcing(UpstreamState.STARTING)
        port.bound.callback(IPv4Address("TCP", "127.0.0.1", 4480))
        announcement.stopService()  # type: ignore[no-untyped-call]
        clock.advance(START_TIMEOUT + 1)
        assert lines(events) == []
        assert clock.getDelayedCalls() == []
    finally:
        close()


def test_a_port_that_cannot_be_had_is_said() -> None:
    """The operator reads why nothing listens."""
    events, close = observe_log()
    try:
        _, port, _, _ = announcing()
        port.bound.errback(OSError("address in use"))
        (line,) = lines(events)
        assert line.startswith("the host cannot listen: address in use (choose another address or port, in [listen])")
    finally:
        close()


# Signals


class SignalReactor:
    """Takes what the signal handlers hand over."""

    def __init__(self) -> None:
        self.stopped = 0
        self.queue: list[Any] = []

    def callWhenRunning(self, function: Callable[[], object]) -> None:
        function()

    def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:
        self.queue.append((function, arguments))

    def run(self) -> None:
        while self.queue:
            function, arguments = self.queue.pop(0)
            function(*arguments)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def handlers() -> Any:
    """Puts the process's signal handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_stops_the_reactor_and_sighup_reloads(handlers: None) -> None:
    """Handlers hand over to the reactor; nothing happens inside of them."""
    reactor, reloads = SignalReactor(), []
    SignalHandlers(reactor, lambda: reloads.append(1)).startService()
    os.kill(os.getpid(), signal.SIGHUP)
    assert reloads == []
    reactor.run()
    assert reloads == [1]
    os.kill(os.getpid(), signal.SIGTERM)
    assert reactor.stopped == 0
    reactor.run()
    assert reactor.stopped == 1


def test_a_second_sigterm_ends_at_once(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks twice does not want to wait."""
    reactor, ended = SignalReactor(), []
    monkeypatch.setattr(os, "_exit", ended.append)
    signals = SignalHandlers(reactor, lambda: None)
    signals.startService()
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended == []
    os.kill(os.getpid(), signal.SIGINT)
    assert ended == [1]


def test_services_that_succeed_at_once_are_fine() -> None:
    """A Deferred that has fired already is waited for too."""
    diary: list[str] = []
    host = ordered_services(Told("a", diary, succeed(None)), Told("b", diary))
    host.startService()
    assert host.running
    host.stopService()
    assert diary == ["+a", "+b", "-b", "-a"]
    assert not host.running
