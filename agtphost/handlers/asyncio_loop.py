"""
Functions of asyncio: ``asyncio = true`` runs them on a separate event loop, in one thread next to the reactor's.

Libraries of asyncio work there as usual, with every reactor of the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import Function
from agtphost.handlers.interface import IHandler
from agtphost.handlers.threads import FromThread
from agtphost.vocabulary.reasons import Reason

MOST_CALLS = 256
"""Calls that are on the loop at the same time; one more is refused."""


class AsyncioLoop:
    """
    An asyncio event loop, in a thread that starts with the first call.

    The thread is a daemon: a coroutine that blocks must not keep the host from ending.

    :param reactor: gets the results.
    :param most: calls at the same time.
    """

    def __init__(self, reactor: FromThread, most: int = MOST_CALLS) -> None:
        self._reactor = reactor
        self._most = most
        self._running = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def running(self) -> int:
        """Calls that are not over."""
        return self._running

    def run(self, begin: Callable[[], Awaitable[Any]]) -> Deferred[Any]:
        """
        Call ``begin`` on the loop, and wait there for what it returns. Cancelling the result cancels the task.

        :raises agtphost.errors.Refusal: 503, where too many calls run already.
        """
        if self._running >= self._most:
            raise Refusal(Reason.HANDLERS_BUSY, headers=(("Retry-After", "1"),))
        self._running += 1
        loop = self._ensure_loop()
        tasks: list[asyncio.Task[Any]] = []
        result: Deferred[Any] = Deferred(lambda _: _ask_to_cancel(loop, tasks))
        context = copy_context()  # What the loop logs is this call's.
        loop.call_soon_threadsafe(self._begin, loop, begin, tasks, context, result)
        return result

    def stop(self) -> None:
        """Cancel what runs, and end the loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(_end, loop)

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            Thread(target=_serve, args=(self._loop,), name="agtphost-asyncio", daemon=True).start()
        return self._loop

    # In the loop's thread

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[], Awaitable[Any]],
        tasks: list[asyncio.Task[Any]],
        context: Context,
        result: Deferred[Any],
    ) -> None:
        task = loop.create_task(await_result(begin), context=context)
        tasks.append(task)
        task.add_done_callback(partial(self._pass_outcome, result))
        if result.called:
            task.cancel()

    def _pass_outcome(self, result: Deferred[Any], task: asyncio.Task[Any]) -> None:
        outcome: Any
        if task.cancelled():
            outcome = Failure(CancelledError())  # type: ignore[no-untyped-call]
        elif (error := task.exception()) is not None:
            outcome = Failure(error)  # type: ignore[no-untyped-call]
        else:
            outcome = task.result()
        self._reactor.callFromThread(self._finish_call, result, outcome)

    # In the reactor's thread again

    def _finish_call(self, result: Deferred[Any], outcome: Any) -> None:
        self._running -= 1
        if not result.called:
            result.callback(outcome)


async def await_result(begin: Callable[[], Awaitable[Any]]) -> Any:
    """Call a function of asyncio and await its result, also where that is awaitable again."""
    answer: Any = begin()
    while hasattr(answer, "__await__"):
        answer = await answer
    return answer


def _ask_to_cancel(loop: asyncio.AbstractEventLoop, tasks: list[asyncio.Task[Any]]) -> None:
    # The loop has cancelled all of its tasks when it is closed.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_cancel, tasks)


def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    _cancel([*asyncio.all_tasks(loop)])
    # One turn later, in which the tasks hear of it.
    loop.call_soon(loop.stop)


@implementer(IHandler)
class AsyncioFunction:
    """
    Calls a function on the asyncio loop.

    Inside it, ``context.invoke`` and ``context.emit`` are awaited as everywhere.

    :param function: returns a coroutine or another awaitable of asyncio, or the answer itself.
    :param loop: where it runs.
    :param reactor: where what it invokes runs.
    """

    kind = "registered_function"

    def __init__(self, function: Function, loop: AsyncioLoop, reactor: FromThread) -> None:
        self._function = function
        self._loop = loop
        self._reactor = reactor

    def handle(self, context: EndpointContext) -> Deferred[Any]:
        """Call the function on the loop; see :class:`agtphost.iagtp.IHandler`."""
        inside = replace(context, invoke=self._from_loop(context.invoke), emit=self._from_loop(context.emit))
        return self._loop.run(lambda: self._function(inside))

    def _from_loop(self, asynchronous: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function for the asyncio loop that awaits a coroutine which runs in the reactor's thread."""

        async def run(*arguments: Any) -> Any:
            return await asynchronous(*arguments)

        async def call(*arguments: Any) -> Any:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()
            begun: list[Deferred[Any]] = []

            def done(outcome: Any) -> None:
                loop.call_soon_threadsafe(_settle, future, outcome)

            def begin() -> None:
                begun.append(ensureDeferred(run(*arguments)).addBoth(done))

            def cancel() -> None:
                for each in begun:
                    each.cancel()

            self._reactor.callFromThread(begin)
            try:
                return await future
            except asyncio.CancelledError:
                self._reactor.callFromThread(cancel)
                raise

        return call


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, Failure):
        future.set_exception(outcome.value or RuntimeError("a call failed without an exception"))
    else:
        future.set_result(outcome)
