"""Leaves an upstream alone that keeps failing, and tries it again in time (design decision 16)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class State(Enum):
    """Where a circuit is."""

    CLOSED = "closed"
    """Calls go through."""

    OPEN = "open"
    """None does, for a while."""

    HALF_OPEN = "half-open"
    """One is on its way, and decides."""


class Circuit:
    """
    Counts failures in a row.

    :param failures: how many open it.
    :param seconds: for how long.
    :param clock: seconds.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.state = State.CLOSED

    @property
    def wait(self) -> float:
        """Seconds until a call is let through again; 0 where one is now."""
        return 0.0 if self.state is State.CLOSED else max(0.0, self._until - self._clock())

    def admit(self) -> bool:
        """
        Whether a call may be made. One that is must be followed by one of the other three.

        Of an open circuit whose time is over, the first call that asks becomes the trial.
        """
        if self.state is State.CLOSED:
            return True
        if self.state is State.OPEN and self._clock() >= self._until:
            self.state = State.HALF_OPEN
            return True
        return False

    def succeeded(self) -> None:
        """The upstream works."""
        self._failures = 0
        self.state = State.CLOSED

    def failed(self) -> bool:
        """The upstream does not work. :return: whether that opened the circuit."""
        self._failures += 1
        if self.state is State.HALF_OPEN or (self.state is State.CLOSED and self._failures >= self._most):
            self._until = self._clock() + self._seconds
            self.state = State.OPEN
            return True
        return False

    def undecided(self) -> None:
        """The call ended without telling: the next one is the trial."""
        if self.state is State.HALF_OPEN:
            self.state = State.OPEN
