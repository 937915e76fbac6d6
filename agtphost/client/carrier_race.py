"""A connection of a client with an event loop by the faster of two carriers; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from agtphost.client.attempts import Attempts, Later, Run
from agtphost.client.carriers import HEAD_START, OVERTAKEN, may_fall_back


class Abortable(Protocol):
    """A connection, as far as a race needs one."""

    def abort(self) -> object:
        """End it immediately."""


A = TypeVar("A", bound=Abortable)


class ConnectionRace(Attempts[A]):
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
        start: Run[A],
        later: Later,
        by_quic: Callable[[], Coroutine[Any, Any, A]],
        by_tls: Callable[[], Coroutine[Any, Any, A]],
        lost: Callable[[str], object],
        done: Callable[[A | BaseException], object],
    ) -> None:
        super().__init__(start, later, lambda late: late.abort(), done)
        self._by_tls = by_tls
        self._lost = lost
        self._cause = OVERTAKEN
        self._tls_error: BaseException | None = None
        self._plan(HEAD_START, self._begin_tls)
        self._start("quic", by_quic(), self._note_quic)

    def _begin_tls(self) -> None:
        self._start("tls", self._by_tls(), self._note_tls)

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
