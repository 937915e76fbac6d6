"""Run Python work off the reactor: one function at a time, and agents take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from agtphost.handlers.log_context import CALL


class TurnExecutor:
    """
    An executor that calls functions in the reactor's thread pool, one at a time.

    Two at a time would not finish sooner, since only one has the interpreter, and the reactor would wait for both.
    Agents take turns, so an agent with many functions delays only its own.

    :param reactor: its pool's other threads are left to name lookups and file reads.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._busy = False
        self._waiting: dict[str, deque[Callable[[], Deferred[Any] | None]]] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """
        Return a Deferred of what the function returns; see :data:`agtphost.vocabulary.steps.Executor`.

        If the Deferred is cancelled, the function does not start; one that has started runs on, and its result is
        dropped.
        """
        answer: Deferred[Any] = Deferred()

        def begin() -> Deferred[Any] | None:
            if answer.called:
                return None
            pool = self._reactor.getThreadPool()
            return deferToThreadPool(self._reactor, pool, function, *arguments).addBoth(self._finish, answer)

        call = CALL.get()
        self._waiting.setdefault("" if call is None else call.agent_id, deque()).append(begin)
        if not self._busy:
            self._start_next()
        return answer

    def _start_next(self) -> None:
        """Start the next waiting function, if any."""
        self._busy = False
        while self._waiting and not self._busy:
            agent_id = next(iter(self._waiting))
            own = self._waiting.pop(agent_id)
            begin = own.popleft()
            if own:
                self._waiting[agent_id] = own  # at the end of the queue
            self._busy = True
            if begin() is None:
                self._busy = False

    def _finish(self, result: Any, answer: Deferred[Any]) -> None:
        self._start_next()
        answer.callback(result)
