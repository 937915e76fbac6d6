"""Sessions of certified agents as state items, with the real ledger on a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.audit.drafts import StaleLifecycle, Stopped
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.dispatch import sessions
from agtphost.dispatch.sessions import SessionRegistry
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.quotas import SESSION
from tests.audit.drafting import ALICE, BOB, KEY, draft, sqlite_store, transition


class SessionHost:
    """Ledger, states and sessions of one start of a host."""

    def __init__(self, folder: Path) -> None:
        self.states, self.held = LifecycleTable(), StateTable()
        self.ledger = Ledger(
            sqlite_store(folder),
            KEY,
            reactor,  # type: ignore[arg-type]
            server_id="x",
            lifecycle=self.states,
            held=self.held,
        )
        self.sessions = SessionRegistry(lambda: 1.0, self.held)
        self.states.watch(self.sessions.note_state)
        self.ledger.when_stopped(self.sessions.endings)

    def write(self, session_id: str, agent_id: str = ALICE) -> Any:
        """Submit the record of a call that succeeded in a session."""
        session = self.sessions.note(session_id, agent_id, f"key of {agent_id}")
        assert session is not None
        made = draft(caller_id=agent_id)
        made.standing, made.changes = (agent_id,), self.sessions.changes(session)
        return self.ledger.submit(made)

    async def stop_agent(self, agent_id: str = ALICE, before: str | None = None) -> None:
        await self.ledger.submit(transition(before, "suspended", agent_id=agent_id))

    def items(self) -> dict[str, bool]:
        """Whether each stored session has ended."""
        return {item.key: "ended" in item.value for item in self.held.all(SESSION)}

    def ended(self, session_id: str, agent_id: str = ALICE) -> bool:
        return self.sessions.note(session_id, agent_id, f"key of {agent_id}") is None and self.sessions.has_ended(
            session_id, agent_id
        )


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[SessionHost]:
    host = SessionHost(folder)
    host.ledger.start()
    try:
        yield host
    finally:
        await host.ledger.stop()


@pytest_twisted.ensureDeferred
async def test_a_session_that_ended_with_its_agent_stays_ended_after_a_restart(tmp_path: Path) -> None:
    """Another agent's session goes on, and the reinstated agent begins another."""
    async with started(tmp_path) as host:
        await host.write("one")
        await host.write("other", BOB)
        await host.stop_agent()
        assert host.ended("one") and host.items() == {"one": True, "other": False}
    async with started(tmp_path) as host:
        await host.ledger.submit(transition("suspended", "active", "agent-lifecycle-reinstated"))
        assert host.ended("one")
        assert host.sessions.note("one", BOB, f"key of {BOB}") is None and not host.sessions.has_ended("one", BOB)
        await host.write("other", BOB)
        await host.write("two")
        assert host.items() == {"one": True, "other": False, "two": False}


@pytest_twisted.ensureDeferred
async def test_a_session_is_bound_to_its_owner_after_a_restart(tmp_path: Path) -> None:
    """Neither another agent nor the agent with another key takes it over."""
    async with started(tmp_path) as host:
        await host.write("one")
    async with started(tmp_path) as host:
        assert host.sessions.knows("one", ALICE) and list(host.sessions.list_sessions(None)) == []
        assert host.sessions.note("one", BOB, f"key of {BOB}") is None
        assert host.sessions.note("one", ALICE, "another key") is None
        assert host.sessions.note("one", ALICE, f"key of {ALICE}") is not None


@pytest_twisted.ensureDeferred
async def test_only_the_first_record_has_changes(tmp_path: Path) -> None:
    """A known session costs nothing further, before and after a restart."""
    for versions in (1, 1):
        async with started(tmp_path) as host:
            await host.write("one")
            await host.write("one")
            assert [item.version for item in host.held.all(SESSION)] == [versions]


@pytest_twisted.ensureDeferred
async def test_no_item_of_an_open_session_follows_the_stop(tmp_path: Path) -> None:
    """A first record right before the event counts, one right behind it is refused; both are under way with it."""
    async with started(tmp_path) as host:
        before, stop = host.write("before"), host.ledger.submit(transition(None, "suspended"))
        after = host.write("after")
        await before
        with pytest.raises(Stopped):
            await after
        await stop
        assert host.items() == {"before": True}
    async with started(tmp_path) as host:
        assert host.ended("before") and not host.sessions.knows("after", ALICE)


@pytest_twisted.ensureDeferred
async def test_a_stop_that_fails_ends_nothing(tmp_path: Path) -> None:
    """The items change in the transaction of the event, or not at all."""
    async with started(tmp_path) as host:
        await host.write("one")
        with pytest.raises(StaleLifecycle):
            await host.stop_agent(before="deprecated")
        assert host.items() == {"one": False} and not host.ended("one")


@pytest_twisted.ensureDeferred
async def test_a_change_of_the_same_item_gives_way_to_the_end(tmp_path: Path) -> None:
    """An agent that stops itself in a new session: the draft has the item once, as ended."""
    async with started(tmp_path) as host:
        session = host.sessions.note("one", ALICE, "k")
        assert session is not None
        made = transition(None, "suspended")
        made.changes = host.sessions.changes(session)
        await host.ledger.submit(made)
        assert host.items() == {"one": True}


@pytest_twisted.ensureDeferred
async def test_items_are_bounded_as_the_table_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eviction removes items with the next new session, and refuses no call; the one unused for longest goes."""
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 3)
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 5)
    async with started(tmp_path) as host:
        for name in "abc":
            await host.write(name)
        await host.write("a")
        for name in "def":
            await host.write(name)
        assert host.items().keys() == {"d", "e", "f"}
        for name in "xyz":
            await host.write(name, BOB)
        assert host.items().keys() == {"e", "f", *"xyz"}
        # Refused calls evict, too, and put nothing.
        for number in range(10):
            assert host.sessions.note(f"refused {number}", ALICE, "k") is not None
        await host.write("g")
        assert host.items().keys() == {"g", *"yz"}
        await host.write("e")
        assert "e" in host.items()
    async with started(tmp_path) as host:
        assert host.sessions.knows("g", ALICE) and host.sessions.knows("e", ALICE)


def test_sessions_below_certificate_assurance_have_no_items() -> None:
    """They cost a caller nothing but a name."""
    registry = SessionRegistry(lambda: 1.0)
    for assurance in (Assurance.HEADER, Assurance.GATEWAY):
        session = registry.note("one", ALICE, "", assurance)
        assert session is not None and not session.needs_item
    assert registry.endings(ALICE) == ()
