"""A replacement for the reactor of a host in memory: time advances only when the test advances it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from agtphost.handlers.asyncio_loop import AsyncioLoop, await_result
from agtphost.handlers.threads import Threads


class _InlineThreadPool:
    """A thread pool without threads: the caller runs each function immediately."""

    done = 0

    def callInThreadWithCallback(
        self, done: Callable[[bool, Any], object], function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> None:
        self.done += 1
        try:
            result: Any = function(*arguments, **named)
        except Exception:
            done(False, Failure())  # type: ignore[no-untyped-call]
        else:
            done(True, result)


class MemoryReactor(Clock):
    """
    A :class:`twisted.internet.task.Clock` without threads.

    ``advance(seconds)`` runs the calls that are scheduled until then.
    """

    nameResolver = None
    """No name resolver is needed, because a host in memory opens no connections."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = _InlineThreadPool()
        self._followed: list[Any] = []
        self._settling_is_due = False

    @property
    def offload_count(self) -> int:
        """Number of functions that a real host would have run in a thread."""
        return self._pool.done

    def getThreadPool(self) -> Any:
        """Return the pool for :func:`twisted.internet.threads.deferToThreadPool`."""
        return self._pool

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **named: Any) -> None:
        """Call the function immediately, because there is only one thread."""
        callable(*args, **named)

    def callWhenRunning(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """Call the function immediately, because this reactor always runs."""
        function(*arguments, **named)

    def follow(self, reactor: Any) -> None:
        """
        Settle in the next turn of a real reactor after something was scheduled, until :meth:`leave`.

        A handler that a real thread or timer resumes schedules calls here while no test calls :meth:`settle`.
        """
        self._followed.append(reactor)
        self._settle_soon()

    def leave(self, reactor: Any) -> None:
        """End one :meth:`follow`."""
        self._followed.remove(reactor)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kw: object) -> Any:
        """Schedule a call; see :meth:`twisted.internet.interfaces.IReactorTime.callLater`."""
        made = super().callLater(delay, callable, *args, **kw)
        self._settle_soon()
        return made

    def _settle_soon(self) -> None:
        if self._followed and not self._settling_is_due:
            self._settling_is_due = True
            self._followed[-1].callLater(0, self._settle_in_turn)

    def _settle_in_turn(self) -> None:
        self._settling_is_due = False
        self.settle()

    def settle(self) -> None:
        """Run all calls that are scheduled for now, and those that they schedule for now."""
        while any(call.getTime() <= self.seconds() for call in self.getDelayedCalls()):
            self.advance(0)


def reactor_in_use() -> Any:
    """Return Twisted's reactor; install the default one if none is installed."""
    from twisted.internet import reactor

    return reactor


def run_reactor_until(over: Deferred[Any], reactor: Any) -> None:
    """
    Run Twisted's reactor until a Deferred fires, from a test that does not run on the reactor.

    :raises RuntimeError: the reactor is running already.
    """
    if over.called:
        return
    if reactor.running:
        raise RuntimeError(
            "call(wait=...) cannot wait in a test that runs on Twisted's reactor, such as one of pytest-twisted; use "
            "await host.call_on_reactor(...)"
        )
    over.addBoth(lambda _: reactor.crash())
    reactor.run(installSignalHandlers=False)
    if getattr(reactor, "threadpool", None) is not None:
        # Stop the threads as trial does after each class; otherwise they would keep the process from ending.
        reactor._stopThreadPool()


class InlineExecutor(Threads):
    """An executor that runs the functions of ``blocking = true`` immediately, in the test's own thread."""

    def run(self, function: Callable[[], Any]) -> Deferred[Any]:
        """Call the function; the test waits for it."""
        try:
            return succeed(function())
        except Exception:
            return fail()


class InlineLoop(AsyncioLoop):
    """A loop that runs the functions of ``asyncio = true`` to their end, while the test's own thread waits."""

    def run(self, begin: Callable[[], Awaitable[Any]]) -> Deferred[Any]:
        """Call the function and run its coroutine to the end; the test waits for it."""
        outcome: list[Deferred[Any]] = []

        def work() -> None:
            try:
                outcome.append(succeed(asyncio.run(await_result(begin))))
            except BaseException:
                outcome.append(fail())

        # Use a separate thread, because the test may run on an asyncio loop itself.
        thread = Thread(target=work)
        thread.start()
        thread.join()
        return outcome[0]
