"""How late this process is: what a bound on time has to leave to a machine that does something else as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TICK = 0.02


class Late:
    """Seconds by which the reactor came too late to what it had to do at a given time, all of them together."""

    def __init__(self, reactor: Any) -> None:
        self.seconds = 0.0
        self._reactor = reactor
        self._wait()

    def _wait(self) -> None:
        self._due = self._reactor.seconds() + TICK
        self._next = self._reactor.callLater(TICK, self._come)

    def _come(self) -> None:
        self.seconds += self._reactor.seconds() - self._due
        self._wait()

    def stop(self) -> None:
        """The last time that it is asked for counts as well."""
        self.seconds += max(0.0, self._reactor.seconds() - self._due)
        self._next.cancel()


@contextmanager
def lateness(reactor: Any) -> Iterator[Late]:
    """
    Of what is done within; known at its end.

    A reactor that something of ours holds up is late too, and no test that adds this to its bound notices that: it is
    for bounds on what waits for others.
    """
    late = Late(reactor)
    try:
        yield late
    finally:
        late.stop()
