"""A connection of the Twisted client by the faster of two carriers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from agtphost.client.carriers import HEAD_START, OVERTAKEN, may_fall_back

L = TypeVar("L")


class ConnectionRace(Generic[L]):
    """
    An attempt by QUIC, and one by TLS that begins when the first has failed or :data:`.HEAD_START` has passed.

    The attempt that is not needed any more is cancelled; nothing but a handshake was sent on it.

    :param lost: called with how QUIC failed once TLS is connected in its place.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        by_quic: Callable[[], Coroutine[Any, Any, L]],
        by_tls: Callable[[], Coroutine[Any, Any, L]],
        lost: Callable[[str], None],
    ) -> None:
        self._by_tls = by_tls
        self._lost = lost
        self._cause = OVERTAKEN
        self._is_over = False
        self._tls_failure: Failure | None = None
        self._tls: Deferred[L] | None = None
        self.winner: Deferred[L] = Deferred(lambda _: self._stop())
        """Fires with the connection; fails with TLS's error, or with a refusal of either carrier."""

        self._timer = reactor.callLater(HEAD_START, self._begin_tls)
        self._quic: Deferred[L] | None = Deferred.fromCoroutine(by_quic())
        self._quic.addCallbacks(self._win, self._take_quic_failure)

    def _begin_tls(self) -> None:
        self._tls = Deferred.fromCoroutine(self._by_tls())
        self._tls.addCallbacks(self._win_by_tls, self._take_tls_failure)

    def _win(self, link: L) -> None:
        self._stop()
        self.winner.callback(link)

    def _win_by_tls(self, link: L) -> None:
        self._lost(self._cause)
        self._win(link)

    def _take_quic_failure(self, failure: Failure) -> None:
        self._quic = None
        if self._is_over:
            return
        error = failure.value
        assert error is not None
        if not may_fall_back(error) or self._tls_failure is not None:
            self._lose(failure if not may_fall_back(error) else self._tls_failure or failure)
            return
        self._cause = getattr(error, "explanation", OVERTAKEN)
        if self._timer.active():
            self._timer.cancel()
            self._begin_tls()

    def _take_tls_failure(self, failure: Failure) -> None:
        if self._is_over:
            return
        error = failure.value
        assert error is not None
        if self._quic is not None and may_fall_back(error):
            self._tls_failure = failure  # QUIC may still be there.
            return
        self._lose(failure)

    def _lose(self, failure: Failure) -> None:
        self._stop()
        self.winner.errback(failure)

    def _stop(self) -> None:
        """Cancel what still runs."""
        self._is_over = True
        if self._timer.active():
            self._timer.cancel()
        running = [each for each in (self._quic, self._tls) if each is not None and not each.called]
        for each in running:
            each.cancel()
