"""
The states of one hosted server, and how long it waits before the next attempt.

The machine decides what follows what; everything it causes goes through
:class:`Effects`, so that a test can record it. Only ``up`` takes calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from automat import TypeMachineBuilder

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
"""Seconds between attempts: 1, 2, 4 ... 60."""

STEADY = 60.0
"""Seconds of being up after which the delays start over."""

WINDOW = 60.0
MAX_RESTARTS = 5
"""More restarts than this within the window, and the server counts as failed."""

SLOW_RETRY = 300.0
"""Seconds between attempts of a failed server."""

SPREAD = 0.2
"""A delay varies by this part of it, so that servers felled together do not rise together."""


class State(Enum):
    """What an operator sees."""

    STOPPED = "stopped"
    IDLE = "idle"
    """Lazy: starts with the first call."""

    STARTING = "starting"
    UP = "up"
    BACKOFF = "backoff"
    FAILED = "failed"
    """Given up on for now: the next attempt is minutes away."""


class Effects(Protocol):
    """What the machine causes."""

    def entered(self, state: State) -> None:
        """The state changed."""

    def connect(self) -> None:
        """Begin an attempt; it ends in ``established``, ``retry`` or ``suspend``."""

    def disconnect(self) -> None:
        """End the attempt or the link."""

    def wait(self, delay: float) -> None:
        """Call ``due`` after so many seconds."""

    def forget(self) -> None:
        """Do not call ``due`` any more."""


class Lifecycle(Protocol):
    """What happens to a server."""

    def start(self) -> None:
        """The host starts, and the server with it."""

    def arm(self) -> None:
        """The host starts; the server waits for its first call."""

    def demand(self) -> None:
        """A call wants the server."""

    def established(self) -> None:
        """The attempt succeeded."""

    def retry(self, delay: float) -> None:
        """The attempt or the link failed; try again soon."""

    def suspend(self, delay: float) -> None:
        """The attempt or the link failed, as often as is tolerated."""

    def due(self) -> None:
        """The delay is over."""

    def stop(self) -> None:
        """The host stops."""


_builder = TypeMachineBuilder(Lifecycle, Effects)  # type: ignore[type-abstract]
_stopped = _builder.state("stopped")
_idle = _builder.state("idle")
_starting = _builder.state("starting")
_up = _builder.state("up")
_backoff = _builder.state("backoff")
_failed = _builder.state("failed")

# What changes nothing: a demand is met or under way, and a late loss is known.
for _state in (_stopped, _starting, _up, _backoff, _failed):
    _state.upon(Lifecycle.demand).loop().returns(None)
for _state in (_stopped, _idle, _backoff, _failed):
    _state.upon(Lifecycle.retry).loop().returns(None)
    _state.upon(Lifecycle.suspend).loop().returns(None)
for _state in (_idle, _starting, _up, _backoff, _failed):
    _state.upon(Lifecycle.start).loop().returns(None)
    _state.upon(Lifecycle.arm).loop().returns(None)
_stopped.upon(Lifecycle.stop).loop().returns(None)


@_stopped.upon(Lifecycle.arm).to(_idle)
def _armed(machine: Lifecycle, effects: Effects) -> None:
    effects.entered(State.IDLE)


@_stopped.upon(Lifecycle.start).to(_starting)
@_idle.upon(Lifecycle.demand).to(_starting)
@_backoff.upon(Lifecycle.due).to(_starting)
@_failed.upon(Lifecycle.due).to(_starting)
def _begin(machine: Lifecycle, effects: Effects) -> None:
    effects.entered(State.STARTING)
    effects.connect()


@_starting.upon(Lifecycle.established).to(_up)
def _risen(machine: Lifecycle, effects: Effects) -> None:
    effects.entered(State.UP)


@_starting.upon(Lifecycle.retry).to(_backoff)
@_up.upon(Lifecycle.retry).to(_backoff)
def _delayed(machine: Lifecycle, effects: Effects, delay: float) -> None:
    effects.entered(State.BACKOFF)
    effects.wait(delay)


@_starting.upon(Lifecycle.suspend).to(_failed)
@_up.upon(Lifecycle.suspend).to(_failed)
def _given_up(machine: Lifecycle, effects: Effects, delay: float) -> None:
    effects.entered(State.FAILED)
    effects.wait(delay)


@_idle.upon(Lifecycle.stop).to(_stopped)
@_starting.upon(Lifecycle.stop).to(_stopped)
@_up.upon(Lifecycle.stop).to(_stopped)
@_backoff.upon(Lifecycle.stop).to(_stopped)
@_failed.upon(Lifecycle.stop).to(_stopped)
def _ended(machine: Lifecycle, effects: Effects) -> None:
    effects.entered(State.STOPPED)
    effects.forget()
    effects.disconnect()


supervise = _builder.build()
"""Makes the machine of one server: ``supervise(effects)``."""


class Delays:
    """
    How long to wait after each failure.

    :param jitter: a number from 0 to 1, anew each time.
    """

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._failures = 0
        self._restarts: deque[float] = deque(maxlen=MAX_RESTARTS + 1)

    @property
    def failures(self) -> int:
        """Failures since the server was last up for a while."""
        return self._failures

    def after_failure(self, now: float, up_for: float) -> tuple[float, bool]:
        """
        Note a failure.

        :param now: the time, in seconds.
        :param up_for: how long the server had been up; 0 where it never was.
        :return: seconds until the next attempt, and whether the server counts as failed.
        """
        if up_for >= STEADY:
            self._failures = 0
        self._failures += 1
        self._restarts.append(now)
        if len(self._restarts) > MAX_RESTARTS and now - self._restarts[0] <= WINDOW:
            return self._spread(SLOW_RETRY), True
        # Ten doublings are beyond the longest delay.
        return self._spread(min(FIRST_DELAY * 2 ** min(self._failures - 1, 10), LONGEST_DELAY)), False

    def _spread(self, delay: float) -> float:
        return delay * (1 - SPREAD + 2 * SPREAD * self._jitter())
