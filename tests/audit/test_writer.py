"""One group, one transaction: linking, timing, events, keyed requests, and failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.audit.drafts import (
    HOST_CHAIN,
    Draft,
    LedgerUnavailable,
    Reservation,
    ReservationKey,
    ReservationState,
    Sealed,
    StaleLifecycle,
    Stopped,
)
from agtphost.audit.verify import verify_records
from agtphost.audit.writer import Claim, Entry, GroupWriter, Submission
from agtphost.identity.jws import parse_unverified, verify
from agtphost.stores import MemoryStore, Selection, SQLiteStore
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from tests.audit.drafting import (
    ALICE,
    BOB,
    KEYS,
    draft,
    group_writer,
    payload,
    sealed,
    sqlite_store,
    transition,
)
from tests.rows import each_row


def test_records_of_a_group_are_linked_per_chain() -> None:
    """Each chain starts at 64 zeros and goes on from group to group (AGTP-303)."""
    writer = group_writer(MemoryStore())
    first = sealed(writer, draft(ALICE), draft(BOB), draft(ALICE), draft(HOST_CHAIN))
    second = sealed(writer, draft(ALICE))
    previous = [parse_unverified(each.jws)["previous_audit_id"] for each in first + second]
    assert previous == [ZERO_AUDIT_ID, ZERO_AUDIT_ID, first[0].audit_id, ZERO_AUDIT_ID, first[2].audit_id]


def test_a_new_writer_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    """Heads are loaded from the store at start; so is what other processes wrote since."""
    store = sqlite_store(tmp_path)
    (one,) = sealed(group_writer(store), draft())
    store.close()
    other = sqlite_store(tmp_path)
    here, there = group_writer(sqlite_store(tmp_path)), group_writer(other)
    (two,) = sealed(here, draft())
    (three,) = sealed(there, draft())
    (four,) = sealed(here, draft())
    found = list(other.reader().records(Selection()))
    assert [record.audit_id for record in found] == [each.audit_id for each in (one, two, three, four)]
    assert verify_records(found, KEYS).ok


def test_time_never_goes_back() -> None:
    """The clock may step back; signed times do not, in whichever chain: what comes later is not dated before (T-TM)."""
    times = iter([2000.0, 1000.0, 1000.5, 3000.25])
    writer = group_writer(MemoryStore(), now=lambda: next(times))
    issued = [sealed(writer, draft(chain))[0].issued_at for chain in (ALICE, ALICE, BOB, ALICE)]
    assert issued == [
        "1970-01-01T00:33:20.000Z",
        "1970-01-01T00:33:20.000Z",
        "1970-01-01T00:33:20.000Z",
        "1970-01-01T00:50:00.250Z",
    ]


def test_an_event_is_signed_chained_and_named_in_the_answer() -> None:
    """Companion section 6.2: flat payload, the agent's own chain, and the record hashes the rendered body."""
    store = MemoryStore()
    writer = group_writer(store)
    (record,) = sealed(writer, draft())
    (outcome,) = sealed(writer, transition(None, "suspended"))
    assert outcome.event is not None
    event = verify(outcome.event.jws, KEYS)
    assert event["previous_audit_id"] == record.audit_id
    assert {name: event[name] for name in ("event_type", "previous_status", "new_status", "reason")} == {
        "event_type": "agent-lifecycle-suspended",
        "previous_status": "active",
        "new_status": "suspended",
        "reason": "Prüfung",
    }
    assert event["agent_id"] == ALICE and event["server_id"] == "agtp.test" and event["status"] == 200
    from hashlib import sha256

    assert outcome.body == outcome.event.audit_id.encode()
    assert verify(outcome.jws, KEYS)["result_hash"] == sha256(outcome.body).hexdigest()
    state = store.lifecycle_states()[ALICE]
    assert (state.status, state.since, state.reason) == ("suspended", outcome.event.issued_at, "Prüfung")
    assert verify_records(store.records(Selection()), KEYS).ok


