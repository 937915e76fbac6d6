"""
However many calls of an agent wait when it is revoked, they end in turns of the reactor that hold nobody up.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.dispatch import running_calls
from tests.audit.drafting import transition
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import TurnHost
from tests.programmes import length

WAITING = length(300, 5_000)


MORE = length(0.0001, 0.0)
"""Seconds that the end of each takes besides, where they are few."""


def _busy(_: object) -> None:
    until = time.thread_time() + MORE
    while time.thread_time() < until:
        pass


async def _wait(context: object) -> dict[str, object]:
    await Deferred(_busy)  # type: ignore[misc]
    return {}


@pytest.fixture(scope="module")
def host() -> Iterator[TurnHost]:
    made = TurnHost({"limits": {"connections": 3 * WAITING, "connections_per_address": 3 * WAITING}})
    made.endpoint("QUERY", "/wait", _wait)
    made.settle()
    gc.disable()  # Collections of all objects are none of what ends.
    yield made
    gc.enable()
    made.close()


def revoke_and_time(host: TurnHost, name: str) -> float:
    """Seconds of the longest turn from the revocation to the last answer, each of which is 410."""
    caller = host.agent(name)
    answers: list[Any] = []
    for _ in range(WAITING):
        host.begin("QUERY", "/wait", caller=caller, connection=host.connect(caller)).addCallback(answers.append)
    host.settle()
    host.turns.taken.clear()
    done = host.core.services.evidence.ledger.submit(transition(None, "retired", agent_id=caller.agent.agent_id))
    host.turns.until(lambda: done.called and len(answers) == WAITING)
    host.settle()
    assert {answer.status for answer in answers} == {410}
    return max(host.turns.taken)


@measured
@pytest.mark.programme
def test_they_end_in_turns(host: TurnHost) -> None:
    seconds = revoke_and_time(host, "caller")
    print(f"{seconds * 1000:.1f} ms")
    assert seconds < most()


@measured
def test_all_at_once_is_too_long(host: TurnHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(running_calls, "TURN", 1e9)
    assert revoke_and_time(host, "other") > most()
