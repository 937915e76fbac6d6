"""How long a call may take."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.client.errors import Timeout

Clock = Callable[[], float]
"""Returns seconds, never going back."""

LONGEST_SILENCE = 20.0
"""Seconds in which a host that can be reached sends something while a call waits: it is sent a PING every 15."""


class Deadline:
    """A moment after which a call is given up."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock = clock
        self._seconds = seconds
        self._end = clock() + seconds
        self._doing = "starting"
        self.count_silence: Callable[[], float] = lambda: 0.0
        """Returns for how many seconds nothing has come from the host, where a carrier knows that something should."""

    @property
    def seconds_left(self) -> float:
        """The seconds that are left; zero or negative once it has passed."""
        return self._end - self.clock()

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
        other = Deadline(self.clock, seconds)
        return other if other._end < self._end else self

    def timeout_error(self) -> Timeout:
        """Return the error that says what took too long."""
        what = f"The call took longer than {self._seconds:g} seconds, while {self._doing}"
        # Before the call the host had nothing to send.
        silence = min(self.count_silence(), self._seconds - self.seconds_left)
        if silence < LONGEST_SILENCE:
            return Timeout(f"{what}.", "Allow it more time.")
        return Timeout(
            f"{what}; nothing has come from the host for {silence:.0f} seconds.",
            "Check the network, and that the host runs. Whether it carried the request out is unknown.",
        )