def test_event_and_record_in_one_chain() -> None:
    """Where the record belongs to the same agent, it follows the event."""
    store = MemoryStore()
    change = transition(None, "suspended")
    change.chain, change.payload = ALICE, payload(ALICE)
    (outcome,) = sealed(group_writer(store), change)
    assert outcome.event is not None
    assert parse_unverified(outcome.jws)["previous_audit_id"] == outcome.event.audit_id
    assert verify_records(store.records(Selection()), KEYS).ok


def test_a_stale_transition_fails_alone(tmp_path: Path) -> None:
    """Two transitions decided on one state: the first wins, the second and nobody else is told (T-LC)."""
    store = sqlite_store(tmp_path)
    writer = group_writer(store)
    entries: list[Entry] = [
        Submission(draft()),
        Submission(transition(None, "suspended")),
        Submission(transition(None, "retired", "agent-genesis-revoked")),
        Submission(transition("suspended", "active", "agent-lifecycle-reinstated")),
        Submission(draft()),
    ]
    writer.write(entries)
    kinds = [type(entry.outcome) for entry in entries]
    assert kinds == [Sealed, Sealed, StaleLifecycle, Sealed, Sealed]
    assert store.lifecycle_states()[ALICE].status == "active"
    found = list(store.reader().records(Selection()))
    assert verify_records(found, KEYS).ok and len(found) == 6


def unrenderable(event: Sealed) -> bytes:
    raise KeyError("no such member")


@each_row(
    "poison",
    [
        Draft(chain=ALICE, payload=payload(path="\ud800")),
        Draft(chain=ALICE, payload=payload(extra={"x": object()})),
        Draft(chain=ALICE, payload=payload(status="many")),
        Draft(chain=ALICE, payload=payload(caller_id="nobody")),
        Draft(chain="no agent", payload=payload()),
        Draft(chain=ALICE, payload=payload(), event=transition(None, "suspended").event, render=unrenderable),
    ],
)
def test_a_draft_that_cannot_be_written_fails_alone(poison: Draft) -> None:
    """Its neighbours are stored, the chain has no gap, and its keyed request is in doubt."""
    store = MemoryStore()
    writer = group_writer(store)
    poison.reservation = ReservationKey(agent_id=BOB, key="k")
    claims: list[Entry] = [Claim(poison.reservation, b"d")]
    writer.write(claims)
    entries: list[Entry] = [Submission(draft()), Submission(poison), Submission(draft())]
    writer.write(entries)
    assert [type(entry.outcome) for entry in entries] == [Sealed, LedgerUnavailable, Sealed]
    found = list(store.records(Selection()))
    assert len(found) == 2 and verify_records(found, KEYS).ok and store.lifecycle_states() == {}
    assert claim(writer, "k", b"d").state is ReservationState.IN_DOUBT


# Keyed requests


def claim(writer: GroupWriter, key: str, digest: bytes) -> Reservation:
    entry = Claim(ReservationKey(agent_id=BOB, key=key), digest)
    writer.write([entry])
    assert isinstance(entry.outcome, Reservation)
    return entry.outcome


def answer(writer: GroupWriter, key: str, result: bytes) -> None:
    done = draft()
    done.reservation, done.result = ReservationKey(agent_id=BOB, key=key), result
    sealed(writer, done)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_keyed_request_runs_once(kind: str, tmp_path: Path) -> None:
    """NEW, RUNNING while it runs, DONE with its result, MISMATCH for another request (T-IK)."""
    store: MemoryStore | SQLiteStore = MemoryStore() if kind == "memory" else sqlite_store(tmp_path)
    writer = group_writer(store)
    assert claim(writer, "k", b"one").state is ReservationState.NEW
    assert claim(writer, "k", b"one").state is ReservationState.RUNNING
    assert claim(writer, "k", b"two").state is ReservationState.MISMATCH
    answer(writer, "k", b"200 result")
    assert claim(writer, "k", b"one") == Reservation(state=ReservationState.DONE, result=b"200 result")
    assert claim(writer, "k", b"two").state is ReservationState.MISMATCH
    assert claim(writer, "other", b"one").state is ReservationState.NEW


