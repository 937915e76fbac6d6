"""Attempts to connect that run next to each other, of a client with an event loop; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, Protocol, TypeVar


class Timer(Protocol):
    """A function that an event loop will call."""

    def cancel(self) -> object:
        """Let it not be called."""


C = TypeVar("C")

Run = Callable[[Coroutine[Any, Any, C], Callable[[C | BaseException], object]], Callable[[], object]]
"""Runs a coroutine, passes on what it returns or raises, and returns what cancels it."""

Later = Callable[[float, Callable[[], object]], Timer]
"""Calls a function after so many seconds."""


class Attempts(Generic[C]):
    """
    Attempts of which one is used: the others are cancelled, and a connection that comes too late is ended.

    :param run: runs an attempt.
    :param drop: ends a connection.
    :param done: called once with the connection or the error that the attempts lead to; not if they are stopped before.
    """

    def __init__(
        self,
        run: Run[C],
        later: Later,
        drop: Callable[[C], object],
        done: Callable[[C | BaseException], object],
    ) -> None:
        self._run = run
        self._later = later
        self._drop = drop
        self._done = done
        self._running: dict[Hashable, Callable[[], object]] = {}
        self._timer: Timer | None = None
        self._is_over = False

    def stop(self) -> None:
        """Cancel what still runs."""
        self._is_over = True
        self._stop_timer()
        running, self._running = self._running, {}
        for cancel in running.values():
            cancel()

    def _start(self, name: Hashable, work: Coroutine[Any, Any, C], note: Callable[[C | BaseException], object]) -> None:
        """
        Begin an attempt.

        :param note: takes its connection or error, unless the attempts are over by then.
        """
        self._running[name] = lambda: None

        def end(found: C | BaseException) -> None:
            self._running.pop(name, None)
            if not self._is_over:
                note(found)
            elif not isinstance(found, BaseException):
                self._drop(found)  # It was ready in the turn in which the attempts ended.

        cancel = self._run(work, end)
        if name in self._running:
            self._running[name] = cancel

    def _plan(self, seconds: float, begin: Callable[[], object]) -> None:
        """Begin with something after so many seconds, unless the timer is stopped."""

        def fire() -> None:
            self._timer = None
            begin()

        self._timer = self._later(seconds, fire)

    def _stop_timer(self) -> bool:
        """Return whether something was planned; it will not begin then."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _finish(self, found: C | BaseException) -> None:
        self.stop()
        self._done(found)
