"""
Connections whose deadlines are over at the same moment end in turns of the reactor that hold nobody up.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.protocols import listener_connections
from agtphost.protocols.connection import ServerConnection
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import TurnHost
from tests.programmes import length

IDLE = length(300, 9_000)
"""Connections, each of which has been answered."""

MORE = length(0.0001, 0.0)
"""Seconds that each deadline takes besides, where they are few."""


@pytest.fixture(scope="module")
def host() -> Iterator[TurnHost]:
    made = TurnHost({"limits": {"connections": 10_000, "connections_per_address": 10_000}})
    made.endpoint("QUERY", "/x", lambda context: {})
    made.settle()
    sweep = ServerConnection.sweep

    def longer(self: Any, now: float) -> None:
        until = time.thread_time() + MORE
        sweep(self, now)
        while time.thread_time() < until:
            pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ServerConnection, "sweep", longer)
        yield made
    made.close()


def swept(host: TurnHost) -> float:
    """Seconds of the longest turn in which they end, having been idle for too long; none is left."""
    many = IDLE
    caller = host.agent(f"caller{host.turns.ahead:.0f}")
    answers: list[Any] = []
    kept = [host.connect(caller) for _ in range(many)]
    for connection in kept:
        host.begin("QUERY", "/x", caller=caller, connection=connection).addCallback(answers.append)
    host.turns.until(lambda: len(answers) == many)
    host.settle()
    factory = host._listening()
    assert factory.connections == many
    gc.disable()  # Collections of all objects are none of what ends.
    host.turns.taken.clear()
    host.turns.counted(factory.sweep)
    host.settle()
    assert factory.connections == many, "it is not time yet"
    host.turns.ahead += host.config.limits.idle_timeout + 1
    host.turns.counted(factory.sweep)
    host.turns.until(lambda: not factory.connections)
    host.settle()
    gc.enable()
    return max(host.turns.taken)


@measured
@pytest.mark.programme
def test_they_end_in_turns(host: TurnHost) -> None:
    seconds = swept(host)
    print(f"{seconds * 1000:.1f} ms")
    assert seconds < most()
    assert seconds < sum(host.turns.taken) / 3


@measured
def test_all_at_once_is_too_long(host: TurnHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: each of the two looks at all of them is one turn, and there is little else."""
    monkeypatch.setattr(listener_connections, "TURN", 1e9)
    assert swept(host) > sum(host.turns.taken) / 3
