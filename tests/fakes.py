"""Stand-ins for collaborators that a test is not about; each is checked against its interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from agtphost.audit.catch_up import Door
from agtphost.audit.drafts import (
    Change,
    Draft,
    LedgerUnavailable,
    Reservation,
    ReservationKey,
    ReservationState,
    Sealed,
    StaleChange,
    Stopped,
)
from agtphost.audit.state import StateFull, StateTable
from agtphost.audit.watchers import Watcher, Watchers
from agtphost.audit.writer import Submission
from agtphost.iagtp import IAgentDirectory, IGate, ILedger
from agtphost.identity.agents import Agent
from agtphost.stores.rows import ItemRow, StateRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.quotas import ITEM_KINDS, ItemQuota
from agtphost.vocabulary.steps import run_to_end

NOW = "2026-11-21T00:00:00.000Z"


@implementer(ILedger)
class FakeLedger:
    """
    Seals in memory without signing; counts what it sealed.

    :param holdings: other bounds of durable state than the host's own, by kind.
    """

    def __init__(self, **holdings: ItemQuota) -> None:
        self.healthy = True
        self.low = False
        self.door = Door(lambda *_: None)
        self.drafts: list[Draft] = []
        self.undurable: list[Draft] = []
        self.reserved: dict[ReservationKey, tuple[bytes, bytes | None]] = {}
        self.failing = False
        self.now: Callable[[], float] = time.time
        self.held = StateTable(lambda: self.now(), {**ITEM_KINDS, **holdings})
        self.stopped: dict[str, StateRow] = {}
        """Agents that are stopped where records are written, whatever the gates saw."""

        self._watchers = Watchers()

    def look(self) -> None:
        """It has no disk."""

    def _change(self, changes: Sequence[Change], proven: bool = True, audit_id: str = "") -> None:
        admitted = self.held.admit(changes, proven=proven)
        self.held.settle(admitted)
        rows = []
        for change in admitted.changes:
            known = self.held.get(change.kind, change.key)
            version = 0 if known is None else known.version
            if change.expected not in (None, version):
                raise StaleChange(change.key)
            linked = {change.linked: audit_id} if change.linked else {}
            value = None if change.value is None else jsontext.encode({**change.value, **linked})
            owner = bytes.fromhex(change.owner)
            rows.append(ItemRow(change.kind, change.key, owner, version + 1, change.expires_at, value))
        self.held.apply(rows)

    def _sealed(self, text: str, body: bytes | None = None) -> Sealed:
        jws = f"e30.{sha256(text.encode()).hexdigest()}."
        return Sealed(jws=jws, audit_id=sha256(jws.encode()).hexdigest(), issued_at=NOW, body=body)

    def submit(self, draft: Draft) -> Deferred[Sealed]:
        if self.failing:
            return fail(LedgerUnavailable("the test says so"))
        for agent_id in draft.standing:
            if agent_id in self.stopped:
                return fail(Stopped(agent_id, self.stopped[agent_id]))
        try:
            self._change(draft.changes, draft.proven, self._sealed(f"record {len(self.drafts) + 1}").audit_id)
        except (StaleChange, StateFull) as error:
            return fail(error)
        self.drafts.append(draft)
        if draft.reservation is not None:
            digest, _ = self.reserved[draft.reservation]
            self.reserved[draft.reservation] = (digest, draft.result)
        body = None
        if draft.event is not None and draft.render is not None:
            body = draft.render(self._sealed(f"event {len(self.drafts)}"))
        submission = Submission(draft)
        submission.outcome = sealed = self._sealed(f"record {len(self.drafts)}", body)
        run_to_end(self._watchers.report_group([submission], self.now(), 0.0))
        return succeed(sealed)

    def submit_undurable(self, draft: Draft) -> Sealed:
        self.undurable.append(draft)
        sealed = self._sealed(f"undurable {len(self.undurable)}")
        self._watchers.undurable(draft, sealed, self.now())
        return sealed

    def when_stopped(self, ending: Callable[[str], Sequence[Change]]) -> None:
        """It writes no events."""

    def watch(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def cosign(self, size: int, line: str) -> None:
        """It has no checkpoints."""

    def reserve(self, key: ReservationKey, digest: bytes) -> Deferred[Reservation]:
        if key not in self.reserved:
            self.reserved[key] = (digest, None)
            return succeed(Reservation(state=ReservationState.NEW))
        known, result = self.reserved[key]
        if known != digest:
            return succeed(Reservation(state=ReservationState.MISMATCH))
        if result is None:
            return succeed(Reservation(state=ReservationState.RUNNING))
        return succeed(Reservation(state=ReservationState.DONE, result=result))


@implementer(IAgentDirectory)
class FakeDirectory:
    """Agents given as they are."""

    def __init__(self, *agents: Agent) -> None:
        self.replace(*agents)

    def replace(self, *agents: Agent) -> None:
        """Know these instead; the first of an identifier or a name counts."""
        self._agents = agents
        self._hosted = [agent for agent in agents if agent.hosted]
        self._ids = {agent.agent_id: agent for agent in reversed(agents)}
        self._names = {agent.name: agent for agent in reversed(self._hosted)}

    @property
    def only(self) -> Agent | None:
        return self._hosted[0] if len(self._hosted) == 1 else None

    def by_id(self, agent_id: str) -> Agent | None:
        return self._ids.get(agent_id)

    def by_name(self, name: str) -> Agent | None:
        return self._names.get(name)

    def list_hosted(self) -> Sequence[Agent]:
        return list(self._hosted)

    def list_known(self) -> Sequence[Agent]:
        return list(self._agents)


@implementer(IGate)
class Mine:
    """A gate that must not be reached."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, exchange: object) -> None:
        raise AssertionError(f"the gate {self.name} was reached")
