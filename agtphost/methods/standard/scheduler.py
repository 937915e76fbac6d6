"""What happens at a time that is durable: whenever the host runs, it happens then, or as soon as it runs again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit.drafts import LedgerUnavailable, StaleChange
from agtphost.audit.state import StateItem
from agtphost.methods.standard.services import MethodServices
from agtphost.methods.standard.timer_queue import TimerQueue

RETRY_SECONDS = 2.0
LONGEST_WAIT = 3_600.0
"""Seconds after which the time is looked at anew: clocks are set."""

log = Logger()


class Due:
    """
    Acts on the items of one kind when their time has come.

    Nothing happens twice: who acts commits it with the item in the version that it saw.

    :param when: seconds since the epoch; None where nothing is to happen to an item.
    :param act: what happens then.
    """

    def __init__(
        self,
        parts: MethodServices,
        kind: str,
        when: Callable[[StateItem], float | None],
        act: Callable[[StateItem], Awaitable[None]],
    ) -> None:
        self._held, self._clock, self._now = parts.held, parts.reactor, parts.now
        self._kind, self._when, self._act = kind, when, act
        self._agenda = TimerQueue(parts.reactor, self._handle_due)
        self._held.leasing.note_entry(self._agenda.stop)
        self._agenda.enqueue(self._held.follow(kind, self._reschedule))

    def _reschedule(self, key: str, item: StateItem | None) -> None:
        self._agenda.drop(key)
        at = None if item is None else self._when(item)
        if at is not None:
            self._wait(key, at - self._now())

    def _wait(self, key: str, seconds: float) -> None:
        self._agenda.at(key, min(seconds, LONGEST_WAIT))

    def _handle_due(self, key: str) -> None:
        item = self._held.get(self._kind, key)
        at = None if item is None else self._when(item)
        if item is None or at is None:
            return
        if at > self._now():
            self._wait(key, at - self._now())
            return
        acting = Deferred.fromCoroutine(self._run_due(key, item))
        acting.addErrback(lambda failure: log.failure("what was due did not happen: {key}", failure=failure, key=key))

    async def _run_due(self, key: str, item: StateItem) -> None:
        try:
            await self._act(item)
        except (LedgerUnavailable, StaleChange) as error:
            log.warn("{key} has reached its time, but has to wait: {why}", key=key, why=str(error))
            self._wait(key, RETRY_SECONDS)
