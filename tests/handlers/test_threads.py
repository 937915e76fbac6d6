"""Blocking functions: threads of their own, bounded, and never in the way of the host's end."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, gatherResults
from zope.interface.verify import verifyObject

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.function import BlockingFunction, RegisteredFunction
from agtphost.handlers.threads import Threads
from agtphost.iagtp import IHandler


def reactor() -> Any:
    """The running reactor."""
    from twisted.internet import reactor as running

    return running


def context(**members: Any) -> EndpointContext:
    """A call."""
    return EndpointContext(input={}, method="QUERY", path="/slow", **members)


@pytest_twisted.ensureDeferred
async def test_a_blocking_function_leaves_the_reactor_free() -> None:
    """P14: while one blocks, the reactor's own calls come; it goes on once ten of them have."""
    threads = Threads(reactor(), 2)
    enough = threading.Event()

    def block(ctx: EndpointContext) -> Any:
        assert enough.wait(120)
        return {"thread": threading.current_thread().name}

    handler = BlockingFunction(block, threads, reactor())
    assert verifyObject(IHandler, handler)

    def tick(left: int) -> None:
        if left:
            reactor().callLater(0.001, tick, left - 1)
        else:
            enough.set()

    tick(10)
    answer = await handler.handle(context())
    assert answer["thread"].startswith("agtphost-handler-")
    threads.stop()


@pytest_twisted.ensureDeferred
async def test_errors_come_out_as_they_went_in() -> None:
    """A declared error stays one; so does a surprise, which the dispatcher makes a 500."""
    threads = Threads(reactor(), 1)

    def refuse(ctx: EndpointContext) -> Any:
        raise EndpointError("taken")

    with pytest.raises(EndpointError):
        await BlockingFunction(refuse, threads, reactor()).handle(context())
    with pytest.raises(ZeroDivisionError):
        await BlockingFunction(lambda ctx: 1 // 0, threads, reactor()).handle(context())
    threads.stop()


@pytest_twisted.ensureDeferred
async def test_a_blocking_function_invokes_and_waits() -> None:
    """Inside a thread, context.invoke and context.emit return what they otherwise resolve to."""
    threads, heard = Threads(reactor(), 1), []

    async def invoke(method: str, path: str, given: Any) -> Any:
        heard.append(threading.current_thread() is threading.main_thread())
        return {"called": f"{method} {path}", **given}

    async def emit(event: Any) -> None:
        heard.append(event)

    def work(ctx: EndpointContext) -> Any:
        ctx.emit({"n": 1})
        return ctx.invoke("QUERY", "/other", {"a": 1})

    answer = await BlockingFunction(work, threads, reactor()).handle(context(invoke=invoke, emit=emit))
    assert answer == {"called": "QUERY /other", "a": 1}
    assert heard == [{"n": 1}, True]
    threads.stop()


@pytest_twisted.ensureDeferred
async def test_threads_are_bounded_and_so_are_those_that_wait() -> None:
    """Two threads, one waiting, the fourth refused with 503; a given-up call never begins (408)."""
    threads, gate, ran = Threads(reactor(), 2, waiting=1), threading.Event(), []

    def work(name: str) -> Any:
        def run() -> str:
            ran.append(name)
            gate.wait(60)
            return name

        return run

    running = [threads.run(work("a"))]
    while threads.busy < 1:
        await tick()
    running.append(threads.run(work("b")))
    while threads.busy < 2:
        await tick()
    waiting = threads.run(work("c"))
    with pytest.raises(Refusal) as caught:
        threads.run(work("d"))
    assert caught.value.status == 503 and caught.value.reason == "handlers-busy"
    waiting.cancel()
    gate.set()
    with pytest.raises(CancelledError):
        await waiting
    assert await gatherResults(running) == ["a", "b"]
    while threads.waiting:
        await tick()
    assert await threads.run(work("e")) == "e"
    assert ran == ["a", "b", "e"]
    threads.stop()


async def tick() -> None:
    """One turn of the reactor."""
    from twisted.internet.task import deferLater

    await deferLater(reactor(), 0.005, lambda: None)


@pytest_twisted.ensureDeferred
async def test_threads_end_with_the_host() -> None:
    """After stop every thread ends, and none of them is one that the process would wait for."""
    threads = Threads(reactor(), 4)
    names = await gatherResults([threads.run(lambda: threading.current_thread()) for _ in range(4)])
    assert all(thread.daemon for thread in names)
    threads.stop()
    for thread in set(names):
        thread.join(5)
        assert not thread.is_alive()


def test_a_function_that_holds_the_reactor_is_told_of_once() -> None:
    """P14: over 100 ms is one line in the log; the control, 90 ms, is none."""
    from twisted.logger import globalLogPublisher

    for milliseconds, lines in ((150, 1), (90, 0)):
        times = iter(n * milliseconds / 1000 for n in range(8))
        heard: list[Any] = []
        globalLogPublisher.addObserver(heard.append)
        try:
            handler = RegisteredFunction(lambda ctx: {}, times.__next__)
            for _ in range(3):
                assert handler.handle(context()) == {}
        finally:
            globalLogPublisher.removeObserver(heard.append)
        said = [event for event in heard if "blocked the whole host" in str(event.get("log_format"))]
        assert len(said) == lines
