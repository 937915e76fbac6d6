"""Nothing that a server started outlives its end, or the host's, however either comes: T-MC-70."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from agtphost.adapters.mcp.stdio import TERMINATE_SECONDS, StdioLink
from agtphost.upstream.failures import UpstreamFailure, UpstreamLost
from agtphost.upstream.log import UpstreamLog
from tests import forking
from tests.adapters.mcp.hosting import ENVIRON, alive, hosted, hostile, until
from tests.measuring import measured

HOST = """
import sys
from twisted.internet import reactor
from agtphost.adapters.mcp import McpServer, UpstreamState
from agtphost.config.upstreams import MCPServerSection
from twisted.internet.task import LoopingCall
settings = MCPServerSection(name="s", command=tuple(sys.argv[1:]))
server = McpServer(reactor, settings, {"PATH": "/usr/bin:/bin"})
def tell():
    if server.state is UpstreamState.UP:
        print("up", flush=True)
        loop.stop()
loop = LoopingCall(tell)
reactor.callWhenRunning(server.startService)
reactor.callWhenRunning(loop.start, 0.02)
reactor.addSystemEventTrigger("before", "shutdown", server.stopService)
reactor.run()
"""


class Ear:
    """A receiver that only wants to know the end."""

    def __init__(self) -> None:
        self.ended: Deferred[UpstreamLost] = Deferred()

    def take_message(self, message: object) -> bool:
        return False

    def fail_call(self, call_id: int, failure: UpstreamFailure) -> None: ...

    def fail_all(self, failure: UpstreamLost) -> None:
        self.ended.callback(failure)


def told(path: Path) -> list[int]:
    """The pids that the server wrote down: its own and three descendants'."""
    text = path.read_text() if path.exists() else ""
    return [int(word) for word in text.split()]


@pytest_twisted.ensureDeferred
async def test_every_descendant_ends_with_the_server(tmp_path: Path) -> None:
    """
    T-MC-60: a server that ignores TERM, and children in its group, in their own session and daemonized:
    all gone.
    """
    async with hosted(hostile("children", tmp_path / "pids")):
        pids = await until(lambda: told(tmp_path / "pids"))
        assert len(pids) == 4
        assert all(map(alive, pids))
        began = time.monotonic()
    assert not any(map(alive, pids))
    assert time.monotonic() - began < TERMINATE_SECONDS + 10


@measured
@pytest_twisted.ensureDeferred
async def test_the_group_is_only_killed_after_its_two_seconds() -> None:
    """A server that ignores TERM has its two seconds; one that heeds the end of its input is gone at once."""
    async with hosted(hostile("ignore-term")):
        began = time.monotonic()
    assert TERMINATE_SECONDS < time.monotonic() - began < TERMINATE_SECONDS + 10
    async with hosted(hostile()):
        began = time.monotonic()
    assert time.monotonic() - began < TERMINATE_SECONDS


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_nothing_outlives_the_host(ending: signal.Signals, tmp_path: Path) -> None:
    """T-MC-70, security invariant 15: the host is killed, segfaults or stops; the server and its daemons are gone."""
    program = tmp_path / "host.py"
    program.write_text(HOST)
    command = [sys.executable, program, *hostile("children", tmp_path / "pids")]
    host = forking.start(command, stdout=subprocess.PIPE)
    try:
        assert host.stdout is not None
        assert select.select([host.stdout], [], [], 20)[0]
        assert host.stdout.readline() == b"up\n"
        pids = told(tmp_path / "pids")
        launchers = [child.pid for child in psutil.Process(host.pid).children()]
        assert len(pids) == 4
        host.send_signal(ending)
        host.wait(60)
        deadline = time.monotonic() + 5
        while any(map(alive, pids + launchers)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [pid for pid in pids + launchers if alive(pid)] == []
    finally:
        host.kill()
        host.wait()


def test_without_the_launcher_children_do_outlive_the_host(tmp_path: Path) -> None:
    """The control: the same server started plainly leaves its daemons behind, and this test can see them."""
    plain = "import subprocess,sys; subprocess.run(sys.argv[1:], stdin=subprocess.PIPE)"
    host = subprocess.Popen([sys.executable, "-S", "-c", plain, *hostile("children", tmp_path / "pids")])
    deadline = time.monotonic() + 10
    while len(told(tmp_path / "pids")) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = told(tmp_path / "pids")
    host.kill()
    host.wait()
    time.sleep(0.3)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 4


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_hundred_cycles_leave_nothing() -> None:
    """
    T-MC-70: spawned and ended a hundred times, in every way: no zombie, no orphan, no descriptor, no
    timer.
    """
    me = psutil.Process()
    others = set(me.children(recursive=True))
    before = me.num_fds()
    timers = set(reactor.getDelayedCalls())
    for cycle in range(100):
        ear = Ear()
        command = ("/bin/cat",) if cycle % 4 else ("/bin/sh", "-c", "sleep 300 & exec cat")
        link = StdioLink(reactor, ear, command, ENVIRON, None, UpstreamLog(reactor, "s"))
        if cycle % 3 == 0:
            os.kill(link.pid or 0, signal.SIGKILL)
            await ear.ended
        elif cycle % 3 == 1:
            link.abort("enough")
        await link.close()
    assert set(me.children(recursive=True)) <= others
    assert me.num_fds() <= before
    # Those of tests before may be over meanwhile.
    assert set(reactor.getDelayedCalls()) <= timers


@pytest_twisted.ensureDeferred
async def test_a_launcher_that_is_killed_takes_its_server_along(tmp_path: Path) -> None:
    """Even without its launcher the server process dies: the kernel's parent-death signal."""
    async with hosted(hostile("none")) as server:
        launcher = server.snapshot().pid or 0
        child = psutil.Process(launcher).children()[0].pid
        os.kill(launcher, signal.SIGKILL)
        await until(lambda: not alive(child) and not alive(launcher))
