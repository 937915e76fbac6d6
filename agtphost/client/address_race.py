"""Attempts of a client with an event loop to connect to the addresses of a name (RFC 8305); no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

from agtphost.client.carrier_race import Timer
from agtphost.client.tcp_attempts import ATTEMPT_DELAY

P = TypeVar("P")
C = TypeVar("C")

Run = Callable[[Coroutine[Any, Any, C], Callable[[C | BaseException], object]], Callable[[], object]]
"""Runs a coroutine, passes on what it returns or raises, and returns what cancels it."""


class AddressRace(Generic[P, C]):
    """
    An attempt for each address, of which the first that succeeds is used, as :class:`.tcp_attempts.TcpAttempts` has it.

    The next one begins after :data:`.tcp_attempts.ATTEMPT_DELAY`, or once none is left that runs. Those that are not
    needed any more are cancelled.

    :param run: runs an attempt.
    :param later: calls a function after so many seconds.
    :param places: the addresses, at least one, in their order.
    :param connect: connects to an address.
    :param misses: the errors after which other addresses are tried; any other one ends the race.
    :param drop: ends a connection that comes too late.
    :param done: called once with the connection, or with the error: the first one of ``misses`` if there are only such;
        not if the race is stopped before.
    """

    def __init__(
        self,
        run: Run[C],
        later: Callable[[float, Callable[[], object]], Timer],
        places: Iterable[P],
        connect: Callable[[P], Coroutine[Any, Any, C]],
        misses: tuple[type[BaseException], ...],
        drop: Callable[[C], object],
        done: Callable[[C | BaseException], object],
    ) -> None:
        self._run = run
        self._later = later
        self._places = deque(places)
        self._connect = connect
        self._misses = misses
        self._drop = drop
        self._done = done
        self._numbers = count()
        self._running: dict[int, Callable[[], object]] = {}
        self._timer: Timer | None = None
        self._fault: BaseException | None = None
        self._is_over = False
        self._begin()

    def stop(self) -> None:
        """Cancel what still runs."""
        self._is_over = True
        self._stop_timer()
        running, self._running = self._running, {}
        for cancel in running.values():
            cancel()

    def _begin(self) -> None:
        """Begin with the next address."""
        self._timer = None
        place, number = self._places.popleft(), next(self._numbers)
        if self._places:
            self._timer = self._later(ATTEMPT_DELAY, self._begin)
        self._running[number] = lambda: None
        cancel = self._run(self._connect(place), partial(self._note_end, number))
        if number in self._running:
            self._running[number] = cancel

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _note_end(self, number: int, found: C | BaseException) -> None:
        self._running.pop(number, None)
        if self._is_over:
            if not isinstance(found, BaseException):
                self._drop(found)  # It was ready in the turn in which the race ended.
            return
        if isinstance(found, self._misses):
            self._fault = self._fault or found
            if self._running:
                return
            if self._places:
                self._stop_timer()
                self._begin()
                return
            found = self._fault
        self.stop()
        self._done(found)
