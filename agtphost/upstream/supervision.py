"""
The state machine of one hosted server, and the delays between its attempts.

The machine decides the transitions; all its effects go through :class:`Effects`, so that a test can record them. Only
``up`` takes calls.
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

STEADY_SECONDS = 60.0
"""Seconds of being up after which the delays start over."""

WINDOW = 60.0
MAX_RESTARTS = 5
"""Restarts within the window; with more, the server counts as failed."""

SLOW_RETRY = 300.0
"""Seconds between attempts of a failed server."""

SPREAD = 0.2
"""The part by which a delay varies, so that servers that failed together do not restart together."""


class UpstreamState(Enum):
    """The state of a server, as operators see it."""

    STOPPED = "stopped"
    IDLE = "idle"
    """Lazy: starts with the first call."""

    STARTING = "starting"
    UP = "up"
    BACKOFF = "backoff"
    FAILED = "failed"
    """Failed too often: the next attempt is minutes away."""


class Effects(Protocol):
    """The effects of the machine."""

    def set_state(self, state: UpstreamState) -> None:
        """Take the new state."""

    def connect(self) -> None:
        """Begin an attempt; it ends in ``established``, ``retry`` or ``suspend``."""

    def disconnect(self) -> None:
        """End the attempt or the link."""

    def wait(self, delay: float) -> None:
        """Call ``due`` after so many seconds."""

    def forget(self) -> None:
        """Cancel the call of ``due``."""


class UpstreamLifecycle(Protocol):
    """The inputs of the machine."""

    def start(self) -> None:
        """Start the server with the host."""

    def arm(self) -> None:
        """Wait for the server's first call, since the host starts."""

    def demand(self) -> None:
        """Start the server if it waits for its first call."""

    def succeed(self) -> None:
        """Take the success of the attempt."""

    def retry(self, delay: float) -> None:
        """Take the failure of the attempt or the link, and try again soon."""

    def suspend(self, delay: float) -> None:
        """Take the failure of the attempt or the link after too many of them."""

    def due(self) -> None:
        """Begin an attempt, since the delay is over."""

    def stop(self) -> None:
        """Stop the server, since the host stops."""


_builder = TypeMachineBuilder(UpstreamLifecycle, Effects)  # type: ignore[type-abstract]
_stopped = _builder.state("stopped")
_idle = _builder.state("idle")
_starting = _builder.state("starting")
_up = _builder.state("up")
_backoff = _builder.state("backoff")
_failed = _builder.state("failed")

# Inputs without effect: a demand that is met or being met, and a loss that is known.
for _state in (_stopped, _starting, _up, _backoff, _failed):
    _state.upon(UpstreamLifecycle.demand).loop().returns(None)
for _state in (_stopped, _idle, _backoff, _failed):
    _state.upon(UpstreamLifecycle.retry).loop().returns(None)
    _state.upon(UpstreamLifecycle.suspend).loop().returns(None)
for _state in (_idle, _starting, _up, _backoff, _failed):
    _state.upon(UpstreamLifecycle.start).loop().returns(None)
    _state.upon(UpstreamLifecycle.arm).loop().returns(None)
_stopped.upon(UpstreamLifecycle.stop).loop().returns(None)


@_stopped.upon(UpstreamLifecycle.arm).to(_idle)
def _enter_idle(machine: UpstreamLifecycle, effects: Effects) -> None:
    effects.set_state(UpstreamState.IDLE)


@_stopped.upon(UpstreamLifecycle.start).to(_starting)
@_idle.upon(UpstreamLifecycle.demand).to(_starting)
@_backoff.upon(UpstreamLifecycle.due).to(_starting)
@_failed.upon(UpstreamLifecycle.due).to(_starting)
def _enter_starting(machine: UpstreamLifecycle, effects: Effects) -> None:
    effects.set_state(UpstreamState.STARTING)
    effects.connect()


@_starting.upon(UpstreamLifecycle.succeed).to(_up)
def _enter_up(machine: UpstreamLifecycle, effects: Effects) -> None:
    effects.set_state(UpstreamState.UP)


@_starting.upon(UpstreamLifecycle.retry).to(_backoff)
@_up.upon(UpstreamLifecycle.retry).to(_backoff)
def _enter_backoff(machine: UpstreamLifecycle, effects: Effects, delay: float) -> None:
    effects.set_state(UpstreamState.BACKOFF)
    effects.wait(delay)


@_starting.upon(UpstreamLifecycle.suspend).to(_failed)
@_up.upon(UpstreamLifecycle.suspend).to(_failed)
def _enter_failed(machine: UpstreamLifecycle, effects: Effects, delay: float) -> None:
    effects.set_state(UpstreamState.FAILED)
    effects.wait(delay)


@_idle.upon(UpstreamLifecycle.stop).to(_stopped)
@_starting.upon(UpstreamLifecycle.stop).to(_stopped)
@_up.upon(UpstreamLifecycle.stop).to(_stopped)
@_backoff.upon(UpstreamLifecycle.stop).to(_stopped)
@_failed.upon(UpstreamLifecycle.stop).to(_stopped)
def _enter_stopped(machine: UpstreamLifecycle, effects: Effects) -> None:
    effects.set_state(UpstreamState.STOPPED)
    effects.forget()
    effects.disconnect()


supervise = _builder.build()
"""Makes the machine of one server: ``supervise(effects)``."""


class Delays:
    """
    The delays after failures.

    :param jitter: returns a new number from 0 to 1 each time.
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
        Count a failure and return the delay.

        :param now: the time, in seconds.
        :param up_for: seconds that the server had been up; 0 if it was not.
        :return: seconds until the next attempt, and whether the server counts as failed.
        """
        if up_for >= STEADY_SECONDS:
            self._failures = 0
        self._failures += 1
        self._restarts.append(now)
        if len(self._restarts) > MAX_RESTARTS and now - self._restarts[0] <= WINDOW:
            return self._spread(SLOW_RETRY), True
        # Ten doublings exceed the longest delay.
        return self._spread(min(FIRST_DELAY * 2 ** min(self._failures - 1, 10), LONGEST_DELAY)), False

    def _spread(self, delay: float) -> float:
        return delay * (1 - SPREAD + 2 * SPREAD * self._jitter())
