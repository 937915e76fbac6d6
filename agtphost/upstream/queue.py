"""
Give turns to calls of an upstream: a bounded number of running calls, a bounded queue, and a share for each caller.

The rule is the same for MCP servers, A2A agents and ACP servers, and prevents that one caller blocks all others:

- a caller has at most three quarters of the turns, so one is free for others even while each of its calls takes the
  full time (an upstream with a single turn has none to keep back);
- a turn that is given back goes to the waiting caller with the fewest running calls, and among equals in rotation;
- the queue is shared: when it is full, a new call replaces the latest one of the caller with most waiting calls, if
  that caller has more than the new call's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.handlers.deadlines import Deadlines
from agtphost.upstream.failures import UpstreamBusy, UpstreamTimeout

Caller = str | None
"""Whose share a call counts for; None: the host's own call, which has no limit."""


def may_await_start(waiting: Collection[Caller], caller: Caller, room: int) -> bool:
    """
    Return whether one more call may wait for an upstream to start.

    :param waiting: the callers of those that wait.
    :param room: how many may wait in all; half of it is the most that one caller has.
    """
    if len(waiting) >= room:
        return False
    return caller is None or sum(each == caller for each in waiting) < max(1, room // 2)


class CallQueue:
    """
    The queue of calls for one upstream.

    :param clock: times the deadlines of waiting calls.
    :param at_once: calls that may run at a time.
    :param waiting: calls that may wait besides.
    :param share: running calls of one caller; None: three quarters of all.
    """

    def __init__(self, clock: IReactorTime, at_once: int, waiting: int, share: int | None = None) -> None:
        self._deadlines = Deadlines(clock, lasting=True)
        self._free = at_once
        self._room = waiting
        self._share = max(1, at_once - max(1, at_once // 4)) if share is None else share
        self._at_work: dict[Caller, int] = {}
        self._queues: dict[Caller, deque[Deferred[None]]] = {}
        self._waiting = 0
        self._admitting = False

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return self._waiting

    def take(self, caller: Caller = None) -> bool:
        """Take a turn if one is free for this caller."""
        # While a turn is free, every waiting caller has its full share, so that this call overtakes none.
        running = self._at_work.get(caller, 0)
        if self._free > 0 and (running < self._share or caller is None):
            self._free -= 1
            self._at_work[caller] = running + 1
            return True
        return False

    def wait(self, timeout: float, caller: Caller = None) -> Deferred[None]:
        """
        Wait for a turn; it is taken when the Deferred fires.

        :raises UpstreamBusy: immediately, where too many wait; through the Deferred, where the place goes to a caller
            with fewer waiting calls.
        """
        queue = self._queues.get(caller)
        if self._waiting >= self._room:
            self._make_room(1 if queue is None else len(queue) + 1)
            queue = self._queues.get(caller)
        if queue is None:
            queue = self._queues[caller] = deque()
        turn: Deferred[None] = Deferred(lambda turn: self._leave(caller, turn))
        queue.append(turn)
        self._waiting += 1
        late = partial(self._expel, caller, turn)
        self._deadlines.add(timeout, late)

        def discard(result: object) -> object:
            self._deadlines.discard(late)
            return result

        turn.addBoth(discard)
        return turn

    def give_back(self, caller: Caller = None) -> None:
        """End a turn; the next in line takes it."""
        left = self._at_work[caller] - 1
        if left:
            self._at_work[caller] = left
        else:
            del self._at_work[caller]
        self._free += 1
        if self._queues:
            self._admit()

    def fail_all(self, failure: Callable[[], Exception]) -> None:
        """Fail every waiting call, each with a separate error."""
        queues, self._queues, self._waiting = self._queues, {}, 0
        for queue in queues.values():
            for turn in queue:
                if not turn.called:
                    turn.errback(failure())

    def _admit(self) -> None:
        """Start waiting calls while there is a turn for any of them."""
        if self._admitting:
            # A call that ended synchronously gives its turn back inside the loop below, which continues with it.
            return
        self._admitting = True
        try:
            while self._free > 0:
                able = [
                    caller for caller in self._queues if caller is None or self._at_work.get(caller, 0) < self._share
                ]
                if not able:
                    return
                caller = min(able, key=lambda each: self._at_work.get(each, 0))
                # Move the caller to the end of the rotation.
                queue = self._queues.pop(caller)
                turn = queue.popleft()
                if queue:
                    self._queues[caller] = queue
                self._waiting -= 1
                self.take(caller)
                turn.callback(None)
        finally:
            self._admitting = False

    def _make_room(self, wanted: int) -> None:
        """
        Fail the latest call of the caller with most waiting calls.

        :param wanted: waiting calls that the new call's caller would have.
        :raises UpstreamBusy: no other caller has more.
        """
        most = max(self._queues, key=lambda each: len(self._queues[each]), default=None)
        if most not in self._queues or len(self._queues[most]) <= wanted:
            raise UpstreamBusy("too many calls wait")
        turn = self._queues[most][-1]
        self._leave(most, turn)
        turn.errback(UpstreamBusy("too many calls wait, most of them this caller's"))

    def _expel(self, caller: Caller, turn: Deferred[None]) -> None:
        self._leave(caller, turn)
        turn.errback(UpstreamTimeout("the deadline passed before the call's turn came"))

    def _leave(self, caller: Caller, turn: Deferred[None]) -> None:
        queue = self._queues.get(caller)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self._waiting -= 1
            if not queue:
                del self._queues[caller]


class StartWaiters:
    """
    The calls that wait for an upstream to start.

    :param clock: times their deadlines.
    :param room: how many may wait in all.
    """

    def __init__(self, clock: IReactorTime, room: int) -> None:
        self._clock = clock
        self._room = room
        self._waiters: dict[Deferred[None], Caller] = {}

    def admits(self, caller: Caller) -> bool:
        """Return whether one more call may wait."""
        return may_await_start(self._waiters.values(), caller, self._room)

    def wait(self, seconds: float, caller: Caller) -> Deferred[None]:
        """
        Wait for the upstream to start.

        :raises TimeoutError: through the Deferred, where it did not start in time.
        """
        waiter: Deferred[None] = Deferred(self._remove)
        self._waiters[waiter] = caller
        return waiter.addTimeout(seconds, self._clock)

    def _remove(self, waiter: Deferred[None]) -> None:
        self._waiters.pop(waiter, None)

    def resume_all(self) -> None:
        """Resume every waiting call, since the upstream started."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.callback(None)

    def fail_all(self, failure: Callable[[], Exception]) -> None:
        """Fail every waiting call, each with a separate error, since the upstream did not start."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.errback(failure())
