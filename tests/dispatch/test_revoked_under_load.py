"""
Thousands of agents are revoked while they call and are called; nothing that succeeds follows any of these events.

Real dispatcher, gates, ledger with its thread, and SQLite. The gates know of a
revocation only once it is on disk, so calls of the moments before pass them
all, and some have run to their end. What counts is the order of the records
(``number``) and their signed times, over all chains.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from agtphost.audit.drafts import HOST_CHAIN, Draft, LifecycleEvent
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.transaction import Group
from agtphost.handlers.context import EndpointContext
from agtphost.identity.agents import Agent
from agtphost.identity.jws import parse_unverified
from agtphost.identity.peer import Peer
from agtphost.wire.events import Response
from tests.audit.drafting import KEY, sqlite_store
from tests.dispatch.hosts import DispatchHost, agent, certificate
from tests.programmes import length

REVOCATIONS = length(400, 10_000)
SEED = 20_261_122
AT_ONCE = 100
"""Agents whose calls and revocation are under way together."""

CALLS = 4
"""Of each agent: some before its revocation, some in the same turn, some behind it."""

IN_A_THREAD = 16
"""One call in so many works in a thread, and so is running when its agent is revoked."""


class Load(DispatchHost):
    """A host with a real ledger, whose states follow it as they do in a host."""

    def __init__(self, folder: Path, agents: list[Agent]) -> None:
        self.table = LifecycleTable()
        self.random = random.Random(SEED)
        ledger = Ledger(
            sqlite_store(folder),
            KEY,
            reactor,
            server_id="agtp.test",
            lifecycle=self.table,  # type: ignore[arg-type]
        )
        # As often as this, no caller may ask in a minute.
        limits = {"requests_per_minute": 1_000_000, "requests_per_minute_per_principal": 1_000_000}
        super().__init__(self._answered, {"limits": limits}, ledger=ledger, states=self.table, others=agents)
        self.clock = reactor  # type: ignore[assignment]
        self.answers: list[Response] = []
        self.known = Peer(address="127.0.0.1", certificate=certificate())

    def _answered(self, context: EndpointContext) -> Any:
        if self.random.randrange(IN_A_THREAD):
            return {"done": True}
        return deferToThread(dict, done=True)

    def call(self, number: int, who: Agent, peer: Peer) -> Deferred[Response]:
        """A call by the agent, or one to it, keyed or not."""
        if number % 2:
            return self.start("QUERY", f"/agents/{who.name}/words", peer=self.known)
        keyed = {"Idempotency-Key": os.urandom(16).hex()}
        return self.start("RESERVE", "/desk", {"text": "x"}, peer=peer, headers=keyed if number % 4 else None)

    def revoke(self, who: Agent) -> Deferred[Any]:
        event = LifecycleEvent(
            agent_id=who.agent_id,
            event_type="agent-genesis-revoked",
            expected_status=None,
            new_status="retired",
            fields={"reason": "compromise-detected"},
        )
        return self.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, event=event))

    async def life(self, who: Agent) -> None:
        """Calls, a revocation somewhere among them, and turns of the reactor in between."""
        peer = Peer(address="127.0.0.1", certificate=certificate(who.agent_id))
        revocation = self.random.randrange(CALLS)
        under_way: list[Deferred[Any]] = []
        for number in range(CALLS):
            if number == revocation:
                under_way.append(self.revoke(who))
            under_way.append(self.call(number, who, peer).addCallback(self.answers.append))
            if not self.random.randrange(3):
                await deferLater(reactor, 0)  # type: ignore[arg-type]
        await gatherResults(under_way)


@dataclass
class Found:
    """What the records say."""

    revoked: int = 0
    successes: int = 0
    late: int = 0
    """Calls that ended after the revocation of one of their agents, whatever they ended in."""

    performed: int = 0
    """Those of them whose handler had run."""

    violations: int = 0
    """Those of them that say that they succeeded."""


def read(database: Path) -> Found:
    """Judge every record by the revocations before it."""
    found = Found()
    connection = sqlite3.connect(database)
    rows = connection.execute(
        "SELECT r.number, r.issued_at, r.kind, r.status, r.caller, c.agent_id, r.signed "
        "FROM record r JOIN chain c ON c.number = r.chain ORDER BY r.number"
    ).fetchall()
    connection.close()
    revoked = {chain: (number, issued) for number, issued, kind, _, _, chain, _ in rows if kind == 1}
    found.revoked = len(revoked)
    for number, issued, kind, status, caller, chain, signed in rows:
        if kind == 1:
            continue
        found.successes += status < 300
        for concerned in (caller, chain):
            event = revoked.get(concerned)
            if event is None or (number < event[0] and issued <= event[1]):
                continue
            found.late += 1
            found.violations += status < 400
            said = parse_unverified(signed.decode("ascii")).get("extra", {})
            found.performed += bool(said.get("performed"))
    return found


async def run(folder: Path, revocations: int) -> Found:
    agents = [
        agent(f"{number:064x}", f"agent-{number}", hosted=True, scopes=frozenset({"booking:*", "documents:query"}))
        for number in range(1, revocations + 1)
    ]
    load = Load(folder, agents)
    load.ledger.start()
    try:
        waiting = iter(agents)

        async def lane() -> None:
            for who in waiting:
                await load.life(who)

        await gatherResults([Deferred.fromCoroutine(lane()) for _ in range(AT_ONCE)])
    finally:
        await load.ledger.stop()
    told = {answer.status for answer in load.answers}
    assert told <= {200, 410}, told
    for answer in load.answers:
        body = json.loads(answer.body)
        assert answer.status == 200 or body["reason"] == "agent-retired", body
    return read(folder / "records.sqlite3")


@contextmanager
def cores(count: int) -> Iterator[None]:
    """This thread, and those that it starts, on so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [1, 2])
@pytest_twisted.ensureDeferred
async def test_no_success_follows_a_revocation(count: int, tmp_path: Path) -> None:
    """All of them, by the order of records and by their signed times; on one core, and on two."""
    with cores(count):
        found = await run(tmp_path, REVOCATIONS)
    print(f"{count} cores, seed {SEED}: {found}")
    assert found.revoked == REVOCATIONS and found.successes > REVOCATIONS // 2
    # The moment was hit: calls were through the gates, and some through their handlers, when it came.
    assert found.late > REVOCATIONS and found.performed > REVOCATIONS // 10
    assert found.violations == 0


@pytest.mark.release
@pytest_twisted.ensureDeferred
async def test_the_control_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that believes the gates lets successes through after the event, and the test above sees them."""
    monkeypatch.setattr(Group, "_require", _believing)
    found = await run(tmp_path, 300)
    print(found)
    assert found.revoked == 300 and found.violations > 30


def _believing(self: Any, standing: Any) -> None:
    """What the writer did before: nothing."""
