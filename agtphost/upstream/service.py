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
from agtphost.upstream.failures import (
    CallCancelled,
    UnreadableAnswer,
    UpstreamDown,
    UpstreamFailure,
    UpstreamLost,
    UpstreamTimeout,
)
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.queue import Caller, CallQueue, StartWaiters
from agtphost.upstream.supervision import Delays, UpstreamState, supervise

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

    def count_success(self, seconds: float) -> None:
        """Count a result."""
        self.ok += 1
        self.latency = seconds if self.ok == 1 else self.latency + SMOOTHING * (seconds - self.latency)

    def count_failure(self, failure: UpstreamFailure) -> None:
        """Count a call without a result."""
        self.errors += 1
        self.timeouts += isinstance(failure, UpstreamTimeout)


@dataclass(frozen=True, kw_only=True)
class UpstreamSnapshot:
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

    def to_json(self) -> dict[str, object]:
        """Return the members for DESCRIBE."""
        return {
            "state": self.state,
            "restarts": self.restarts,
            "next_attempt_in": None if self.next_attempt_in is None else round(self.next_attempt_in, 3),
            "latency": round(self.calls.latency, 6),
        }

    def to_full_json(self) -> dict[str, object]:
        """Return everything, for operators."""
        return {**asdict(self), "latency": self.calls.latency}


