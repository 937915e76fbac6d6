"""How long a call may take."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.client.errors import Timeout

Clock = Callable[[], float]
"""Returns seconds, never going back."""


class Deadline:
    """A moment after which a call is given up."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock() + seconds
        self._doing = "starting"

    @property
    def seconds_left(self) -> float:
        """The seconds that are left; zero or negative once it has passed."""
        return self._end - self._clock()

    def remaining(self, doing: str) -> float:
        """
        Return the seconds that are left.

        :param doing: what is done in them, for the error of not getting done.
        :raises Timeout: if none are left.
        """
        self._doing = doing
        if self.seconds_left <= 0:
            raise self.timeout_error()
        return self.seconds_left

    def sooner(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and one so many seconds from now."""
        other = Deadline(self._clock, seconds)
        return other if other._end < self._end else self

    def timeout_error(self) -> Timeout:
        """Return the error that says what took too long."""
        return Timeout(
            f"The call took longer than {self._seconds:g} seconds, while {self._doing}.", "Allow it more time."
        )