def test_two_claims_in_one_group() -> None:
    """Of equal keys in one group exactly one is new."""
    writer = group_writer(MemoryStore())
    key = ReservationKey(agent_id=BOB, key="k")
    claims = [Claim(key, b"d") for _ in range(3)]
    writer.write(claims)
    states = [each.outcome.state for each in claims if isinstance(each.outcome, Reservation)]
    assert states == [ReservationState.NEW, ReservationState.RUNNING, ReservationState.RUNNING]


def test_agents_do_not_share_keys() -> None:
    """One agent's key says nothing about another's (T-IK-1)."""
    writer = group_writer(MemoryStore())
    claims = [Claim(ReservationKey(agent_id=agent, key="k"), b"d") for agent in (ALICE, BOB)]
    writer.write(claims)
    assert all(entry.outcome == Reservation(state=ReservationState.NEW) for entry in claims)


def test_what_a_dead_process_was_running_is_in_doubt(tmp_path: Path) -> None:
    """After a restart an unanswered key is never run again (security invariant 5)."""
    store = sqlite_store(tmp_path)
    claim(group_writer(store), "k", b"d")
    store.close()
    writer = group_writer(sqlite_store(tmp_path))
    assert claim(writer, "k", b"d").state is ReservationState.IN_DOUBT
    assert claim(writer, "k", b"d").state is ReservationState.IN_DOUBT


def test_keys_expire_and_running_ones_do_not(tmp_path: Path) -> None:
    """A key is remembered for 24 hours unless configured otherwise, and as long as its request runs."""
    now = [1_000_000.0]
    store = sqlite_store(tmp_path)
    writer = group_writer(store, now=lambda: now[0])
    claim(writer, "done", b"d")
    claim(writer, "running", b"d")
    answer(writer, "done", b"r")
    now[0] += 86_399
    assert claim(writer, "done", b"d").state is ReservationState.DONE
    now[0] += 2
    assert claim(writer, "running", b"d").state is ReservationState.RUNNING
    writer.tidy()
    assert store._connection.execute("SELECT count(*) FROM reservation").fetchone() == (1,)
    assert claim(writer, "done", b"e").state is ReservationState.NEW


def test_the_key_itself_is_not_stored(tmp_path: Path) -> None:
    """Idempotency-Key values are nobody's business: only a hash is kept (companion section 5.2)."""
    store = sqlite_store(tmp_path)
    claim(group_writer(store), "secret-key-canary", b"d")
    store.close()
    assert b"secret-key-canary" not in (tmp_path / "records.sqlite3").read_bytes()


# Failure


class Flaky(MemoryStore):
    """A memory store whose steps fail on demand, before or after they took effect."""

    def __init__(self) -> None:
        super().__init__()
        self.fail = ""

    def append(self, records: object) -> None:
        super().append(records)  # type: ignore[arg-type]
        if self.fail == "append":
            raise OSError("no space")

    def commit(self) -> None:
        if self.fail == "before commit":
            raise OSError("no answer")
        super().commit()
        if self.fail == "after commit":
            raise OSError("no answer")


@pytest.mark.parametrize("point", ["append", "before commit"])
def test_a_failed_group_leaves_nothing(point: str) -> None:
    """Nothing of it is stored, the heads stay where they were, and the chain goes on."""
    store = Flaky()
    writer = group_writer(store)
    (one,) = sealed(writer, draft())
    store.fail = point
    with pytest.raises(OSError, match="no"):
        writer.write([Submission(draft()), Submission(transition(None, "retired"))])
    store.fail = ""
    writer.recover()
    (two,) = sealed(writer, draft())
    assert parse_unverified(two.jws)["previous_audit_id"] == one.audit_id
    assert len(list(store.records(Selection()))) == 2 and store.lifecycle_states() == {}


