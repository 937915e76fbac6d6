"""
Runs a coroutine whose result is not awaited.

:meth:`Deferred.fromCoroutine` keeps a Deferred for its caller, and twenty more
functions around it; a connection's answer has no caller, and is made for every request.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class _Driver:
    """
    A coroutine that is running.

    An awaited Deferred that has fired gives its result without coming here;
    one that comes here is pending, and wakes the coroutine from its callback.
    """

    __slots__ = ("_awaited", "_coroutine", "_run")

    def __init__(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
        self._coroutine = coroutine
        # A separate context, so that the coroutine's context variables do not leak into other calls.
        self._run = copy_context().run
        self._awaited: Deferred[Any] | None = None

    def advance(self, result: Any) -> None:
        """Run the coroutine until it waits again, or ends; ``result`` is consumed."""
        self._awaited = None
        try:
            if isinstance(result, Failure):
                awaited = self._run(self._coroutine.throw, cast(BaseException, result.value))
            else:
                awaited = self._run(self._coroutine.send, None)
        except StopIteration:
            return
        self._awaited = awaited
        awaited.addBoth(self.advance)


class Cancellable(_Driver):
    """
    A running coroutine that can be cancelled, as :func:`drive` starts it.

    :param coroutine: handles every exception itself, that of its cancellation included.
    """

    __slots__ = ()

    def __init__(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
        super().__init__(coroutine)
        self.advance(None)

    def cancel(self) -> None:
        """Cancel what the coroutine waits for, which is raised there; do nothing if it has ended."""
        if self._awaited is not None:
            self._awaited.cancel()


def drive(coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
    """
    Start ``coroutine`` and let it run to its end.

    :param coroutine: handles every exception itself. One that leaves it is raised here before the first wait, and
        after that logged as unhandled by the Deferred that it waited for.
    """
    _Driver(coroutine).advance(None)
