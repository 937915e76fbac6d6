"""Work off the reactor: one function at a time, agents in turn, and none that nobody waits for any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Lock
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, DeferredList

from agtphost.handlers.log_context import CALL, Call
from agtphost.handlers.turn_executor import TurnExecutor


@pytest.fixture
def gate() -> Iterator[Event]:
    """Holds the first function until the test lets go."""
    made = Event()
    yield made
    made.set()


def asking(computing: TurnExecutor, agent_id: str, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    """In the course of a call of that agent's."""
    call = Call()
    call.agent_id = agent_id
    token = CALL.set(call)
    try:
        return computing(function, *arguments)
    finally:
        CALL.reset(token)


@pytest_twisted.ensureDeferred
async def test_one_runs_at_a_time(gate: Event) -> None:
    """However many are asked for, no two have the interpreter to share."""
    lock, together = Lock(), []

    def work() -> None:
        together.append(lock.acquire(blocking=False))
        gate.wait()
        lock.release()

    computing = TurnExecutor(reactor)
    asked = DeferredList([computing(work) for _ in range(5)], fireOnOneErrback=True)
    gate.set()
    await asked
    assert together == [True] * 5


@pytest_twisted.ensureDeferred
async def test_agents_take_turns(gate: Event) -> None:
    """Who asks for many does not keep waiting who asks for one."""
    computing, done = TurnExecutor(reactor), list[str]()
    first = computing(gate.wait)
    each = [asking(computing, "many", done.append, f"many {n}") for n in range(3)]
    each.append(asking(computing, "one", done.append, "one"))
    gate.set()
    await DeferredList([first, *each], fireOnOneErrback=True)
    assert done == ["many 0", "one", "many 1", "many 2"]


@pytest_twisted.ensureDeferred
async def test_what_was_given_up_is_not_begun(gate: Event) -> None:
    """A call that is over by then costs nothing; what follows is done."""
    computing, done = TurnExecutor(reactor), list[str]()
    first, given_up = computing(gate.wait), computing(done.append, "given up")
    last = computing(done.append, "last")
    given_up.addErrback(lambda failure: failure.trap(CancelledError))
    given_up.cancel()
    gate.set()
    await first
    await last
    assert done == ["last"]


@pytest_twisted.ensureDeferred
async def test_what_fails_tells_who_asked_and_nobody_else() -> None:
    """The next one is begun."""
    computing = TurnExecutor(reactor)
    failing, next_one = computing(lambda: 1 // 0), computing(lambda: "done")
    with pytest.raises(ZeroDivisionError):
        await failing
    assert await next_one == "done"
