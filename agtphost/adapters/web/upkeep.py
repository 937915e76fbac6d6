"""
One upstream, kept known: prepared at start, looked at again from time to time, tried anew after a failure.

An upstream that misbehaves harms nobody but its own callers: every wait has a
deadline, every queue a bound, and a call is sent at most once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from agtphost.adapters.web.settings import PeerSettings
from agtphost.upstream.counters import Counters
from agtphost.upstream.failures import (
    Cancelled,
    Down,
    Lost,
    Timeout,
    UpstreamFailure,
)
from agtphost.upstream.log import SHORTEST_SECRET, escaped
from agtphost.upstream.queue import Caller, CallQueue, may_await_start
from agtphost.upstream.supervision import Delays, State, supervise
from agtphost.upstream.throttle import LogThrottle

T = TypeVar("T")

_log = Logger(namespace="agtphost.upstreams")


@dataclass(frozen=True, kw_only=True)
class PeerSnapshot:
    """One upstream at one moment; nothing secret, nothing of a caller."""

    name: str
    protocol: str
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
    calls: Counters = field(default_factory=Counters)

    def told(self) -> dict[str, object]:
        """What DESCRIBE says of the moment."""
        return {
            "state": self.state,
            "restarts": self.restarts,
            "next_attempt_in": None if self.next_attempt_in is None else round(self.next_attempt_in, 3),
            "latency": round(self.calls.latency, 6),
            "failures": self.calls.errors,
        }

    def full(self) -> dict[str, object]:
        """Everything, for operators."""
        return {**asdict(self), "protocol": self.protocol.upper(), "latency": self.calls.latency}


class Upkeep(Service):
    """
    The service of one upstream.

    :param protocol: ``a2a`` or ``acp``: a prefix of its name in the log.
    :param prepare: learns what the upstream is; fails with :class:`UpstreamFailure`.
    :param close: lets go of connections when the host stops.
    :param jitter: a number from 0 to 1, anew each time.
    """

    def __init__(
        self,
        reactor: Any,
        settings: PeerSettings,
        protocol: str,
        prepare: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"{protocol}.{settings.name}"
        self.settings = settings
        self._protocol = protocol
        self._clock = reactor
        self._prepare = prepare
        self._close = close
        self._turns = CallQueue(reactor, settings.max_concurrency, settings.max_queue)
        self._delays = Delays(jitter)
        self._machine = supervise(self)
        self._quota = LogThrottle(reactor)
        self._counters = Counters()
        self._state = State.STOPPED
        self._attempt: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._waiters: dict[Deferred[None], Caller] = {}
        self._up_since = 0.0
        self._next_attempt = 0.0
        self._reason = ""
        self._attempts = 0
        self._in_flight = 0
        tokens = [value.rpartition(" ")[2] for value in settings.headers.values()]
        self._secrets = sorted(
            {value for value in (*settings.headers.values(), *tokens) if len(value) >= SHORTEST_SECRET},
            key=len,
            reverse=True,
        )

    # The service

    def startService(self) -> None:
        """Prepare the upstream, or wait for its first call."""
        super().startService()  # type: ignore[no-untyped-call]
        if self.settings.start == "lazy":
            self._machine.arm()
        else:
            self._machine.start()

    def stopService(self) -> Deferred[None]:
        """Stop; fires when nothing is left."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._machine.stop()
        stopping: Deferred[None] = Deferred.fromCoroutine(self._ended())
        return stopping

    # Calls

    @property
    def state(self) -> State:
        """Its present state."""
        return self._state

    def seconds(self) -> float:
        """The reactor's time."""
        now: float = self._clock.seconds()
        return now

    async def call(self, seconds: float, work: Callable[[float], Awaitable[T]], caller: Caller = None) -> T:
        """
        Do ``work`` with the upstream, when it is up and the call's turn has come.

        :param seconds: how long all of it may take.
        :param work: gets the seconds that are left.
        :param caller: whose share of the turns it takes; None: it is the host's own request.
        :raises UpstreamFailure: for every other outcome.
        """
        until = self.seconds() + seconds
        try:
            if self._state is not State.UP:
                await self._risen(seconds, caller)
            if not self._turns.take(caller):
                await self._turns.wait(until - self.seconds(), caller)
            began = self.seconds()
            self._in_flight += 1
            try:
                result = await work(max(until - began, 0.0))
            finally:
                self._in_flight -= 1
                self._turns.give_back(caller)
        except UpstreamFailure as failure:
            self._counters.failed(timed_out=isinstance(failure, Timeout))
            if isinstance(failure, Lost) and not failure.sent:
                self.lost(str(failure))
            raise
        except CancelledError:
            self._counters.failed(timed_out=False)
            raise Cancelled("the call was given up") from None
        self._counters.succeeded(self.seconds() - began)
        return result

    def lost(self, reason: str) -> None:
        """The upstream cannot be reached, or is not what it was."""
        if self._state is State.UP:
            self._fail(reason, up_for=self.seconds() - self._up_since)

    def look_again(self) -> None:
        """What the upstream says of itself may be accepted now: do not wait for the next attempt."""
        if self._state in (State.BACKOFF, State.FAILED):
            self.forget()
            self._machine.due()
        elif self._state is State.UP and self._attempt is None:
            self.forget()
            self._look()

    def say(self, text: str, level: LogLevel = LogLevel.info) -> None:
        """Log one line about the upstream, if its quota admits it."""
        if self._quota.admits():
            self._event(text, level)

    def snapshot(self) -> PeerSnapshot:
        """What an operator may see."""
        now = self.seconds()
        waiting = self._state in (State.BACKOFF, State.FAILED)
        return PeerSnapshot(
            name=self.settings.name,
            protocol=self._protocol,
            state=self._state.value,
            restarts=max(self._attempts - 1, 0),
            up_for=now - self._up_since if self._state is State.UP else None,
            next_attempt_in=max(self._next_attempt - now, 0.0) if waiting else None,
            reason=self._clean(self._reason),
            in_flight=self._in_flight,
            waiting=self._turns.waiting,
            calls=self._counters,
        )

    # What the machine causes: agtphost.upstream.supervision.Effects

    def entered(self, state: State) -> None:
        """Note the state."""
        self._state = state
        if state is State.UP:
            self._up_since = self.seconds()
            self._reason = ""

    def connect(self) -> None:
        """Begin an attempt."""
        self._attempts += 1
        self._look()

    def disconnect(self) -> None:
        """End what there is."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        self._turns.fail_all(self._down)

    def wait(self, delay: float) -> None:
        """Try again later."""
        self._next_attempt = self.seconds() + delay
        self.forget()
        self._timer = self._clock.callLater(delay, self._machine.due)

    def forget(self) -> None:
        """Do not try again."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    # Behind these

    def _look(self) -> None:
        attempt = Deferred.fromCoroutine(self._prepared())
        self._attempt = attempt
        attempt.addTimeout(self.settings.start_timeout, self._clock)
        attempt.addCallbacks(self._known, self._unknown)

    async def _prepared(self) -> None:
        await self._prepare()

    def _known(self, _: None) -> None:
        self._attempt = None
        if self._state is State.STARTING:
            self._machine.established()
            self._event("up", LogLevel.info)
        if self._state is State.UP:
            self._timer = self._clock.callLater(self.settings.refresh, self._look)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.callback(None)

    def _unknown(self, failure: Failure) -> None:
        self._attempt = None
        error = failure.value
        if isinstance(error, (TimeoutError, CancelledError)):
            reason = f"it did not say what it is within {self.settings.start_timeout:g} s"
        elif isinstance(error, UpstreamFailure):
            reason = str(error)
        else:
            reason = f"{type(error).__name__}: {error}"
        if self._state in (State.STARTING, State.UP):
            up_for = self.seconds() - self._up_since if self._state is State.UP else 0.0
            self._fail(reason, up_for=up_for)

    def _fail(self, reason: str, up_for: float) -> None:
        self._reason = reason
        self.forget()
        attempt, self._attempt = self._attempt, None
        delay, given_up = self._delays.after_failure(self.seconds(), up_for)
        self._event(f"{reason}; next attempt in {delay:.1f} s", LogLevel.warn)
        (self._machine.suspend if given_up else self._machine.retry)(delay)
        if attempt is not None:
            attempt.cancel()
        self._turns.fail_all(self._down)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.errback(self._down())

    async def _risen(self, seconds: float, caller: Caller) -> None:
        """Wait for the first preparation; an upstream that failed is not waited for."""
        self._machine.demand()
        state = self._state
        if state is State.UP:
            return
        if state is not State.STARTING or self._delays.failures:
            raise self._down()
        if not may_await_start(self._waiters.values(), caller, self.settings.max_queue):
            raise self._down()
        waiter: Deferred[None] = Deferred(self._waits_no_more)
        self._waiters[waiter] = caller
        waiter.addTimeout(max(seconds, 0.001), self._clock)
        try:
            await waiter
        except TimeoutError:
            raise Timeout("it did not say what it is in time") from None

    def _waits_no_more(self, waiter: Deferred[None]) -> None:
        self._waiters.pop(waiter, None)

    def _down(self) -> Down:
        wait = 1.0
        if self._state in (State.BACKOFF, State.FAILED):
            wait = max(self._next_attempt - self.seconds(), 1.0)
        return Down(self._state.value, ceil(wait), self._reason)

    async def _ended(self) -> None:
        await self._close()

    def _event(self, text: str, level: LogLevel) -> None:
        _log.emit(level, "upstream {upstream}: {text}", upstream=self.name, text=self._clean(text))

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return escaped(text)
