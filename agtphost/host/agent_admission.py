"""
Agents that a host takes up: those of its start, and those issued while it runs (core v08 section 6.5.6).

The first event in the chain of an issued agent says so: the genesis audit
entry, with the registrar's statement of what was checked. An agent that comes
while the host runs is not admitted before that entry is durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit import retention
from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable, LifecycleEvent, StaleLifecycle
from agtphost.audit.lifecycle import EventType, LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.standing import Known
from agtphost.iagtp import ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.vocabulary import times

UNREGISTERED = "unregistered"
"""``previous_status`` of the first event."""

log = Logger()


class AgentAdmission(Service):
    """
    Takes agents up.

    :param directory: what the host knows; grows.
    :param changed: called when the known agents have changed.
    :param now: seconds since the Unix epoch.
    """

    name = "agents"

    def __init__(
        self,
        directory: Known,
        states: LifecycleTable,
        held: StateTable,
        ledger: ILedger,
        changed: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._states = states
        self._held = held
        self._ledger = ledger
        self._changed = changed
        self._now = now
        self._recording: Deferred[None] | None = None

    def startService(self) -> None:
        """
        Record what was issued since the host last ran.

        :raises ConfigurationError: a label is that of an agent which ended less than 90 days ago.
        """
        problems = list(self.in_the_way())
        if problems:
            raise ConfigurationError(problems)
        known = self._directory.list_known()
        super().startService()  # type: ignore[no-untyped-call]
        self._begin(self._record_all(known))

    def in_the_way(self) -> Iterator[Problem]:
        """Labels that cannot be used again yet; see :class:`agtphost.host.rehearsal.IPrecondition`."""
        return (
            problem for agent in self._directory.list_known() if (problem := self._label_problem(agent)) is not None
        )

    def stopService(self) -> Deferred[None] | None:
        """What was begun is finished."""
        super().stopService()  # type: ignore[no-untyped-call]
        return self._recording

    def newcomers(self, found: AgentDirectory) -> list[Agent]:
        """Those that are not known yet."""
        return [agent for agent in found.list_known() if self._directory.by_id(agent.agent_id) is None]

    def objections(self, found: AgentDirectory) -> list[Problem]:
        """Why newcomers cannot be taken up."""
        return [problem for agent in self.newcomers(found) if (problem := self._label_problem(agent)) is not None]

    async def record(self, found: AgentDirectory) -> bool:
        """
        Record the issue of every newcomer; they are admitted after that.

        :return: whether all of it is on record.
        """
        newcomers = self.newcomers(found)
        done: list[bool] = []

        async def recording() -> None:
            done.extend([await self._recorded(agent) for agent in newcomers])

        await self._begin(recording())
        return all(done) and len(done) == len(newcomers)

    def admitted(self, newcomers: Sequence[Agent]) -> None:
        """They are: say so, and have the host look at who is known now."""
        for agent in newcomers:
            log.info(
                "{name} ({agent_id}) is admitted as {kind}",
                name=agent.name,
                agent_id=agent.agent_id,
                kind="a hosted agent" if agent.hosted else "a caller",
            )
        if newcomers:
            self._changed()

    def _begin(self, work: Any) -> Deferred[None]:
        """One after the other: two hang-ups in a row must not record one agent twice."""
        before = self._recording

        async def in_turn() -> None:
            if before is not None:
                await before
            await work

        self._recording = Deferred.fromCoroutine(in_turn())
        self._recording.addErrback(lambda failure: log.failure("agents could not be taken up", failure=failure))
        waiting: Deferred[None] = Deferred()
        self._recording.addCallback(lambda _: waiting.callback(None))
        return waiting

    async def _record_all(self, agents: Iterable[Agent]) -> None:
        for agent in agents:
            await self._recorded(agent)

    def _label_problem(self, agent: Agent) -> Problem | None:
        """Of an agent that was never recorded: what has a history had its label before."""
        if self._states.find_recorded(agent.agent_id) is not None or not agent.hosted:
            return None
        items = self._held.items_by(retention.RETAINED, "label", agent.name)
        kept = retention.reserved_by(agent.name, agent.agent_id, items, self._now())
        if kept is None:
            return None
        return Problem(
            message=f"label-reserved: {agent.name} was the label of an agent that ended on {kept['ended_at']}",
            file=agent.file,
            hint=f"issue it under another label, or wait until {times.stamp(retention.free_at(kept))}",
        )

    async def _recorded(self, agent: Agent) -> bool:
        """Whether the agent's chain says that it was issued, or nothing needs to."""
        if agent.issue is None or agent.document_status != LifecycleStatus.ACTIVE.value:
            return True
        if self._states.find_recorded(agent.agent_id) is not None:
            return True
        try:
            await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, event=_entry(agent, agent.issue)))
        except StaleLifecycle:
            # It got a state in this very moment, and with it an event.
            return True
        except LedgerUnavailable as error:
            log.error("the issue of {name} cannot be recorded: {why}", name=agent.name, why=str(error))
            return False
        return True


def _entry(agent: Agent, statement: Mapping[str, Any]) -> LifecycleEvent:
    """The genesis audit entry. Of the Genesis it has the hash alone: the event may be read by everyone."""
    genesis = agent.genesis
    return LifecycleEvent(
        agent_id=agent.agent_id,
        event_type=EventType.GENESIS_ISSUED.value,
        expected_status=None,
        new_status=LifecycleStatus.ACTIVE.value,
        fields={
            "previous_status": UNREGISTERED,
            "label": agent.name,
            "owner_id": agent.owner_id or "",
            "principal": agent.principal,
            "trust_tier": agent.posture.trust_tier,
            "verification_path": agent.posture.verification_path,
            "genesis_sha256": "" if genesis is None else sha256(genesis.octets).hexdigest(),
            "issuer_key": agent.issuer_fingerprint or "",
            "evidence": dict(statement),
        },
    )
