"""Agents that a host takes up, with a real ledger in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.audit import retention
from agtphost.audit.drafts import HOST_CHAIN, Draft
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.agent_admission import AgentAdmission, _genesis_event
from agtphost.host.reload_candidate import merge_agents
from agtphost.identity.agent_files import agent_of_item
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.trust import TrustedIssuers
from agtphost.stores import Selection
from agtphost.vocabulary.quotas import AGENT
from tests.audit.drafting import sqlite_store, transition
from tests.identity.issued import SIGNING, STRANGER, agent

T0 = 1_800_000_000.0
DAY = 86_400


def issue_agent(name: str, *, hosted: bool = True, status: str = "active") -> Agent:
    """An agent with its registrar's statement."""
    return replace(agent(name, hosted=hosted, status=status), issue={"label": name})


DESK = issue_agent("desk")


class AdmittingHost:
    """A host's directory, states, state items and ledger."""

    def __init__(self, folder: Path, *agents: Agent) -> None:
        self.now = T0
        self.store: Any = sqlite_store(folder)
        self.directory = AgentDirectory(agents)
        self.states = LifecycleTable()
        self.held = StateTable(lambda: self.now)
        self.ledger = Ledger(
            self.store,
            SIGNING,
            reactor,
            server_id="x",
            lifecycle=self.states,
            held=self.held,
            now=lambda: self.now,  # type: ignore[arg-type]
        )
        self.changes = 0
        known = (self.directory, self.states, self.held, self.ledger)
        self.admission = AgentAdmission(*known, self.changed, now=lambda: self.now)

    def changed(self) -> None:
        self.changes += 1

    async def end(self, who: Agent) -> None:
        """As REVOKE does."""
        changes = retention.retention_changes(who, LifecycleStatus.RETIRED, {}, self.now)
        await self.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=changes))

    async def admit(self, *agents: Agent) -> None:
        """As a reload does."""
        found = AgentDirectory(agents)
        newcomers = self.admission.find_newcomers(found)
        if not self.admission.objections(found) and await self.admission.record(found):
            self.directory.admit(newcomers)
            self.admission.note_admitted(newcomers)

    async def done(self) -> None:
        assert self.admission._recording is not None
        await self.admission._recording

    def entries(self, who: Agent) -> int:
        found = self.store.reader().records(Selection())
        return sum(1 for one in found if one.chain == who.agent_id and one.kind == "event")


@asynccontextmanager
async def running(folder: Path, *agents: Agent) -> AsyncIterator[AdmittingHost]:
    made = AdmittingHost(folder, *agents)
    made.ledger.start()
    try:
        yield made
    finally:
        await made.ledger.stop()


@pytest_twisted.ensureDeferred
async def test_what_was_issued_before_the_start_is_recorded_once(tmp_path: Path) -> None:
    """AGTP-170: of issued agents that are active; a suspended one is recorded by its ACTIVATE, as ever."""
    asleep, plain = issue_agent("asleep", status="suspended"), agent("plain", hosted=True)
    async with running(tmp_path, DESK, asleep, plain) as host:
        host.admission.startService()
        await host.done()
        assert [host.entries(who) for who in (DESK, asleep, plain)] == [1, 0, 0]
        state = host.states.find_recorded(DESK.agent_id)
        assert state is not None and state.status is LifecycleStatus.ACTIVE
        await host.admit(DESK)
        host.admission.startService()
        await host.done()
        assert host.entries(DESK) == 1 and host.changes == 0


@pytest_twisted.ensureDeferred
async def test_new_agents_are_admitted_once(tmp_path: Path) -> None:
    """AGTP-170: twice in a row is once; those that are known stay the objects they are."""
    known = agent("known", hosted=True)
    async with running(tmp_path, known) as host:
        assert host.directory.only is known
        caller = issue_agent("caller", hosted=False)
        await host.admit(DESK, caller, replace(known, description="another"))
        await host.admit(DESK, caller)
        assert host.entries(DESK) == host.entries(caller) == host.changes == 1
        assert host.directory.by_id(known.agent_id) is known and host.directory.by_id(caller.agent_id) is caller
        assert host.directory.by_name("desk") is DESK and host.directory.by_name("caller") is None
        assert [who.name for who in host.directory.list_hosted()] == ["desk", "known"] and host.directory.only is None


@pytest.mark.parametrize(("days", "free"), [(1, False), (89, False), (91, True)])
@pytest_twisted.ensureDeferred
async def test_a_label_that_is_kept(tmp_path: Path, days: int, free: bool) -> None:
    """AGTP-171: on day 1 nobody else gets it; after 90 days an agent with another Agent-ID does."""
    heir = issue_agent("desk")
    heir = replace(heir, agent_id="f" * 64)
    async with running(tmp_path) as host:
        await host.end(DESK)
        host.now += days * DAY
        await host.admit(heir)
        assert (host.directory.by_id(heir.agent_id) is heir) is free
        assert host.entries(heir) == int(free)
    folder = tmp_path / "start"
    folder.mkdir()
    async with running(folder, heir) as host:
        await host.end(DESK)
        host.now += days * DAY
        if free:
            host.admission.startService()
            await host.done()
            return
        with pytest.raises(ConfigurationError) as caught:
            host.admission.startService()
        assert "label-reserved" in str(caught.value.problems[0])


