"""A connection of a client with an event loop by the faster of two carriers; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from agtphost.client.carriers import HEAD_START, OVERTAKEN, may_fall_back


class Abortable(Protocol):
    """A connection, as far as a race needs one."""

    def abort(self) -> object:
        """End it immediately."""


class Timer(Protocol):
    """A function that an event loop will call."""

    def cancel(self) -> object:
        """Let it not be called."""


A = TypeVar("A", bound=Abortable)

Start = Callable[[Coroutine[Any, Any, A], Callable[[A | BaseException], object]], Callable[[], object]]
"""Runs a coroutine, passes on what it returns or raises, and returns what cancels it."""


class ConnectionRace(Generic[A]):
    """
    An attempt by QUIC, and one by TLS that begins when the first has failed or :data:`.HEAD_START` has passed.

    The attempt that is not needed any more is cancelled; nothing but a handshake was sent on it.

    :param start: runs an attempt.
    :param later: calls a function after so many seconds.
    :param lost: called with how QUIC failed once TLS is connected in its place.
    :param done: called once with the connection, with TLS's error, or with a refusal of either carrier; not if the race
        is stopped before.
    """

    def __init__(
        self,
        start: Start[A],
        later: Callable[[float, Callable[[], object]], Timer],
        by_quic: Callable[[], Coroutine[Any, Any, A]],
        by_tls: Callable[[], Coroutine[Any, Any, A]],
        lost: Callable[[str], object],
        done: Callable[[A | BaseException], object],
    ) -> None:
        self._start = start
        self._by_tls = by_tls
        self._lost = lost
        self._done = done
        self._cause = OVERTAKEN
        self._is_over = False
        self._tls_error: BaseException | None = None
        self._running: dict[str, Callable[[], object]] = {}
        self._timer: Timer | None = later(HEAD_START, self._begin_tls)
        self._run("quic", by_quic(), self._note_quic)

    def stop(self) -> None:
        """Cancel what still runs."""
        self._is_over = True
        self._stop_timer()
        running, self._running = self._running, {}
        for cancel in running.values():
            cancel()

    def _run(self, carrier: str, work: Coroutine[Any, Any, A], note: Callable[[A | BaseException], object]) -> None:
        self._running[carrier] = lambda: None

        def end(found: A | BaseException) -> None:
            self._running.pop(carrier, None)
            if not self._is_over:
                note(found)
            elif not isinstance(found, BaseException):
                found.abort()  # It was ready in the turn in which the race ended.

        cancel = self._start(work, end)
        if carrier in self._running:
            self._running[carrier] = cancel

    def _begin_tls(self) -> None:
        self._timer = None
        self._run("tls", self._by_tls(), self._note_tls)

    def _stop_timer(self) -> bool:
        """Return whether TLS had not begun yet; it will not then."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _note_quic(self, found: A | BaseException) -> None:
        if not isinstance(found, BaseException) or not may_fall_back(found):
            self._finish(found)
        elif self._tls_error is not None:
            self._finish(self._tls_error)
        else:
            self._cause = getattr(found, "explanation", OVERTAKEN)
            if self._stop_timer():
                self._begin_tls()

    def _note_tls(self, found: A | BaseException) -> None:
        if not isinstance(found, BaseException):
            self._lost(self._cause)
            self._finish(found)
        elif "quic" in self._running and may_fall_back(found):
            self._tls_error = found  # QUIC may still be there.
        else:
            self._finish(found)

    def _finish(self, found: A | BaseException) -> None:
        self.stop()
        self._done(found)
