"""
Large bodies take turns: reading and checking one takes milliseconds of the reactor, and holds many times its octets.

Sixteen connections that sent 240 kB of small objects each made others wait for three seconds. So one large body is
read at a time, of the caller that has waited longest without having been served, and between two of them the reactor
is left to others for :data:`REST` times as long. Of bindings that say so (``in_turn``), the next call of the same
caller is read when the one before is answered: what waits is octets, and not what they decode to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.turn_owner import key_of
from agtphost.errors import Refusal
from agtphost.identity.peer import INTERNAL
from agtphost.vocabulary.reasons import Reason

REST = 8.0
"""
Times as long as a body took, until the next one is read.

Writing the answers and freeing memory happens outside of the turn. Next to 16 connections with 15,000 small
objects in each body, the p99 of others was 60 and 80 ms with 3; with 8 it was 43 ms on an idle machine, and 85 to 129
where other programs kept both cores busy. Reading one such body is one turn of 8 to 20 ms in any case.
"""

MOST_OCTETS = 33_554_432
MOST_OCTETS_EACH = 16_777_216
"""Octets of bodies that wait, of all callers and of one."""

LONGEST = 30.0
"""Seconds that a body waits for its turn."""


class _Waiting:
    """A call whose body waits to be read."""

    __slots__ = ("alone", "key", "octets", "ready")

    def __init__(self, key: str, octets: int, *, alone: bool) -> None:
        self.key, self.octets, self.alone = key, octets, alone
        self.ready: Deferred[None] = Deferred()


def _nothing() -> None:
    """End a turn that there was no need for."""


class LargeBodies:
    """
    Says whose large body is read next.

    :param clock: the reactor's, for the rest between two, and for how long one waits.
    :param rest_always: whether a body that comes after the last one waiting was read rests too. A host in memory does
        without: only its test moves the clock.
    """

    def __init__(self, clock: IReactorTime, *, rest_always: bool) -> None:
        self._clock = clock
        self._rest_always = rest_always
        self._queues: dict[str, deque[_Waiting]] = {}
        self._octets: dict[str, int] = {}
        self._answering: set[str] = set()
        self._reading = self._resting = False
        self._rested_at = 0.0
        """When the next one may be read, by the clock."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    async def begin(self, exchange: Exchange) -> Callable[[], None]:
        """
        Wait until the body may be read.

        :return: to be called once it was read, or when something else is waited for; more than once does no harm.
        :raises Refusal: 503 where too much waits, or for too long.
        :raises CancelledError: the caller has left.
        """
        if exchange.peer.transport == INTERNAL:
            return _nothing  # The host wrote it itself, in the course of a call that may have its turn already.
        alone = exchange.binding is not None and exchange.binding.in_turn
        waiting = _Waiting(key_of(exchange), len(exchange.request.body), alone=alone)
        own = self._octets.get(waiting.key, 0)
        if own and (
            own + waiting.octets > MOST_OCTETS_EACH or sum(self._octets.values()) + waiting.octets > MOST_OCTETS
        ):
            raise _busy()
        self._octets[waiting.key] = own + waiting.octets
        self._queues.setdefault(waiting.key, deque()).append(waiting)
        self._next()
        if not waiting.ready.called:
            waiting.ready.addTimeout(LONGEST, self._clock)
            # A caller that has left takes no turn: once its call runs, this would not be noticed.
            leave, leaving = waiting.ready.cancel, exchange.peer.leaving
            leaving.add(leave)
            try:
                await waiting.ready
            except TimeoutError:
                self._leave(waiting)
                raise _busy() from None
            except CancelledError:
                self._leave(waiting)
                raise
            finally:
                leaving.discard(leave)
        if alone:
            exchange.when_over = self._release_after(waiting.key)
        return self._turn()

    def _turn(self) -> Callable[[], None]:
        began, over = time.thread_time(), False

        def end() -> None:
            nonlocal over
            if over:
                return
            over, self._reading = True, False
            # Also where nothing waits yet: a body that came a moment later made two long turns in a row.
            if self._queues or self._rest_always:
                self._rested_at = self._clock.seconds() + REST * (time.thread_time() - began)
            self._next()

        return end

    def _end_rest(self) -> None:
        self._resting = False
        self._next()

    def _must_rest(self) -> bool:
        """Return whether to let other calls have their turn before the next large body is read."""
        left = self._rested_at - self._clock.seconds()
        if left > 0 and not self._resting:
            self._resting = True
            self._clock.callLater(left, self._end_rest)
        return self._resting

    def _release_after(self, key: str) -> Callable[[], None]:
        def release() -> None:
            self._answering.discard(key)
            self._next()

        return release

    def _next(self) -> None:
        """Let one go on, if the turn is free."""
        while self._queues and not self._reading and not self._must_rest():
            key = next((key for key, own in self._queues.items() if not self._must_wait(own[0])), None)
            if key is None:
                return
            waiting = self._queues[key][0]
            self._leave(waiting)
            if key in self._queues:
                self._queues[key] = self._queues.pop(key)  # behind the others
            self._reading = True
            if waiting.alone:
                self._answering.add(key)
            waiting.ready.callback(None)

    def _must_wait(self, waiting: _Waiting) -> bool:
        return waiting.alone and waiting.key in self._answering

    def _leave(self, waiting: _Waiting) -> None:
        own = self._queues[waiting.key]
        own.remove(waiting)
        self._octets[waiting.key] -= waiting.octets
        if not own:
            del self._queues[waiting.key], self._octets[waiting.key]


def _busy() -> Refusal:
    return Refusal(
        Reason.HANDLERS_BUSY,
        "Too many large bodies, of this caller or of all callers, wait to be read.",
        remedy="Wait for the answers to earlier calls, then try again.",
        headers=(("Retry-After", "1"),),
    )
