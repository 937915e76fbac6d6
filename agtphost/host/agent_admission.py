"""
Admit agents: those of the start, and those issued while the host runs (core v08 section 6.5.6).

The chain of an issued agent begins with the genesis audit entry, which holds the registrar's statement of what was
checked. An agent issued while the host runs is admitted once that entry is durable.

The agent's public documents are a state item that is put with this entry. A host that has the store and not the files,
as one that takes over on another machine, admits the agent by the item. One that was revoked is known by its item, too,
so that its calls end with 410 at each host.
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
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, LifecycleEvent, StaleLifecycle
from agtphost.audit.lifecycle import EventType, LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateFull, StateTable
from agtphost.dispatch.scope_records import ScopeRecords
from agtphost.errors import ConfigurationError, Problem
from agtphost.iagtp import ILedger
from agtphost.identity.agent_files import to_item
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.live_directory import Known
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import AGENT, SCOPES

UNREGISTERED = "unregistered"
"""``previous_status`` of the first event."""

AT_ONCE = 100
"""Items of agents that are put in one transaction."""

log = Logger()


class AgentAdmission(Service):
    """
    A service that admits new agents and records their issue.

    :param directory: the agents that the host knows; new ones are added.
    :param changed: called when the known agents have changed.
    :param now: returns seconds since the Unix epoch.
    :param restore: returns the agent of a state item, or None where it is not admitted; None: no agent is.
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
        restore: Callable[[Mapping[str, Any]], Agent | None] | None = None,
    ) -> None:
        self._restore = restore
        self._scopes = ScopeRecords(held)
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
        problems = list(self.start_problems())
        if problems:
            raise ConfigurationError(problems)
        known = self._directory.list_known()
        self._admit_stored()
        self._held.follow(SCOPES, lambda agent_id, item: self._changed())
        super().startService()  # type: ignore[no-untyped-call]
        self._queue_recording(self._record_all(known))

    def start_problems(self) -> Iterator[Problem]:
        """
        Yield a problem for each label that cannot be used again yet; see
        :class:`agtphost.host.rehearsal.IPrecondition`.
        """
        return (
            problem for agent in self._directory.list_known() if (problem := self._label_problem(agent)) is not None
        )

    def stopService(self) -> Deferred[None] | None:
        """Stop, and wait for the recording that was begun."""
        super().stopService()  # type: ignore[no-untyped-call]
        return self._recording

    def _admit_stored(self) -> None:
        """Admit the agents of the store that have no files here."""
        if self._restore is None:
            return
        restored: list[Agent] = []
        for item in self._held.all(AGENT):
            state = self._states.find_recorded(item.key)
            if self._directory.by_id(item.key) is not None or state is None:
                continue
            agent = self._restore(item.value)
            if agent is None or agent.agent_id != item.key:
                continue
            retired = state.status is LifecycleStatus.RETIRED
            if agent.hosted and self._directory.by_name(agent.name) is not None:
                # The label of an agent that was revoked may have become another's.
                if not retired:
                    log.error("{name} ({agent_id}) is not admitted: another agent has its label", **_names_of(agent))
                continue
            if not retired:
                log.warn("{name} ({agent_id}) has no files here and is admitted by the store", **_names_of(agent))
            self._directory.admit([self._scopes.apply(agent)])
            restored.append(agent)
        if restored:
            self._changed()

    def find_newcomers(self, found: AgentDirectory) -> list[Agent]:
        """Return the agents that the host does not know yet."""
        return [agent for agent in found.list_known() if self._directory.by_id(agent.agent_id) is None]

    def objections(self, found: AgentDirectory) -> list[Problem]:
        """Return the problems that keep newcomers from being admitted."""
        return [problem for agent in self.find_newcomers(found) if (problem := self._label_problem(agent)) is not None]

    async def record(self, found: AgentDirectory) -> bool:
        """
        Record the issue of every newcomer, so that they can be admitted.

        :return: whether all of it is on record.
        """
        newcomers = self.find_newcomers(found)
        done: list[bool] = []

        async def recording() -> None:
            done.extend([await self._record_issue(agent) for agent in newcomers])

        await self._queue_recording(recording())
        return all(done) and len(done) == len(newcomers)

    def explain_recorded(self, found: AgentDirectory) -> list[Problem]:
        """Return a problem for each newcomer whose issue is on record: a later reload or a start admits it."""
        return [
            Problem(
                message=f"the issue of {agent.name} ({agent.agent_id}) is on record, although nothing else changed",
                file=agent.file,
                hint="the next reload or start admits the agent",
            )
            for agent in self.find_newcomers(found)
            if agent.issue is not None and self._states.find_recorded(agent.agent_id) is not None
        ]

    def note_admitted(self, newcomers: Sequence[Agent]) -> None:
        """Log that newcomers are admitted, and report that the known agents have changed."""
        for agent in newcomers:
            log.info(
                "{name} ({agent_id}) is admitted as {kind}",
                name=agent.name,
                agent_id=agent.agent_id,
                kind="a hosted agent" if agent.hosted else "a caller",
            )
        if newcomers:
            self._changed()

    def _queue_recording(self, work: Any) -> Deferred[None]:
        """
        Record after the recording before this one has ended: two reloads in a row must not record one agent twice.
        """
        before = self._recording

        async def in_turn() -> None:
            if before is not None:
                await before
            await work

        self._recording = Deferred.fromCoroutine(in_turn())
        self._recording.addErrback(lambda failure: log.failure("agents could not be admitted", failure=failure))
        waiting: Deferred[None] = Deferred()
        self._recording.addCallback(lambda _: waiting.callback(None))
        return waiting

    async def _record_all(self, agents: Iterable[Agent]) -> None:
        for agent in agents:
            await self._record_issue(agent)
        await self._store_documents(agents)

    async def _store_documents(self, agents: Iterable[Agent]) -> None:
        """Put the items of agents whose issue is on record and whose documents are not, or are others by now."""
        changes = [
            change
            for agent in agents
            if self._states.find_recorded(agent.agent_id) is not None
            for change in _document_changes(agent)
            if (item := self._held.get(AGENT, change.key)) is None or item.value != change.value
        ]
        for number in range(0, len(changes), AT_ONCE):
            part = tuple(changes[number : number + AT_ONCE])
            try:
                await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=part))
            except (LedgerUnavailable, StateFull) as error:
                log.error("documents of agents cannot be stored: {why}", why=str(error))
                return

    def _label_problem(self, agent: Agent) -> Problem | None:
        """Return the problem of a new agent whose label is still reserved for one that ended, or None."""
        if self._states.find_recorded(agent.agent_id) is not None or not agent.hosted:
            return None
        ended = [item.value for item in self._held.items_by(retention.RETAINED, "label", agent.name)]
        kept = retention.reserved_by(agent.name, agent.agent_id, ended, self._now())
        if kept is None:
            return None
        return Problem(
            message=f"label-reserved: {agent.name} was the label of an agent that ended on {kept['ended_at']}",
            file=agent.file,
            hint=f"issue it under another label, or wait until {times.stamp(retention.free_at(kept))}",
        )

    async def _record_issue(self, agent: Agent) -> bool:
        """Return whether the agent's chain says that it was issued, or need not say so."""
        if agent.issue is None or agent.document_status != LifecycleStatus.ACTIVE.value:
            return True
        if self._states.find_recorded(agent.agent_id) is not None:
            return True
        try:
            event = _genesis_event(agent, agent.issue)
            changes = _document_changes(agent)
            await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, event=event, changes=changes))
        except StaleLifecycle:
            # A concurrent request gave the agent its first state and, with it, an event.
            return True
        except (LedgerUnavailable, StateFull) as error:
            log.error("the issue of {name} cannot be recorded: {why}", name=agent.name, why=str(error))
            return False
        return True


def _names_of(agent: Agent) -> dict[str, str]:
    """Return the label and the Agent-ID of an agent, as fields of a log message."""
    return {"name": agent.name, "agent_id": agent.agent_id}


def _document_changes(agent: Agent) -> tuple[Change, ...]:
    """Return the change that stores the public documents of an issued agent; none for any other."""
    value = None if agent.issue is None else to_item(agent)
    return () if value is None else (Change(kind=AGENT, key=agent.agent_id, value=value),)


def _genesis_event(agent: Agent, statement: Mapping[str, Any]) -> LifecycleEvent:
    """Return the genesis audit entry. It has only the hash of the Genesis, because everyone may read the event."""
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
