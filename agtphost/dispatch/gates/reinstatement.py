"""
Keep back the refusal of a suspended agent that asked for that, until it is reinstated.

A bridge has to announce to its clients that the agent may call again, and only its own requests get an answer. With
``Prefer: wait=60`` (RFC 7240 section 4.3) the refusal comes once the agent's state has changed, or after that time, and
names the preference in ``Preference-Applied``. It stays a refusal: what the agent may call then, all gates decide about
its next request. The wait is not part of the call's latency: the caller asked for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from zope.interface import implementer

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import CallerGate, StoppedAgent
from agtphost.dispatch.interfaces import ICacheableGate
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.handlers.rights_listeners import WaitEnd
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason

LONGEST_WAIT = 60
"""The longest time in seconds for which a refusal is kept back."""

MOST_WAITING = 16
"""Requests of one agent that wait; further ones are refused immediately."""

MOST_WAITING_IN_ALL = 512
"""Requests of all agents that wait, a twentieth of the connections that a host has by default; the rest as above."""

MANY_WAITING = MOST_WAITING_IN_ALL // 2
"""Requests of all agents from which on one of each agent waits: few agents leave room for those of others."""

_WAIT = re.compile(r"wait=([1-9][0-9]{0,17})", re.ASCII)


@implementer(ICacheableGate)
class PatientCallerGate(CallerGate):
    """
    The gate of callers on a host whose suspended agents can wait for their reinstatement.

    :param listening: ends the waits when the agent's state or the configuration changes, and when the host stops.
    """

    def __init__(self, *collaborators: Any, listening: ListeningRequests, **others: Any) -> None:
        super().__init__(*collaborators, **others)
        self._listening = listening
        self._waiting: Counter[str] = Counter()

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        """
        Return what to wait for where the caller is suspended and asked for that; else check as the base class does.

        :raises agtphost.errors.Refusal: as the base class does.
        """
        try:
            return super().check(exchange)
        except StoppedAgent as stopped:
            refusal = stopped
        seconds = self._seconds(exchange, refusal)
        if not seconds:
            raise refusal
        return _RefusalWait(lambda: self._hold(exchange, refusal, seconds))

    def _seconds(self, exchange: Exchange, refusal: StoppedAgent) -> int:
        """Return for how many seconds a refusal is kept back; 0: it is not."""
        caller, peer = exchange.caller, exchange.peer
        if caller is None or refusal.reason is not Reason.AGENT_SUSPENDED or exchange.assurance is Assurance.HEADER:
            return 0
        if peer.depth or peer.transport != "agtp" or self._waiting[caller.agent_id] >= MOST_WAITING:
            return 0
        total = self._waiting.total()
        if total >= MOST_WAITING_IN_ALL or (total >= MANY_WAITING and self._waiting[caller.agent_id]):
            return 0
        asked = _WAIT.fullmatch(exchange.request.headers.get("prefer") or "")
        return min(int(asked[1]), LONGEST_WAIT) if asked is not None else 0

    async def _hold(self, exchange: Exchange, refusal: StoppedAgent, seconds: int) -> None:
        """
        Wait, then refuse the request.

        :raises StoppedAgent: always.
        """
        agent_id, leaving = exchange.caller.agent_id, exchange.peer.leaving  # type: ignore[union-attr]
        news, clock = self._listening.rights.add(agent_id, exchange.assurance), self._listening.clock

        def leave() -> None:
            if not news.called:
                news.callback(WaitEnd.CALLER_LEFT)

        self._waiting[agent_id] += 1
        leaving.add(leave)
        began = clock.seconds()
        try:
            await self._listening.wait(seconds, news)
        finally:
            exchange.waited += clock.seconds() - began
            leaving.discard(leave)
            self._listening.rights.remove(agent_id, news)
            self._waiting[agent_id] -= 1
            if not self._waiting[agent_id]:
                del self._waiting[agent_id]
        refusal = self._refuse_retired(exchange) or refusal
        refusal.headers = (*refusal.headers, ("Preference-Applied", f"wait={seconds}"))
        raise refusal

    def _refuse_retired(self, exchange: Exchange) -> StoppedAgent | None:
        """Return the refusal of a caller that was revoked while it waited; None if it was not."""
        try:
            super().check(exchange)
        except StoppedAgent as stopped:
            return None if stopped.reason is Reason.AGENT_SUSPENDED else stopped
        return None


class _RefusalWait:
    """A refusal that is kept back once it is awaited; gates that only look at a caller do not await it."""

    def __init__(self, hold: Callable[[], Awaitable[None]]) -> None:
        self._hold = hold

    def __await__(self) -> Generator[Any, Any, None]:
        return self._hold().__await__()