def test_a_label_that_is_in_use() -> None:
    """AGTP-170: another agent under the label of a running one is not admitted, and the problem names its file."""
    other, problems = replace(DESK, agent_id="e" * 64, file="other.json"), list[Problem]()
    directory = merge_agents(AgentDirectory([DESK]), [other], problems)
    assert [(problem.file, DESK.agent_id in problem.message) for problem in problems] == [("other.json", True)]
    assert directory.by_id(DESK.agent_id) is None, "the candidate is refused, whatever its directory is"
    assert merge_agents(AgentDirectory([DESK]), [], problems).by_name("desk") is DESK, (
        "a file that is gone ends no agent"
    )
    assert len(problems) == 1


@pytest_twisted.ensureDeferred
async def test_nobody_is_admitted_without_the_entry(tmp_path: Path) -> None:
    """AGTP-170: while the store is down the agent stays outside; the next hang-up takes it up."""
    async with running(tmp_path) as host:
        host.ledger.healthy = False
        await host.admit(DESK)
        assert host.directory.by_id(DESK.agent_id) is None and host.changes == 0
        host.ledger.healthy = True
        await host.admit(DESK)
        assert host.directory.by_id(DESK.agent_id) is DESK and host.entries(DESK) == 1


@pytest_twisted.ensureDeferred
async def test_a_refused_reload_names_the_agents_whose_issue_is_on_record(tmp_path: Path) -> None:
    """Where the change itself cannot be recorded, the issue of its agents can be; without the entry none is named."""
    found = AgentDirectory([DESK])
    async with running(tmp_path) as host:
        assert host.admission.explain_recorded(found) == []
        assert await host.admission.record(found)
        (problem,) = host.admission.explain_recorded(found)
        assert DESK.agent_id in problem.message and "on record" in problem.message
        await host.admit(DESK)
        assert host.entries(DESK) == 1 and host.admission.explain_recorded(found) == []


def restore_agent(value: Mapping[str, Any]) -> Agent | None:
    """As a host of the development profile, which trusts everybody, judges an item."""
    agent, problems = agent_of_item(value, production=False, trusted_issuers=TrustedIssuers())
    assert problems == []
    return agent


@pytest_twisted.ensureDeferred
async def test_an_agent_is_admitted_by_the_store_where_its_files_are_not(tmp_path: Path) -> None:
    """AGTP-170: its documents are put with the entry; a start without the files has the agent as it was."""
    caller = issue_agent("caller", hosted=False)
    async with running(tmp_path) as host:
        await host.admit(DESK, caller)
        assert {item.key for item in host.held.all(AGENT)} == {DESK.agent_id, caller.agent_id}
        assert [item.version for item in host.held.all(AGENT)] == [1, 1]
    async with running(tmp_path) as host:
        host.admission._restore = restore_agent
        host.admission.startService()
        await host.done()
        for before in (DESK, caller):
            after = host.directory.by_id(before.agent_id)
            assert after is not None and (after.name, after.hosted) == (before.name, before.hosted)
            assert after.document_octets == before.document_octets
            assert after.genesis is not None and before.genesis is not None
            assert after.genesis.octets == before.genesis.octets
            assert host.entries(before) == 1
        assert host.directory.by_name("desk") is not None and host.changes == 1


@pytest_twisted.ensureDeferred
async def test_a_revoked_agent_is_known_by_the_store(tmp_path: Path) -> None:
    """Its calls end with 410 where its files are not, too, unless another agent has its label."""
    async with running(tmp_path) as host:
        await host.admit(DESK)
        await host.ledger.submit(transition("active", "retired", "agent-genesis-revoked", DESK.agent_id))
    async with running(tmp_path) as host:
        host.admission._restore = restore_agent
        host.admission.startService()
        assert host.directory.by_id(DESK.agent_id) is not None
    async with running(tmp_path, replace(DESK, agent_id="f" * 64)) as host:
        host.admission._restore = restore_agent
        host.admission.startService()
        assert host.directory.by_id(DESK.agent_id) is None


@pytest_twisted.ensureDeferred
async def test_the_store_admits_no_agent_that_files_would_not(tmp_path: Path) -> None:
    """Neither one whose label another agent has by now, nor one that the trusted issuers did not issue."""
    folder = tmp_path / "label"
    folder.mkdir()
    async with running(folder) as host:
        await host.admit(DESK)
    async with running(folder, replace(DESK, agent_id="f" * 64)) as host:
        host.admission._restore = restore_agent
        host.admission.startService()
        assert host.directory.by_id(DESK.agent_id) is None
    async with running(folder) as host:
        host.admission._restore = lambda value: agent_of_item(
            value, production=True, trusted_issuers=TrustedIssuers(everywhere=frozenset({STRANGER.public}))
        )[0]
        host.admission.startService()
        assert host.directory.by_id(DESK.agent_id) is None


@pytest_twisted.ensureDeferred
async def test_agents_from_before_get_items_at_a_start(tmp_path: Path) -> None:
    """Once, and again where the files have other documents by then."""
    plain = agent("plain", hosted=True)
    async with running(tmp_path, DESK, plain) as host:
        event = _genesis_event(DESK, DESK.issue or {})
        await host.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, event=event))
    for version in (1, 1):
        async with running(tmp_path, DESK, plain) as host:
            host.admission.startService()
            await host.done()
            assert [(item.key, item.version) for item in host.held.all(AGENT)] == [(DESK.agent_id, version)]
