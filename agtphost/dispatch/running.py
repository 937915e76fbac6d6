"""
Calls that wait for something, by agent: those of a stopped agent end with it (core v08 section 7.2.16).

Only a call whose handler really waits is entered here; all others are over
before anybody could stop their agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.lifecycle import LifecycleState
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import States, StoppedAgent, refuse_stopped
from agtphost.dispatch.standing import standing
from agtphost.identity.peer import Withdrawable

Stop = Callable[[], None]

log = Logger()


class Leaving(Protocol):
    """Where to hear that nobody needs the rest of a call."""

    def add(self, stop: Stop, /) -> None:
        """Have it called then."""

    def discard(self, stop: Stop, /) -> None:
        """No longer."""


class RunningCalls:
    """
    Ends the calls of agents that are suspended or revoked, whether they call or are called.

    :param states: the present state of an agent.
    :param clock: ends calls one turn of the reactor later, when all is settled that was committed together.
    """

    def __init__(self, states: States, clock: IReactorTime) -> None:
        self._states = states
        self._clock = clock
        self._stops: dict[str, set[Stop]] = {}

    def __len__(self) -> int:
        return len({stop for stops in self._stops.values() for stop in stops})

    def of(self, exchange: Exchange, leaving: Leaving | None) -> Leaving:
        """Where a call that waits is to be entered: here, and at ``leaving``, or at the front that may withdraw it."""
        peer = exchange.peer
        if isinstance(peer.link, Withdrawable) and not peer.depth:
            leaving = peer.link
        return _Entry(self._stops, standing(exchange), leaving)

    def changed(self, agent_id: str, state: LifecycleState) -> None:
        """An agent's state is another one now."""
        if state.stopped and agent_id in self._stops:
            self._clock.callLater(0, self._end, agent_id)

    def _end(self, agent_id: str) -> None:
        stops = tuple(self._stops.get(agent_id, ()))
        for stop in stops:
            try:
                stop()
            except Exception:
                log.failure("a running call of {agent_id} could not be ended cleanly", agent_id=agent_id)
        log.info("{count} running calls of {agent_id} were ended", count=len(stops), agent_id=agent_id)

    def objection(self, exchange: Exchange) -> StoppedAgent | None:
        """Why an exchange may not go on: its caller or its addressee was stopped since the gates looked."""
        needed = standing(exchange)
        try:
            for agent, who in ((exchange.caller, "caller"), (exchange.agent, "agent")):
                if agent is not None and agent.agent_id in needed:
                    refuse_stopped(self._states(agent), who, agent.agent_id)
        except StoppedAgent as refusal:
            return refusal
        return None


class _Entry:
    """One call's places."""

    __slots__ = ("_agents", "_leaving", "_stops")

    def __init__(self, stops: dict[str, set[Stop]], agents: tuple[str, ...], leaving: Leaving | None) -> None:
        self._stops = stops
        self._agents = agents
        self._leaving = leaving

    def add(self, stop: Stop, /) -> None:
        for agent_id in self._agents:
            self._stops.setdefault(agent_id, set()).add(stop)
        if self._leaving is not None:
            self._leaving.add(stop)

    def discard(self, stop: Stop, /) -> None:
        for agent_id in self._agents:
            stops = self._stops.get(agent_id)
            if stops is not None:
                stops.discard(stop)
                if not stops:
                    del self._stops[agent_id]
        if self._leaving is not None:
            self._leaving.discard(stop)
