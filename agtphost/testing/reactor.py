"""What a host in memory takes for the reactor: time stands still until the test moves it."""

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


class _NoThreads:
    """A pool of threads that has none: what it is given is done at once, by the caller."""

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
    A :class:`twisted.internet.task.Clock` whose threads are none.

    ``advance(seconds)`` runs what is due by then.
    """

    nameResolver = None
    """There are no names to look up: nothing in memory connects to anybody."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = _NoThreads()
        self._followed: list[Any] = []
        self._settling_is_due = False

    @property
    def aside(self) -> int:
        """How many functions a real host would have run in a thread."""
        return self._pool.done

    def getThreadPool(self) -> Any:
        """What :func:`twisted.internet.threads.deferToThreadPool` is given."""
        return self._pool

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **named: Any) -> None:
        """There is one thread alone: at once."""
        callable(*args, **named)

    def callWhenRunning(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """It always runs: at once."""
        function(*arguments, **named)

    def follow(self, reactor: Any) -> None:
        """
        Settle in the next turn of a real reactor whenever something is scheduled, until :meth:`leave`.

        A handler that a real thread or timer resumes schedules work here while no test is there to call
        :meth:`settle`.
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
        """Run what is due now, and what that makes due, until nothing is."""
        while any(call.getTime() <= self.seconds() for call in self.getDelayedCalls()):
            self.advance(0)


def reactor_in_use() -> Any:
    """Return Twisted's reactor; this installs the default one where none is yet."""
    from twisted.internet import reactor

    return reactor


def run_reactor_until(over: Deferred[Any], reactor: Any) -> None:
    """
    Run Twisted's reactor, from a test that does not run on it, until a Deferred fires.

    :raises RuntimeError: the reactor is running already.
    """
    if over.called:
        return
    if reactor.running:
        raise RuntimeError(
            "call(wait=...) cannot wait in a test that Twisted's reactor runs, as pytest-twisted has it: await "
            "host.call_on_reactor(...) there"
        )
    over.addBoth(lambda _: reactor.crash())
    reactor.run(installSignalHandlers=False)
    if getattr(reactor, "threadpool", None) is not None:
        # As trial does after each class: threads that nobody stops keep the process from ending.
        reactor._stopThreadPool()


class InTurn(Threads):
    """Runs the functions of ``blocking = true`` at once, in the test's own thread."""

    def run(self, function: Callable[[], Any]) -> Deferred[Any]:
        """Call it; it holds the test for as long as it takes."""
        try:
            return succeed(function())
        except Exception:
            return fail()


class LoopInTurn(AsyncioLoop):
    """Runs the functions of ``asyncio = true`` to their end, while the test's own thread waits."""

    def run(self, begin: Callable[[], Awaitable[Any]]) -> Deferred[Any]:
        """Call it; it holds the test for as long as it takes."""
        outcome: list[Deferred[Any]] = []

        def work() -> None:
            try:
                outcome.append(succeed(asyncio.run(await_result(begin))))
            except BaseException:
                outcome.append(fail())

        # In a thread of its own: the test may be on a loop itself.
        thread = Thread(target=work)
        thread.start()
        thread.join()
        return outcome[0]
