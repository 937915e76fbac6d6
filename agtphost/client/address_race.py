"""Attempts of a client with an event loop to connect to the addresses of a name (RFC 8305); no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import Any, Generic, TypeVar

from agtphost.client.attempts import Attempts, Later, Run
from agtphost.client.tcp_attempts import ATTEMPT_DELAY

P = TypeVar("P")
C = TypeVar("C")


F = TypeVar("F", bound=BaseException)


def choose_fault(before: F | None, found: F, kinds: tuple[type[BaseException], ...]) -> F:
    """
    Return the error of attempts that all failed: the one whose kind is named first, of equal ones the earlier.

    :param before: what was chosen of the earlier ones.
    """

    def rank(fault: F) -> int:
        return next(number for number, kind in enumerate(kinds) if isinstance(fault, kind))

    return found if before is None or rank(found) < rank(before) else before


class AddressRace(Attempts[C], Generic[P, C]):
    """
    An attempt for each address, of which the first that succeeds is used, as :class:`.tcp_attempts.TcpAttempts` has it.

    The next one begins after :data:`.tcp_attempts.ATTEMPT_DELAY`, or once none is left that runs. Those that are not
    needed any more are cancelled.

    :param run: runs an attempt.
    :param later: calls a function after so many seconds.
    :param places: the addresses, at least one, in their order.
    :param connect: connects to an address.
    :param misses: the errors after which other addresses are tried, those that say most first; any other one ends the
        race.
    :param drop: ends a connection that comes too late.
    :param done: called once with the connection, or with the error: the one that :func:`choose_fault` returns if there
        are only ``misses``; not if the race is stopped before.
    """

    def __init__(
        self,
        run: Run[C],
        later: Later,
        places: Iterable[P],
        connect: Callable[[P], Coroutine[Any, Any, C]],
        misses: tuple[type[BaseException], ...],
        drop: Callable[[C], object],
        done: Callable[[C | BaseException], object],
    ) -> None:
        super().__init__(run, later, drop, done)
        self._places = deque(places)
        self._connect = connect
        self._misses = misses
        self._numbers = count()
        self._fault: BaseException | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin with the next address."""
        place = self._places.popleft()
        if self._places:
            self._plan(ATTEMPT_DELAY, self._begin)
        self._start(next(self._numbers), self._connect(place), self._note_end)

    def _note_end(self, found: C | BaseException) -> None:
        if isinstance(found, self._misses):
            self._fault = choose_fault(self._fault, found, self._misses)
            if self._running:
                return
            if self._places:
                self._stop_timer()
                self._begin()
                return
            found = self._fault
        self._finish(found)
