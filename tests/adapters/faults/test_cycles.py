"""Started and ended a hundred times or thousands, in every way: nothing is left of any of them (P16, T-MC-70)."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults

from agtphost.adapters.mcp import McpServer, UpstreamState, stdio
from agtphost.config.upstreams import MCPServerSection
from tests.adapters.mcp.hosting import ENVIRON, pause, until
from tests.programmes import length

CYCLES = length(100, 10_000)
AT_ONCE = 10
MARK = f"86399.{os.getpid()}"
"""Seconds that descendants sleep: nobody else's, so that they are found however far they went."""

BEGINNING = """
read -r line
printf '%s\\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'
read -r line; read -r line
"""
END = """
printf '%s\\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'
"""

SERVERS = {
    "alone": BEGINNING + END + "exec cat >/dev/null",
    "with a child": BEGINNING + f"sleep {MARK} &" + END + "exec cat >/dev/null",
    "with a child that holds the pipes": BEGINNING + f"setsid sleep {MARK} &" + END + "exec cat >/dev/null",
    "with a daemon": BEGINNING + f"(setsid sleep {MARK} >/dev/null 2>&1 &)" + END + "exec cat >/dev/null",
    "that ends itself": BEGINNING + f"sleep {MARK} &" + END + "exit 7",
}


def ended(server: McpServer, way: int) -> None:
    """End a server from outside, or not at all."""
    launcher = server.snapshot().pid
    if launcher is None or way == 0:
        return
    try:
        if way == 1:
            os.kill(psutil.Process(launcher).children()[0].pid, signal.SIGKILL)
        elif way == 2:
            os.kill(launcher, signal.SIGKILL)
        else:
            os.kill(launcher, signal.SIGTERM)
    except (ProcessLookupError, IndexError, psutil.NoSuchProcess):
        # It was quicker.
        return


async def cycles(numbers: Iterator[int], seen: Counter[str], ways: int) -> None:
    """Start and end servers, one after another, until the numbers are used up."""
    for number in numbers:
        kind = list(SERVERS)[number % len(SERVERS)]
        settings = MCPServerSection(name="s", command=("/bin/sh", "-c", SERVERS[kind]), protocol="2025-11-25")
        server = McpServer(reactor, settings, ENVIRON)
        server.startService()
        await until(lambda server=server: server.state is not UpstreamState.STARTING, 30)  # type: ignore[misc]
        way = number // len(SERVERS) % ways
        if way == 2 and kind != "alone":
            # Without its launcher a server dies, by the kernel's doing; what it started is nobody's then.
            way = 3
        assert server.state is UpstreamState.UP or kind == "that ends itself", server.snapshot()
        if server.state is UpstreamState.UP:
            ended(server, way)
            if way:
                await until(lambda server=server: server.state is UpstreamState.BACKOFF, 30)  # type: ignore[misc]
        await server.stopService()
        assert server.state is UpstreamState.STOPPED
        seen[f"{kind}, ended by {('its host', 'SIGKILL', 'SIGKILL to the launcher', 'SIGTERM')[way]}"] += 1


def orphans() -> list[psutil.Process]:
    """Descendants of servers that still live."""
    return [process for process in psutil.process_iter(["cmdline"]) if MARK in (process.info["cmdline"] or ())]


def end(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


async def run(count: int, ways: int = 4) -> Counter[str]:
    """So many cycles; how often each kind of server was ended in each way."""
    numbers, seen = iter(range(count)), Counter[str]()
    await gatherResults([Deferred.fromCoroutine(cycles(numbers, seen, ways)) for _ in range(AT_ONCE)])
    return seen


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(length(300, 3600))
@pytest_twisted.ensureDeferred
async def test_many_cycles_leave_nothing() -> None:
    """P16, T-MC-70: 0 zombies, 0 orphans, 0 descriptors, 0 timers after so many spawned and ended servers."""
    await run(AT_ONCE)
    me = psutil.Process()
    others = {child.pid for child in me.children(recursive=True)}
    descriptors, timers = me.num_fds(), len(reactor.getDelayedCalls())  # type: ignore[attr-defined]
    began = time.monotonic()
    seen = await run(CYCLES)
    print(f"{CYCLES} cycles in {time.monotonic() - began:.1f} s")
    assert sum(seen.values()) == CYCLES
    assert len(seen) >= min(3 * len(SERVERS) + 1, CYCLES // 4)
    left: list[Any] = []

    def gone() -> bool:
        left[:] = orphans()
        return not left

    try:
        await until(gone, 5, f"orphans: {left}")
    finally:
        end(left)
    assert {child.pid for child in me.children(recursive=True)} <= others
    assert me.num_fds() <= descriptors
    assert len(reactor.getDelayedCalls()) <= timers  # type: ignore[attr-defined]


CARELESS = """
import os, sys
os.close(3)
os.execvpe(sys.argv[2], sys.argv[2:], {"PATH": "/usr/bin:/bin"})
"""


@pytest_twisted.ensureDeferred
async def test_without_the_launcher_orphans_are_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The control: servers that run without the launcher leave their daemons behind, and this test finds them."""
    careless = tmp_path / "careless.py"
    careless.write_text(CARELESS)
    monkeypatch.setattr(stdio, "_LAUNCHER", str(careless))
    assert sys.platform == "linux"
    await run(2 * AT_ONCE, ways=1)
    await pause(0.2)
    left = orphans()
    end(left)
    assert len(left) >= 4
