"""The pool of worker processes: whose turn it is, what may wait, and what becomes of calls that nobody waits for."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from agtphost.compute import pool as pools
from agtphost.compute.pool import ComputationFailed, LocalPool, WorkerPool, pool_of
from agtphost.compute.worker import NICENESS
from agtphost.errors import Refusal
from agtphost.testing.reactor import MemoryReactor
from agtphost.vocabulary import jsontext
from tests.compute.test_worker import ADDED, ENDLESS


def encoder(given: Any) -> Callable[[], Awaitable[bytes]]:
    async def encode() -> bytes:
        return jsontext.encode(given)

    return encode


def run(pool: WorkerPool, key: str, given: Any = ADDED, name: str = "calculate", length: int = 10) -> Deferred[bytes]:
    return pool.run(key, name, encoder(given), length)


async def moment(done: Callable[[], object]) -> None:
    """Until something is so."""
    from twisted.internet import reactor

    while not done():
        await deferLater(reactor, 0.005)  # type: ignore[arg-type]


@pytest_twisted.async_yield_fixture
async def one() -> AsyncIterator[WorkerPool]:
    """A pool of one worker."""
    from twisted.internet import reactor

    pool = WorkerPool(reactor, 1)
    yield pool
    await pool.stopService()
    assert not pool.workers


@pytest_twisted.ensureDeferred
async def test_agents_take_turns(one: WorkerPool) -> None:
    """Of each agent that waits one call is served, then the next one's."""
    order: list[str] = []
    calls = [run(one, key).addCallback(lambda _, key=key: order.append(key)) for key in "aaabbc"]
    for call in calls:
        await call
    assert order == ["a", "a", "b", "c", "a", "b"] or order == ["a", "b", "c", "a", "b", "a"]


@pytest_twisted.ensureDeferred
async def test_a_worker_yields_the_processor_from_its_start(one: WorkerPool) -> None:
    """The imports of a worker that starts do not compete with the calls of its host."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    answer = run(one, "a")
    (worker,) = one.workers
    assert os.getpriority(os.PRIO_PROCESS, worker.transport.pid) == min(19, own + NICENESS)
    await answer
    assert os.getpriority(os.PRIO_PROCESS, worker.transport.pid) == min(19, own + NICENESS)


@pytest_twisted.ensureDeferred
async def test_one_agent_has_one_computation_at_a_time() -> None:
    """Its second call waits although a worker is free, and another agent's does not; the end cancels both."""
    from twisted.internet import reactor

    pool = WorkerPool(reactor, 2)
    first, second = run(pool, "a", ENDLESS, "evaluate"), run(pool, "a", ENDLESS, "evaluate")
    assert (pool.busy, pool.waiting) == (1, 1)
    assert jsontext.decode(await run(pool, "b"))["value"] == "3"
    assert (pool.busy, pool.waiting, pool.started) == (1, 1, 2)
    await pool.stopService()
    for call in (first, second):
        with pytest.raises(CancelledError):
            await call
    assert (pool.busy, pool.waiting) == (0, 0)


@pytest_twisted.ensureDeferred
async def test_a_refusal_of_a_function_is_the_answer(one: WorkerPool) -> None:
    with pytest.raises(Refusal) as refused:
        await run(one, "a", {"expression": "1+1", "inputs": {}})
    assert refused.value.reason == "invalid-parameter" and refused.value.details == {"parameter": "expression"}


@pytest_twisted.ensureDeferred
async def test_a_call_that_is_given_up_while_it_waits_never_runs(one: WorkerPool) -> None:
    """Its input is not even encoded."""
    encoded: list[str] = []

    async def encode() -> bytes:
        encoded.append("it was")
        return b"{}"

    first = run(one, "a")
    second = one.run("a", "calculate", encode, 10)
    second.cancel()
    with pytest.raises(CancelledError):
        await second
    await first
    assert (one.waiting, encoded) == (0, [])


@pytest_twisted.ensureDeferred
async def test_a_call_that_is_given_up_while_it_runs_is_stopped(
    one: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker takes the next one, and is the same process."""
    monkeypatch.setattr(pools, "STOPPING", 60.0)  # A busy machine may need longer to end the computation.
    call = run(one, "a", ENDLESS, "evaluate")
    await moment(lambda: one.workers[0]._begun)
    call.cancel()
    with pytest.raises(CancelledError):
        await call
    assert jsontext.decode(await run(one, "a"))["value"] == "3"
    assert one.started == 1


@pytest_twisted.ensureDeferred
async def test_a_crash_of_a_worker_is_one_failed_call(one: WorkerPool) -> None:
    """What waits is computed by another process."""
    await run(one, "a")
    first, second = run(one, "a", ENDLESS, "evaluate"), run(one, "a")
    await moment(lambda: one.workers[0]._begun)
    os.kill(one.workers[0].transport.pid, signal.SIGKILL)
    with pytest.raises(ComputationFailed):
        await first
    assert jsontext.decode(await second)["value"] == "3"
    assert one.started == 2


@pytest_twisted.ensureDeferred
async def test_what_waits_is_bounded(one: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count and by octets, of one and of all; what is beyond is 503 and can be tried again."""
    monkeypatch.setattr(pools, "MOST_WAITING_EACH", 3)
    monkeypatch.setattr(pools, "MOST_WAITING", 5)
    monkeypatch.setattr(pools, "MOST_OCTETS_EACH", 100)
    calls = [run(one, "a") for _ in range(4)]
    for key, length in (("a", 10), ("b", 60)):
        with pytest.raises(Refusal) as refused:
            calls.append(run(one, key, length=length))
            calls.append(run(one, key, length=60))
        assert refused.value.reason == "handlers-busy" and refused.value.headers == (("Retry-After", "1"),)
    calls.append(run(one, "c", length=10_000))
    with pytest.raises(Refusal):
        run(one, "d")
    for call in calls:
        assert jsontext.decode(await call)["value"] == "3"


@pytest_twisted.ensureDeferred
async def test_a_reload_ends_the_workers(one: WorkerPool) -> None:
    """One that computes ends after that."""
    await run(one, "a")
    call, (before,) = run(one, "a"), one.workers
    one.renew()
    assert jsontext.decode(await call)["value"] == "3"
    await moment(lambda: not one.workers)
    assert jsontext.decode(await run(one, "a"))["value"] == "3"
    assert one.started == 2 and one.workers[0] is not before


@pytest_twisted.ensureDeferred
async def test_a_worker_that_cannot_be_started_is_a_failed_call(
    one: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twisted.internet import reactor

    def spawn(*arguments: Any, **named: Any) -> None:
        raise BlockingIOError("no process more")

    with monkeypatch.context() as patched:
        patched.setattr(reactor, "spawnProcess", spawn)
        with pytest.raises(ComputationFailed):
            await run(one, "a")
    assert jsontext.decode(await run(one, "a"))["value"] == "3"


def test_a_host_in_memory_computes_in_its_own_process() -> None:
    """It has no processes, and what is sent is encoded nevertheless."""
    pool = pool_of(MemoryReactor())
    assert isinstance(pool, LocalPool)
    found: list[bytes] = []
    pool.run("a", "calculate", encoder(ADDED), 10).addCallback(found.append)
    assert jsontext.decode(found[0])["value"] == "3"