def test_a_commit_whose_answer_was_lost_is_looked_up() -> None:
    """COMMIT failed as far as anybody heard, but the store holds the records: they count (T-ST)."""
    store = Flaky()
    writer = group_writer(store)
    store.fail = "after commit"
    (one,) = sealed(writer, draft())
    store.fail = ""
    (two,) = sealed(writer, draft())
    assert parse_unverified(two.jws)["previous_audit_id"] == one.audit_id
    assert verify_records(store.records(Selection()), KEYS).ok


# Who is stopped


def _needing(*standing: str, chain: str = ALICE) -> Draft:
    needing = draft(chain)
    needing.standing = standing
    return needing


def _outcomes(writer: GroupWriter, *drafts: Draft) -> list[object]:
    entries: list[Entry] = [Submission(each) for each in drafts]
    writer.write(entries)
    return [type(entry.outcome) for entry in entries]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_nothing_is_sealed_for_who_is_stopped(kind: str, tmp_path: Path) -> None:
    """By an entry of the same group, an earlier group, and an earlier process; each alone (design decision 19)."""
    store = MemoryStore() if kind == "memory" else sqlite_store(tmp_path)
    writer = group_writer(store)
    before, after, other = _needing(BOB, ALICE), _needing(BOB, ALICE), _needing(BOB, chain=BOB)
    stopping = transition(None, "suspended")
    assert _outcomes(writer, before, stopping, after, other) == [Sealed, Sealed, Stopped, Sealed]
    assert _outcomes(writer, _needing(ALICE), _needing(BOB)) == [Stopped, Sealed]
    writer = group_writer(store)
    assert _outcomes(writer, _needing(ALICE), draft()) == [Stopped, Sealed]
    # A reinstatement lets them in again, within a group as well; what only needs BOB never noticed.
    back = transition("suspended", "active", "agent-lifecycle-reinstated")
    assert _outcomes(writer, back, _needing(ALICE)) == [Sealed, Sealed]
    assert _outcomes(writer, _needing(ALICE)) == [Sealed]
    seqs = [record.seq for record in store.reader().records(Selection(chain=ALICE))]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_record_of_the_stopping_itself_is_sealed() -> None:
    """An agent that may deactivate itself answers for that; a second try finds it stopped."""
    writer = group_writer(MemoryStore())
    itself, again = transition(None, "retired"), transition("retired", "retired")
    itself.standing = again.standing = (ALICE,)
    assert _outcomes(writer, itself, again) == [Sealed, Stopped]


def test_a_stop_that_was_not_committed_stops_nobody() -> None:
    """A transition that fails alone, and one whose group fails, leave their agent in service."""
    store = MemoryStore()
    writer = group_writer(store)
    assert _outcomes(writer, transition("suspended", "retired"), _needing(ALICE)) == [StaleLifecycle, Sealed]

    class Full(OSError):
        pass

    def full(records: object) -> None:
        raise Full

    store.append, append = full, store.append  # type: ignore[method-assign,assignment]
    with pytest.raises(Full):
        writer.write([Submission(transition(None, "retired"))])
    store.append = append  # type: ignore[method-assign]
    assert _outcomes(writer, _needing(ALICE)) == [Sealed]


def test_what_another_writer_stopped_counts_at_once(tmp_path: Path) -> None:
    """Were there a second writer after all: the transaction finds that the store moved, and reads who is stopped."""
    here = group_writer(sqlite_store(tmp_path))
    assert _outcomes(here, _needing(ALICE)) == [Sealed]
    assert _outcomes(group_writer(sqlite_store(tmp_path)), transition(None, "retired")) == [Sealed]
    assert _outcomes(here, _needing(ALICE)) == [Stopped]
