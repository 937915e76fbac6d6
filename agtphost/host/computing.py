"""Work off the reactor that is Python's own: one such function runs at a time, and agents take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from agtphost.handlers.calls import CALL

_BY_REACTOR: WeakKeyDictionary[Any, Computing] = WeakKeyDictionary()


def computing_of(reactor: Any) -> Computing:
    """What calls functions off a reactor: one for all of its host."""
    made = _BY_REACTOR.get(reactor)
    if made is None:
        made = _BY_REACTOR[reactor] = Computing(reactor)
    return made


class Computing:
    """
    Calls functions in the reactor's pool of threads.

    Two at a time would not be done sooner, since one of them has the interpreter; and the reactor would wait for both.
    Who has many of them waits for its own: of each agent that waits one is taken, then the next one's.

    :param reactor: lookups of names and reads of files have the rest of its pool.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._busy = False
        self._waiting: dict[str, deque[Callable[[], Deferred[Any] | None]]] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """
        Fires with what the function returns; see :data:`agtphost.vocabulary.steps.Executor`.

        Cancelled, it is not begun any more; what has begun goes on, and nobody hears of it.
        """
        answer: Deferred[Any] = Deferred()

        def begin() -> Deferred[Any] | None:
            if answer.called:
                return None
            pool = self._reactor.getThreadPool()
            return deferToThreadPool(self._reactor, pool, function, *arguments).addBoth(self._over, answer)

        call = CALL.get()
        self._waiting.setdefault("" if call is None else call.agent_id, deque()).append(begin)
        if not self._busy:
            self._next()
        return answer

    def _next(self) -> None:
        """Begin one, if any waits."""
        self._busy = False
        while self._waiting and not self._busy:
            agent_id = next(iter(self._waiting))
            own = self._waiting.pop(agent_id)
            begin = own.popleft()
            if own:
                self._waiting[agent_id] = own  # behind the others
            self._busy = True
            if begin() is None:
                self._busy = False

    def _over(self, result: Any, answer: Deferred[Any]) -> None:
        self._next()
        answer.callback(result)
