"""
The real writer on every store, with the same actions: all stores answer alike, and no rule is violated.

What is drawn here are the actions of :mod:`tests.models.shared_store` that one host takes: records, keyed calls, single
use, revocation, restarts, and transactions that end in the middle.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agtphost.audit.drafts import Change, Draft, Reservation, ReservationKey, ReservationState, Sealed
from agtphost.audit.writer import Claim, GroupWriter, Submission
from agtphost.stores import MemoryStore, Selection, open_store
from agtphost.stores.rows import ItemRow
from agtphost.stores.settings import locate_url
from tests import postgres
from tests.audit.drafting import ALICE, BOB, draft, group_writer, transition
from tests.programmes import length

pytestmark = postgres.needed

AGENTS = st.sampled_from([ALICE, BOB])
NAMES = st.sampled_from(["one", "two"])


def openers(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return for each kind of store what opens it again; the store of a test in memory is always the same."""
    memory, file = MemoryStore(), f"sqlite:{folder / 'records.sqlite3'}"
    open_store(file, create=True).close()
    server = postgres.server()
    place = locate_url(server.url(server.schema(folder)))
    place.create("agtp.test")
    return {
        "memory": lambda: memory,
        "sqlite": lambda: open_store(file, create=False),
        "postgres": lambda: place.open_store(create=False, holder="test"),
    }


class Stores(RuleBasedStateMachine):
    """One host, on each store."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="agtp-stores-"))
        self._openers = openers(self._folder)
        self._stores: dict[str, Any] = {}
        self._writers: dict[str, GroupWriter] = {}
        self._open()
        self._stopped: set[str] = set()
        self._used: set[str] = set()
        self._claimed: set[str] = set()
        self._running: set[str] = set()
        self._sealed = 0

    def _open(self) -> None:
        for name, opener in self._openers.items():
            self._stores[name] = opener()
            self._writers[name] = group_writer(self._stores[name], now=lambda: 1_000.0)

    def teardown(self) -> None:
        for store in self._stores.values():
            store.rollback()
            store.close()
        shutil.rmtree(self._folder)

    def _write(self, made: Draft) -> Any:
        """Write a draft to each store, and return the one outcome."""
        outcomes = []
        for writer in self._writers.values():
            entry = Submission(copy.deepcopy(made))
            writer.write([entry])
            outcome = entry.outcome
            outcomes.append(outcome if isinstance(outcome, Sealed) else (type(outcome), str(outcome)))
        assert all(outcome == outcomes[0] for outcome in outcomes), outcomes
        self._sealed += isinstance(outcomes[0], Sealed)
        return outcomes[0]

    @rule(agent=AGENTS)
    def submit(self, agent: str) -> None:
        """A call of a stopped agent is never recorded as performed."""
        made = draft(agent)
        made.standing = (agent,)
        assert isinstance(self._write(made), Sealed) == (agent not in self._stopped)

    @rule(agent=AGENTS)
    def revoke(self, agent: str) -> None:
        """A transition counts once: the second one decided on an earlier state."""
        outcome = self._write(transition(None, "suspended", agent_id=agent))
        assert isinstance(outcome, Sealed) == (agent not in self._stopped)
        self._sealed += isinstance(outcome, Sealed)  # The event has a record of its own.
        self._stopped.add(agent)

    @rule(name=NAMES)
    def use_token(self, name: str) -> None:
        """A token is used once."""
        made = draft()
        made.changes = (Change(kind="governance-token", key=name, value={}, expected=0),)
        assert isinstance(self._write(made), Sealed) == (name not in self._used)
        self._used.add(name)

    @rule(name=NAMES)
    def reserve(self, name: str) -> None:
        """A keyed call runs once, also over a restart."""
        states = set()
        for writer in self._writers.values():
            claim = Claim(ReservationKey(agent_id=BOB, key=name), b"digest")
            writer.write([claim])
            assert isinstance(claim.outcome, Reservation)
            states.add(claim.outcome.state)
        (state,) = states
        assert (state == ReservationState.NEW) == (name not in self._claimed)
        if state == ReservationState.NEW:
            self._claimed.add(name)
            self._running.add(name)

    @precondition(lambda self: self._running)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The answer joins its reservation."""
        name = data.draw(st.sampled_from(sorted(self._running)))
        made = draft()
        made.reservation, made.result = ReservationKey(agent_id=BOB, key=name), b"answer"
        assert isinstance(self._write(made), Sealed)
        self._running.discard(name)

    @rule()
    def restart(self) -> None:
        """What was committed is there again, and what ran is in doubt."""
        for store in self._stores.values():
            if not isinstance(store, MemoryStore):
                store.close()
        self._open()
        self._running.clear()

    @rule(agent=AGENTS)
    def crash_in_a_transaction(self, agent: str) -> None:
        """What was not committed is gone."""
        for store, writer in zip(self._stores.values(), self._writers.values(), strict=True):
            store.begin()
            store.chain_number("cc" * 32)
            store.put_reservations([])
            store.rollback()
            writer.recover(probe=False) if not isinstance(store, MemoryStore) else writer.load()

    @invariant()
    def every_chain_verifies(self) -> None:
        """All stores have the same records, as many as were acknowledged, without fork or gap."""
        found = []
        for store in self._stores.values():
            reader = store.reader()
            found.append([(each.chain, each.seq, each.audit_id) for each in reader.records(Selection())])
            if store is not self._stores["memory"]:
                reader.close()
        assert all(each == found[0] for each in found) and len(found[0]) == self._sealed

    @invariant()
    def lifecycle_states_agree(self) -> None:
        """Each store says the same of each agent."""
        states = [
            {agent: row.status for agent, row in store.lifecycle_states().items()} for store in self._stores.values()
        ]
        assert all(each == dict.fromkeys(self._stopped, "suspended") for each in states)


class Careless(MemoryStore):
    """Does not look what there is of a state item."""

    def held_rows(self, kind: str, keys: Sequence[str]) -> dict[str, ItemRow]:
        return {}


def test_control_a_store_that_answers_otherwise_is_noticed() -> None:
    """One of the three stores lets a token be used twice: the machine fails with the second use."""
    machine = Stores()
    machine.use_token("one")
    machine._stores["memory"].__class__ = Careless
    with pytest.raises(AssertionError):
        machine.use_token("one")
    machine.teardown()


@pytest.mark.programme
class TestStores(Stores.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=length(6, 40), stateful_step_count=length(15, 30))