class UpstreamService(ABC, Service):
    """
    The service of one upstream.

    Subclasses implement the attempt and what ends with it: :meth:`_establish`, :meth:`_note_up`, :meth:`_release` and
    :meth:`_wait_until_ended`.

    :param protocol: ``mcp``, ``a2a`` or ``acp``: a prefix of its name.
    :param log: its part of the host's log.
    :param at_once: calls that may run at a time; None: by the settings.
    :param jitter: returns a new number from 0 to 1 each time.
    """

    late_reason = "it did not start"

    result_type: type | None = None
    """The type that every result of :meth:`call` has; another one is an error of the upstream. None: any."""

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
        self._starting = StartWaiters(reactor, settings.max_queue)
        self._delays = Delays(jitter)
        self._machine = supervise(self)
        self._counters = Counters()
        self._state = UpstreamState.STOPPED
        self._attempt: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._up_since = 0.0
        self._next_attempt = 0.0
        self._reason = ""
        self._attempts = 0
        self._in_flight = 0
        self._at_work = 0
        """Calls that run, or wait for their turn or for the start."""

        self.last_used = 0.0
        """The reactor's time of the last call."""

    # Methods of subclasses

    @abstractmethod
    async def _establish(self) -> None:
        """Connect, and learn what the upstream is; fails with :class:`UpstreamFailure`."""

    def _note_up(self, *, first: bool) -> None:
        """Act on a successful attempt; ``first`` is False if the upstream was up before it."""

    def _release(self) -> None:
        """Drop the connection."""

    @abstractmethod
    def _wait_until_ended(self) -> Deferred[None]:
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
        return self._wait_until_ended()

    # Calls

    @property
    def state(self) -> UpstreamState:
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
        seconds_now = self._clock.seconds
        self.last_used = began = seconds_now()
        until = began + seconds
        self._at_work += 1
        try:
            if self._state is not UpstreamState.UP:
                await self._wait_for_start(seconds, caller, noted)
                began = seconds_now()
            if not self._turns.take(caller):
                await noted(self._turns.wait(until - began, caller))
                began = seconds_now()
            self._in_flight += 1
            try:
                result = await work(max(until - began, 0.0))
                if self.result_type is not None and type(result) is not self.result_type:
                    raise UnreadableAnswer("the server's result is not an object")
            finally:
                self._in_flight -= 1
                self._turns.give_back(caller)
        except UpstreamFailure as failure:
            self._counters.count_failure(failure)
            if isinstance(failure, UpstreamLost) and not failure.sent:
                self.note_loss(str(failure))
            raise
        except CancelledError:
            given_up = CallCancelled("the call was given up")
            self._counters.count_failure(given_up)
            raise given_up from None
        finally:
            self._at_work -= 1
        self._counters.count_success(seconds_now() - began)
        return result

    def note_loss(self, reason: str) -> None:
        """Fail the upstream: it cannot be reached, or has changed."""
        if self._state is UpstreamState.UP:
            self._fail(reason)

    def attempt_again(self) -> None:
        """Attempt again now, because the upstream's definition may be accepted now."""
        if self._state in (UpstreamState.BACKOFF, UpstreamState.FAILED):
            self.forget()
            self._machine.due()
        elif self._state is UpstreamState.UP and self._attempt is None:
            self.forget()
            self._attempt_now()

    def snapshot_members(self) -> dict[str, Any]:
        """Return the present members of :class:`UpstreamSnapshot`."""
        now, up = self.seconds(), self._state is UpstreamState.UP
        waits = self._state in (UpstreamState.BACKOFF, UpstreamState.FAILED)
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

    def set_state(self, state: UpstreamState) -> None:
        """Store the new state."""
        self._state = state
        if state is UpstreamState.UP:
            self._up_since = self.seconds()
            self._reason = ""

    def connect(self) -> None:
        """Begin an attempt."""
        self._attempts += 1
        self._attempt_now()

    def disconnect(self) -> None:
        """End the attempt and the connection."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        self._fail_waiting()

    def wait(self, delay: float) -> None:
        """Schedule the next attempt."""
        self._next_attempt = self.seconds() + delay
        self._schedule(delay, self._machine.due)

    def forget(self) -> None:
        """Cancel the scheduled attempt."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _schedule(self, delay: float, step: Callable[[], None]) -> None:
        self.forget()
        self._timer = self._clock.callLater(delay, step)

    def _attempt_now(self) -> None:
        attempt = Deferred.fromCoroutine(self._establish())
        self._attempt = attempt
        attempt.addTimeout(self.settings.start_timeout, self._clock)
        attempt.addCallbacks(self._finish_attempt, self._fail_attempt)

    def _finish_attempt(self, _: None) -> None:
        self._attempt = None
        first = self._state is UpstreamState.STARTING
        if first:
            # A synchronous attempt ends within the machine's own step: the state follows after it.
            self._machine.succeed()
        if first or self._state is UpstreamState.UP:
            self._note_up(first=first)
        self._starting.resume_all()

    def _fail_attempt(self, failure: Failure) -> None:
        self._attempt = None
        if self._state not in (UpstreamState.STARTING, UpstreamState.UP):
            return
        error = failure.value
        if isinstance(error, (TimeoutError, CancelledError, CallCancelled)):
            self._fail(f"{self.late_reason} within {self.settings.start_timeout:g} s")
        else:
            self._fail(f"{'' if isinstance(error, UpstreamFailure) else f'{type(error).__name__}: '}{error}")

    def _fail(self, reason: str) -> None:
        up_for = self.seconds() - self._up_since if self._state is UpstreamState.UP else 0.0
        self._reason = reason
        self.forget()
        attempt, self._attempt = self._attempt, None
        delay, given_up = self._delays.after_failure(self.seconds(), up_for)
        self._log.event(f"{reason}; next attempt in {delay:.1f} s")
        (self._machine.suspend if given_up else self._machine.retry)(delay)
        if attempt is not None:
            attempt.cancel()
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        """Drop the connection and fail every call that waits for it."""
        self._release()
        self._turns.fail_all(self._down)
        self._starting.fail_all(self._down)

    async def _wait_for_start(
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
        if state is UpstreamState.UP:
            return
        if state is not UpstreamState.STARTING or self._delays.failures or not self._starting.admits(caller):
            raise self._down()
        try:
            await noted(self._starting.wait(max(seconds, 0.001), caller))
        except TimeoutError:
            raise UpstreamTimeout(f"{self.late_reason} in time") from None

    def _down(self) -> UpstreamDown:
        wait = 1.0
        if self._state in (UpstreamState.BACKOFF, UpstreamState.FAILED):
            wait = max(self._next_attempt - self.seconds(), 1.0)
        return UpstreamDown(self._state.value, ceil(wait), self._reason)
