"""
Taking turns at an upstream: a bounded number of calls at work, a bounded number waiting, and a share for each caller.

One rule for MCP servers, A2A agents and ACP servers. Nobody takes an upstream from everybody else:

- a caller has at most three quarters of the turns, so one is free for others even while each call of its own takes as
  long as it may (an upstream with a single turn has none to keep back);
- a turn that is given back goes to the waiting caller with the fewest calls at work, and among equals round and round;
- the waiting room is shared alike: where it is full, a caller who has less in it than another takes the place of that
  one's latest call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.handlers.deadlines import Deadlines
from agtphost.upstream.failures import Busy, Timeout

Caller = str | None
"""Whose share a call counts for; None: the host's own, which has no share to keep to."""


def may_await_start(waiting: Collection[Caller], caller: Caller, room: int) -> bool:
    """
    Whether one more call may wait for an upstream to start.

    :param waiting: the callers of those that wait.
    :param room: how many may wait in all; half of it is the most that one caller has.
    """
    if len(waiting) >= room:
        return False
    return caller is None or sum(each == caller for each in waiting) < max(1, room // 2)


class CallQueue:
    """
    Admits calls.

    :param clock: for the deadlines of those that wait.
    :param at_once: calls at work.
    :param waiting: calls that may wait besides.
    :param share: calls of one caller at work; None: three quarters of all.
    """

    def __init__(self, clock: IReactorTime, at_once: int, waiting: int, share: int | None = None) -> None:
        self._deadlines = Deadlines(clock)
        self._free = at_once
        self._room = waiting
        self._share = max(1, at_once - max(1, at_once // 4)) if share is None else share
        self._at_work: dict[Caller, int] = {}
        self._queues: dict[Caller, deque[Deferred[None]]] = {}
        self._waiting = 0
        self._admitting = False

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return self._waiting

    def take(self, caller: Caller = None) -> bool:
        """Take a turn if one is free for this caller."""
        # While a turn is free, whoever waits has all of their share: nobody is overtaken.
        if self._free > 0 and self._may(caller):
            self._begin(caller)
            return True
        return False

    def wait(self, timeout: float, caller: Caller = None) -> Deferred[None]:
        """
        Wait for a turn; it is taken when the Deferred fires.

        :raises Busy: at once, where too many wait; through the Deferred, where the place goes to somebody with
            fewer calls waiting.
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

        def over(result: object) -> object:
            self._deadlines.discard(late)
            return result

        turn.addBoth(over)
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
        """Send everyone who waits away, each with an error of its own."""
        queues, self._queues, self._waiting = self._queues, {}, 0
        for queue in queues.values():
            for turn in queue:
                if not turn.called:
                    turn.errback(failure())

    def _may(self, caller: Caller) -> bool:
        return caller is None or self._at_work.get(caller, 0) < self._share

    def _begin(self, caller: Caller) -> None:
        self._free -= 1
        self._at_work[caller] = self._at_work.get(caller, 0) + 1

    def _admit(self) -> None:
        """Let in who waits, as long as there is a turn for any of them."""
        if self._admitting:
            # A call that ended at once gives its turn back inside the loop below, which goes on with it.
            return
        self._admitting = True
        try:
            while self._free > 0:
                able = [caller for caller in self._queues if self._may(caller)]
                if not able:
                    return
                caller = min(able, key=lambda each: self._at_work.get(each, 0))
                # To the end of the round.
                queue = self._queues.pop(caller)
                turn = queue.popleft()
                if queue:
                    self._queues[caller] = queue
                self._waiting -= 1
                self._begin(caller)
                turn.callback(None)
        finally:
            self._admitting = False

    def _make_room(self, wanted: int) -> None:
        """
        Send away the latest call of whoever has most of them waiting.

        :param wanted: calls that the newcomer would have waiting.
        :raises Busy: nobody has more than that.
        """
        most = max(self._queues, key=lambda each: len(self._queues[each]), default=None)
        if most not in self._queues or len(self._queues[most]) <= wanted:
            raise Busy("too many calls wait")
        turn = self._queues[most][-1]
        self._leave(most, turn)
        turn.errback(Busy("too many calls wait, most of them this caller's"))

    def _expel(self, caller: Caller, turn: Deferred[None]) -> None:
        self._leave(caller, turn)
        turn.errback(Timeout("the deadline passed before the call's turn came"))

    def _leave(self, caller: Caller, turn: Deferred[None]) -> None:
        queue = self._queues.get(caller)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self._waiting -= 1
            if not queue:
                del self._queues[caller]


class AwaitingStart:
    """
    Calls that wait for an upstream to start.

    :param clock: for their deadlines.
    :param room: how many may wait in all.
    """

    def __init__(self, clock: IReactorTime, room: int) -> None:
        self._clock = clock
        self._room = room
        self._waiters: dict[Deferred[None], Caller] = {}

    def admits(self, caller: Caller) -> bool:
        """Whether one more call may wait."""
        return may_await_start(self._waiters.values(), caller, self._room)

    def wait(self, seconds: float, caller: Caller) -> Deferred[None]:
        """
        Wait.

        :raises TimeoutError: through the Deferred, where it did not start in time.
        """
        waiter: Deferred[None] = Deferred(self._gives_up)
        self._waiters[waiter] = caller
        return waiter.addTimeout(seconds, self._clock)

    def _gives_up(self, waiter: Deferred[None]) -> None:
        self._waiters.pop(waiter, None)

    def up(self) -> None:
        """It started."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.callback(None)

    def failed(self, failure: Callable[[], Exception]) -> None:
        """It did not: each call fails, with an error of its own."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.errback(failure())
