"""A store with something in every table: calls, refusals, keyed calls, lifecycle changes, state items, checkpoints."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LifecycleEvent, ReservationKey
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import WitnessFile
from agtphost.audit.writer import Claim, Entry, GroupWriter, Submission
from agtphost.identity.keys import SigningKey
from agtphost.stores import open_store
from agtphost.vocabulary.quotas import ANSWERS, APPROVAL, COLLECTION_ITEM, GRANT
from tests.audit.drafting import ALICE, BOB, draft, transition

CAROL = "ca" * 32
ONCE = "0c" * 32
"""An agent with one record."""

LONGEST = 400
"""Octets of an answer that is kept whole."""


class RichStore:
    """
    Writes a store, group by group.

    :param path: of the database, which is made.
    :param witness: where the witness file is written.
    """

    def __init__(self, path: Path, witness: Path, key: SigningKey, server_id: str) -> None:
        self.store = open_store(f"sqlite:{path}", create=True)
        self._tree = TreeKeeper(self.store, server_id, key, [WitnessFile(witness, [key.public])])
        states = StateKeeper(self.store, lambda: [key.public])
        self._writers = [
            GroupWriter(
                self.store,
                RecordSigner(key, envelope),
                server_id=server_id,
                tree=self._tree,
                states=states,
                answers=replace(ANSWERS, longest=LONGEST),
            )
            for envelope in ("jws", "cose")
        ]
        self._server_id = server_id
        self._writer = self._writers[0]
        self.sign_events_as("jws")
        self._tree.check_witnesses()

    def sign_events_as(self, envelope: str) -> None:
        """Go on with the writer whose lifecycle events have that envelope."""
        self._writer = self._writers[0 if envelope == "jws" else 1]
        self._writer.load()

    def write(self, *entries: Draft | Claim) -> None:
        """Write one group; each of its drafts has to be sealed."""
        made: list[Entry] = [each if isinstance(each, Claim) else Submission(each) for each in entries]
        for entry in made:
            if isinstance(entry, Submission):
                entry.draft.payload.update(server_id=self._server_id)
        self._writer.write(made)
        assert not [entry.outcome for entry in made if isinstance(entry.outcome, Exception)]

    def answer(self, agent: str, name: str, octets: int) -> None:
        """Claim a key and answer it."""
        key = ReservationKey(agent_id=agent, key=name)
        self.write(Claim(key, sha256(name.encode()).digest()))
        made = draft(ALICE, caller_id=agent, method="EXECUTE", path="/transfers")
        made.reservation, made.result = key, b"200 application/json\n" + b"x" * octets
        self.write(made)

    def checkpoint(self) -> None:
        """Issue a checkpoint."""
        assert self._tree.catch_up() is not None

    def close(self) -> None:
        """Fold everything into one file."""
        path = self.store.path
        self.store.close()
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("PRAGMA journal_mode=DELETE")


def _calls(number: int) -> list[Draft]:
    """A group of calls: an answer, a read, a refusal, and one that no agent was asked for."""
    refused = {"status": 403, "reason": "scope-missing", "agent_id": "", "caller_id": CAROL}
    return [
        draft(ALICE, path=f"/orders/{number}", caller_id=CAROL if number % 3 else BOB),
        draft(BOB, method="FETCH", path="/übung", caller_id=ALICE, task_id=f"task-{number}"),
        draft(HOST_CHAIN, **refused),
        draft(HOST_CHAIN, agent_id="", status=404, method="", path="/", caller_id=""),
    ]


def _state(number: int) -> Draft:
    """A call that changes state items."""
    until = int(time.time() * 1000) + 86_400_000
    changes = (
        Change(kind=APPROVAL, key=f"approval-{number}", value={"status": "open", "call": number}, owner=ALICE),
        Change(kind=GRANT, key=f"grant-{number}", value={"agent": BOB, "scopes": ["orders:read"]}),
        Change(kind=COLLECTION_ITEM, key=f"item-{number}", value={"n": number}, owner=BOB, expires_at=until),
    )
    return replace(draft(BOB, method="CREATE", path="/items"), changes=changes)


def write_rich_store(
    path: Path, witness: Path, key: SigningKey, server_id: str = "agtp.test", *, groups: int = 90
) -> None:
    """
    Make a store with rows in every table.

    :param groups: of four records each, beside some fifty others; 65 are enough for two tiles.
    """
    rich = RichStore(path, witness, key, server_id)
    rich.write(draft(ONCE))
    for number in range(groups):
        rich.write(*_calls(number))
        if number % 9 == 4:
            rich.write(_state(number))
            rich.answer((ALICE, BOB)[number % 2], f"key-{number}", 40 + number)
        if number % 11 == 0 and number:
            rich.checkpoint()
    rich.answer(CAROL, "long", LONGEST * 2)
    for agent in (ALICE, CAROL):
        rich.write(Claim(ReservationKey(agent_id=agent, key="unanswered"), sha256(agent.encode()).digest()))
    rich.write(transition(None, "suspended"))
    rich.sign_events_as("cose")
    issued = LifecycleEvent(
        agent_id=BOB,
        event_type="agent-lifecycle-deprecated",
        expected_status=None,
        new_status="deprecated",
        fields={"previous_status": "active", "reason": "successor", "successor_agent_id": CAROL},
    )
    rich.write(replace(draft(HOST_CHAIN, agent_id="", method="DEPRECATE"), event=issued))
    rich.write(transition("suspended", "active", "agent-lifecycle-reinstated"))
    rich.sign_events_as("jws")
    rich.write(transition(None, "retired", "agent-lifecycle-revoked", CAROL))
    rich.checkpoint()
    rich.close()
