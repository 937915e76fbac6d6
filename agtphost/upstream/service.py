"""
Supervise one upstream: start it with the host or its first call, retry after failures, and give turns to calls.

An upstream that misbehaves affects only its own callers: every wait has a deadline, every queue a bound, and a call is
sent at most once.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from agtphost.config.upstreams import UpstreamSection
from agtphost.upstream.failures import Cancelled, Down, Lost, Timeout, UpstreamFailure
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.queue import AwaitingStart, Caller, CallQueue
from agtphost.upstream.supervision import Delays, State, supervise

T = TypeVar("T")

SMOOTHING = 0.1
"""Weight of the newest call in the mean latency."""


@dataclass(slots=True)
class Counters:
    """Counters of calls since the host started, for operators and DESCRIBE."""

    ok: int = 0
    errors: int = 0
    timeouts: int = 0
    latency: float = 0.0
    """Seconds of a successful call, moving average; 0 before the first."""

    def succeeded(self, seconds: float) -> None:
        """Count a result."""
        self.ok += 1
        self.latency = seconds if self.ok == 1 else self.latency + SMOOTHING * (seconds - self.latency)

    def failed(self, failure: UpstreamFailure) -> None:
        """Count a call without a result."""
        self.errors += 1
        self.timeouts += isinstance(failure, Timeout)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of one upstream at one moment, without secrets and without data of callers."""

    name: str
    state: str
    restarts: int
    up_for: float | None
    """Seconds; None while not up."""

    next_attempt_in: float | None
    """Seconds; None while up, starting or stopped."""

    reason: str
    """Why it is down; empty while up."""

    in_flight: int
    waiting: int
    calls: Counters

    def told(self) -> dict[str, object]:
        """Return the members for DESCRIBE."""
        return {
            "state": self.state,
            "restarts": self.restarts,
            "next_attempt_in": None if self.next_attempt_in is None else round(self.next_attempt_in, 3),
            "latency": round(self.calls.latency, 6),
        }

    def full(self) -> dict[str, object]:
        """Return everything, for operators."""
        return {**asdict(self), "latency": self.calls.latency}


