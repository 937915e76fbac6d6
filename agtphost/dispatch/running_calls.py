"""
List the calls whose handlers wait, and end those of an agent that is stopped (core v08 section 7.2.16).

Only a call whose handler really waits is entered here; all others have ended before their agent can be
stopped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.lifecycle import LifecycleState
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import States, StoppedAgent, refuse_stopped
from agtphost.dispatch.required_agents import required_agents
from agtphost.identity.peer import Withdrawable
from agtphost.vocabulary.steps import TURN

Stop = Callable[[], None]

log = Logger()


class Leaving(Protocol):
    """A registry that calls back when the rest of a call is not needed any more."""

    def add(self, stop: Stop, /) -> None:
        """Have ``stop`` called then."""

    def discard(self, stop: Stop, /) -> None:
        """Do not call ``stop`` any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCall:
    """A call that waits."""

    response_id: str
    """The Response-ID of its coming response, which log lines have already."""

    since: float
    """When it came in, in seconds since the Unix epoch."""

    caller_id: str
    """Agent-ID of the caller; empty where it names none that is known."""

    caller: str
    """Its label."""

    identity_assurance: str
    """How surely it is that agent, in the words of records."""

    agent_id: str
    """Agent-ID of the addressee; empty where it is the host."""

    method: str
    path: str
    """As it was asked for, below the addressee."""

    name: str
    """The tool, or the operation, that the binding is."""

    address: str
    """Where the caller's connection comes from."""

    task_id: str
    """Empty where it names none."""

    depth: int
    """0 for a call from outside, 1 for one that its handler made, and so on."""


class RunningCalls:
    """
    Lists the calls that wait, and ends those of agents that are suspended or revoked, whether they call or are called.

    :param states: the present state of an agent.
    :param clock: ends calls one turn of the reactor later, when all is settled that was committed together.
    """

    def __init__(self, states: States, clock: IReactorTime) -> None:
        self._states = states
        self._clock = clock
        self._waiting: dict[Stop, Exchange] = {}
        self._stopped: set[str] = set()
        """Agents that were stopped in this turn of the reactor."""

    def __len__(self) -> int:
        return len(self._waiting)

    def list(self) -> Sequence[RunningCall]:
        """Return the calls that wait now, the longest first."""
        return sorted(map(_to_running_call, self._waiting.values()), key=lambda call: call.since)

    def end(self, response_id: str) -> bool:
        """End one call that waits, as if its caller had left; return whether there is one with this Response-ID."""
        stops = [stop for stop, exchange in self._waiting.items() if exchange.call.response_id == response_id]
        for stop in stops:
            self._clock.callLater(0, stop)
        return bool(stops)

    def entry_for(self, exchange: Exchange, leaving: Leaving | None) -> Leaving:
        """Return the registry for a call that waits: this one, and ``leaving`` or the front that may withdraw it."""
        peer = exchange.peer
        if isinstance(peer.link, Withdrawable) and not peer.depth:
            leaving = peer.link
        return _Entry(self._waiting, exchange, leaving)

    def note_state(self, agent_id: str, state: LifecycleState) -> None:
        """Note an agent's new state, and end its calls if it is stopped."""
        if state.is_stopped and self._waiting:
            if not self._stopped:
                self._clock.callLater(0, self._end_calls)
            self._stopped.add(agent_id)

    def _end_calls(self) -> None:
        """End the waiting calls that need a stopped agent: those that it makes, and those that it serves."""
        stopped, self._stopped = self._stopped, set()
        stops: dict[str, deque[Stop]] = {}
        # Calls begin more often than agents are stopped: no table by agent, which each call would have to keep.
        for stop, exchange in self._waiting.items():
            for agent_id in stopped.intersection(required_agents(exchange)):
                stops.setdefault(agent_id, deque()).append(stop)
        for agent_id, found in stops.items():
            log.info("{count} running calls of {agent_id} are ended", count=len(found), agent_id=agent_id)
            self._end_remaining(agent_id, found)

    def _end_remaining(self, agent_id: str, stops: deque[Stop]) -> None:
        """End the calls that still wait; in one turn of the reactor only so many as it has time for."""
        began = time.thread_time()
        while stops:
            stop = stops.pop()
            if stop not in self._waiting:
                continue
            try:
                stop()
            except Exception:
                log.failure("a running call of {agent_id} could not be ended cleanly", agent_id=agent_id)
            if time.thread_time() - began > TURN / 2:
                self._clock.callLater(0, self._end_remaining, agent_id, stops)
                return

    def objection(self, exchange: Exchange) -> StoppedAgent | None:
        """Return why an exchange may not go on: its caller or its addressee was stopped since the gates checked."""
        needed = required_agents(exchange)
        try:
            for agent, who in ((exchange.caller, "caller"), (exchange.agent, "agent")):
                if agent is not None and agent.agent_id in needed:
                    refuse_stopped(self._states(agent), who, agent.agent_id)
        except StoppedAgent as refusal:
            return refusal
        return None


class _Entry:
    """The places where one call is registered."""

    __slots__ = ("_exchange", "_leaving", "_waiting")

    def __init__(self, waiting: dict[Stop, Exchange], exchange: Exchange, leaving: Leaving | None) -> None:
        self._waiting = waiting
        self._exchange = exchange
        self._leaving = leaving

    def add(self, stop: Stop, /) -> None:
        self._waiting[stop] = self._exchange
        if self._leaving is not None:
            self._leaving.add(stop)

    def discard(self, stop: Stop, /) -> None:
        self._waiting.pop(stop, None)
        if self._leaving is not None:
            self._leaving.discard(stop)


def _to_running_call(exchange: Exchange) -> RunningCall:
    caller, agent, binding = exchange.accountable, exchange.agent, exchange.binding
    return RunningCall(
        response_id=exchange.call.response_id,
        since=exchange.now,
        caller_id="" if caller is None else caller.agent_id,
        caller="" if caller is None else caller.display_name,
        identity_assurance=exchange.assurance.label,
        agent_id="" if agent is None else agent.agent_id,
        method=exchange.method,
        path=exchange.path,
        name="" if binding is None else binding.name,
        address=exchange.peer.address,
        task_id=exchange.task_id or "",
        depth=exchange.peer.depth,
    )
