"""What the service manager is told, by a socket that a test reads, on a clock that it moves."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.vocabulary.vitals import UpstreamVital
from tests.metrics.samples import vitals


class Manager:
    """The other side."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        self.socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        """Every word since it was asked last, by lines."""
        words = []
        while True:
            try:
                words.append(self.socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return words


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@agtphost-{secrets.token_hex(8)}"
    found = Manager(name)
    with closing(found.socket):
        yield found


def test_a_life(manager: Manager) -> None:
    """Ready, a reload, a stop: each word once, in its order; the reload has the time that systemd compares with."""
    clock = Clock()
    told = ServiceManagerNotifier(clock, {"NOTIFY_SOCKET": manager.name}, lambda: True, monotonic=lambda: 12.5)
    told.startService()
    told.notify_reloading()
    assert manager.heard() == [], "what is not ready yet does not load anew"
    told.notify_ready("serving at agtp://127.0.0.1:4480")
    told.notify_reloading()
    told.end_reload()
    told.notify_stopping()
    told.stopService()
    assert manager.heard() == [
        ["READY=1", "STATUS=serving at agtp://127.0.0.1:4480"],
        ["RELOADING=1", "MONOTONIC_USEC=12500000"],
        ["READY=1", "STATUS=serving at agtp://127.0.0.1:4480"],
        ["STOPPING=1", "STATUS=stopping: waiting for running calls"],
    ]
    assert clock.getDelayedCalls() == []


def test_it_lives_while_its_ledger_does(manager: Manager) -> None:
    """Twice within the time that is given; a ledger that takes no records is not told of as alive."""
    clock, alive = Clock(), [True]
    environ = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}
    told = ServiceManagerNotifier(clock, environ, lambda: alive[0])
    told.startService()
    clock.advance(2)
    clock.advance(2)
    assert manager.heard() == [["WATCHDOG=1"], ["WATCHDOG=1"]]
    alive[0] = False
    clock.advance(2)
    assert manager.heard() == []
    alive[0] = True
    clock.advance(2)
    assert manager.heard() == [["WATCHDOG=1"]]
    told.stopService()


def test_a_start_that_takes_long_is_alive_for_its_time(manager: Manager) -> None:
    """A standby that takes over was ready before, and reads the store while its reactor does nothing else."""
    environ = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "20000"}
    notifier = ServiceManagerNotifier(Clock(), environ, lambda: True)
    manager.socket.settimeout(30)
    with notifier.keep_alive(60):
        assert [manager.socket.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    with notifier.keep_alive(0):
        pass
    manager.socket.setblocking(False)
    manager.heard()
    assert "agtphost-watchdog" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    "watchdog", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}]
)
def test_nobody_hears_what_nobody_asked_for(manager: Manager, watchdog: dict[str, str]) -> None:
    """A watchdog that is off, or another process's."""
    clock = Clock()
    told = ServiceManagerNotifier(clock, {"NOTIFY_SOCKET": manager.name, **watchdog}, lambda: True)
    told.startService()
    clock.advance(60)
    told.stopService()
    assert manager.heard() == []


def test_the_line_says_why_a_host_is_not_ready(manager: Manager) -> None:
    """As ``/readyz`` does, and on one line whatever a name holds."""
    clock = Clock()
    told = ServiceManagerNotifier(clock, {"NOTIFY_SOCKET": manager.name}, lambda: True)
    down = UpstreamVital(protocol="mcp", name="a\nREADY=0\x1b", state="backoff", restarts=1, eager=True)
    told.look_with(lambda: vitals(upstreams=(down,)))
    told.startService()
    told.notify_ready("serving")
    assert manager.heard() == [["READY=1", "STATUS=not ready: upstream: mcp.a?READY=0? is backoff"]]
    told.stopService()


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
def test_without_a_manager_nothing_is_done(environ: dict[str, str]) -> None:
    """Also where the variable names no socket."""
    clock = Clock()
    told = ServiceManagerNotifier(clock, environ, lambda: True)
    told.startService()
    told.notify_ready("serving")
    told.notify_stopping()
    told.stopService()
    assert clock.getDelayedCalls() == []


def test_a_manager_that_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    """Nor one that does not read: its socket is full, and the host goes on."""
    gone = ServiceManagerNotifier(Clock(), {"NOTIFY_SOCKET": str(tmp_path / "nobody")}, lambda: True)
    gone.notify_ready("serving")
    gone.notify_stopping()
    full = Manager(str(tmp_path / "full"))
    with closing(full.socket):
        told = ServiceManagerNotifier(Clock(), {"NOTIFY_SOCKET": full.name}, lambda: True)
        for _ in range(2_000):
            told.notify_ready("serving")
        assert 0 < len(full.heard()) < 2_000