class UpstreamService(ABC, Service):
    """
    The service of one upstream.

    Subclasses implement the attempt and what ends with it: :meth:`_establish`, :meth:`_rose`, :meth:`_release` and
    :meth:`_ended`.

    :param protocol: ``mcp``, ``a2a`` or ``acp``: a prefix of its name.
    :param log: its part of the host's log.
    :param at_once: calls that may run at a time; None: by the settings.
    :param jitter: returns a new number from 0 to 1 each time.
    """

    late = "it did not start"

    def __init__(
        self,
        reactor: Any,
        settings: UpstreamSection,
        protocol: str,
        log: UpstreamLog,
        *,
        at_once: int | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"{protocol}.{settings.name}"
        self.settings: Any = settings
        self._clock = reactor
        self._log = log
        self._turns = CallQueue(reactor, at_once or settings.max_concurrency, settings.max_queue)
        self._starting = AwaitingStart(reactor, settings.max_queue)
        self._delays = Delays(jitter)
        self._machine = supervise(self)
        self._counters = Counters()
        self._state = State.STOPPED
        self._attempt: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._up_since = 0.0
        self._next_attempt = 0.0
        self._reason = ""
        self._attempts = 0
        self._in_flight = 0

    # Methods of subclasses

    @abstractmethod
    async def _establish(self) -> None:
        """Connect, and learn what the upstream is; fails with :class:`UpstreamFailure`."""

    def _rose(self, *, first: bool) -> None:
        """Act on a successful attempt; ``first`` is False if the upstream was up before it."""

    def _release(self) -> None:
        """Drop the connection."""

    @abstractmethod
    def _ended(self) -> Deferred[None]:
        """Return a Deferred that fires when everything of the upstream has ended, because the host stops."""

    # The service

    def startService(self) -> None:
        """Start the upstream, or wait for its first call."""
        super().startService()  # type: ignore[no-untyped-call]
        if self.settings.start == "lazy":
            self._machine.arm()
        else:
            self._machine.start()

    def stopService(self) -> Deferred[None]:
        """End the upstream; fires when everything of it has ended."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._machine.stop()
        return self._ended()

    # Calls

    @property
    def state(self) -> State:
        """The present state."""
        return self._state

    def seconds(self) -> float:
        """Return the reactor's time."""
        now: float = self._clock.seconds()
        return now

    def say(self, text: str, level: LogLevel = LogLevel.info) -> None:
        """Log one line, within the log quota of this upstream."""
        self._log.say(text, level)

    async def call(
        self,
        seconds: float,
        work: Callable[[float], Awaitable[T]],
        caller: Caller = None,
        noted: Callable[[Deferred[None]], Deferred[None]] = lambda waiting: waiting,
    ) -> T:
        """
        Call ``work`` when the upstream is up and the call's turn has come.

        :param seconds: how long all of it may take.
        :param work: gets the seconds that are left.
        :param caller: whose share of the turns it takes; None: it is the host's own request.
        :param noted: gets the Deferred that the call waits for.
        :raises UpstreamFailure: for every other outcome.
        """
        began = self.seconds()
        until = began + seconds
        try:
            if self._state is not State.UP:
                await self._risen(seconds, caller, noted)
                began = self.seconds()
            if not self._turns.take(caller):
                await noted(self._turns.wait(until - began, caller))
                began = self.seconds()
            self._in_flight += 1
            try:
                result = await work(max(until - began, 0.0))
            finally:
                self._in_flight -= 1
                self._turns.give_back(caller)
        except UpstreamFailure as failure:
            self._counters.failed(failure)
            if isinstance(failure, Lost) and not failure.sent:
                self.lost(str(failure))
            raise
        except CancelledError:
            given_up = Cancelled("the call was given up")
            self._counters.failed(given_up)
            raise given_up from None
        self._counters.succeeded(self.seconds() - began)
        return result

    def lost(self, reason: str) -> None:
        """Fail the upstream: it cannot be reached, or has changed."""
        if self._state is State.UP:
            self._fail(reason)

    def look_again(self) -> None:
        """Attempt again now, because the upstream's definition may be accepted now."""
        if self._state in (State.BACKOFF, State.FAILED):
            self.forget()
            self._machine.due()
        elif self._state is State.UP and self._attempt is None:
            self.forget()
            self._look()

    def moment(self) -> dict[str, Any]:
        """Return the present members of :class:`Snapshot`."""
        now, up = self.seconds(), self._state is State.UP
        waits = self._state in (State.BACKOFF, State.FAILED)
        return {
            "name": self.settings.name,
            "state": self._state.value,
            "restarts": max(self._attempts - 1, 0),
            "up_for": now - self._up_since if up else None,
            "next_attempt_in": max(self._next_attempt - now, 0.0) if waits else None,
            "reason": self._log.clean(self._reason),
            "in_flight": self._in_flight,
            "waiting": self._turns.waiting,
            "calls": self._counters,
        }

    # Methods for the state machine: agtphost.upstream.supervision.Effects

    def entered(self, state: State) -> None:
        """Store the new state."""
        self._state = state
        if state is State.UP:
            self._up_since = self.seconds()
            self._reason = ""

    def connect(self) -> None:
        """Begin an attempt."""
        self._attempts += 1
        self._look()

    def disconnect(self) -> None:
        """End the attempt and the connection."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        self._send_away()

    def wait(self, delay: float) -> None:
        """Schedule the next attempt."""
        self._next_attempt = self.seconds() + delay
        self._in(delay, self._machine.due)

    def forget(self) -> None:
        """Cancel the scheduled attempt."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _in(self, delay: float, step: Callable[[], None]) -> None:
        self.forget()
        self._timer = self._clock.callLater(delay, step)

    def _look(self) -> None:
        attempt = Deferred.fromCoroutine(self._establish())
        self._attempt = attempt
        attempt.addTimeout(self.settings.start_timeout, self._clock)
        attempt.addCallbacks(self._established, self._not_established)

    def _established(self, _: None) -> None:
        self._attempt = None
        first = self._state is State.STARTING
        if first:
            # A synchronous attempt ends within the machine's own step: the state follows after it.
            self._machine.established()
        if first or self._state is State.UP:
            self._rose(first=first)
        self._starting.up()

    def _not_established(self, failure: Failure) -> None:
        self._attempt = None
        if self._state not in (State.STARTING, State.UP):
            return
        error = failure.value
        if isinstance(error, (TimeoutError, CancelledError, Cancelled)):
            self._fail(f"{self.late} within {self.settings.start_timeout:g} s")
        else:
            self._fail(f"{'' if isinstance(error, UpstreamFailure) else f'{type(error).__name__}: '}{error}")

    def _fail(self, reason: str) -> None:
        up_for = self.seconds() - self._up_since if self._state is State.UP else 0.0
        self._reason = reason
        self.forget()
        attempt, self._attempt = self._attempt, None
        delay, given_up = self._delays.after_failure(self.seconds(), up_for)
        self._log.event(f"{reason}; next attempt in {delay:.1f} s")
        (self._machine.suspend if given_up else self._machine.retry)(delay)
        if attempt is not None:
            attempt.cancel()
        self._send_away()

    def _send_away(self) -> None:
        """Drop the connection and fail every call that waits for it."""
        self._release()
        self._turns.fail_all(self._down)
        self._starting.failed(self._down)

    async def _risen(
        self,
        seconds: float,
        caller: Caller = None,
        noted: Callable[[Deferred[None]], Deferred[None]] = lambda waiting: waiting,
    ) -> None:
        """
        Wait for the first start; a call does not wait for an upstream that failed.

        :param noted: gets the Deferred that the call waits for.
        """
        self._machine.demand()
        state = self._state
        if state is State.UP:
            return
        if state is not State.STARTING or self._delays.failures or not self._starting.admits(caller):
            raise self._down()
        try:
            await noted(self._starting.wait(max(seconds, 0.001), caller))
        except TimeoutError:
            raise Timeout(f"{self.late} in time") from None

    def _down(self) -> Down:
        wait = 1.0
        if self._state in (State.BACKOFF, State.FAILED):
            wait = max(self._next_attempt - self.seconds(), 1.0)
        return Down(self._state.value, ceil(wait), self._reason)
