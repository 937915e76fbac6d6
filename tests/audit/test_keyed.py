"""Stored answers of keyed requests: a quota of keys and of octets, and what stays of a long answer."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from agtphost.audit.drafts import Reservation, ReservationKey, ReservationState
from agtphost.audit.keyed import ALL, owner_name, unkept
from agtphost.audit.writer import Claim, GroupWriter, Submission
from agtphost.dispatch.sealer import recall
from agtphost.errors import Refusal
from agtphost.iagtp import IChainStore
from agtphost.stores import MemoryStore
from agtphost.stores.rows import KeyedRow
from agtphost.vocabulary.quotas import ANSWERS
from tests.audit.drafting import ALICE, BOB, draft, group_writer, sqlite_store

SMALL = replace(ANSWERS, keys=3, octets=100, unproven_keys=1, unproven_octets=50, longest=60)
CROWDED = replace(ANSWERS, keys=25, keys_in_all=90, octets=3_000, octets_in_all=9_000, longest=200)


def key(name: str, agent: str = ALICE, *, sure: bool = True) -> ReservationKey:
    return ReservationKey(agent_id=agent, key=name, sure=sure)


def claim(writer: GroupWriter, which: ReservationKey, digest: bytes = b"d") -> Reservation:
    made = Claim(which, digest)
    writer.write([made])
    assert isinstance(made.outcome, Reservation)
    return made.outcome


def answer(writer: GroupWriter, which: ReservationKey, body: bytes) -> None:
    made = draft()
    made.reservation, made.result = which, b"200 application/json\n" + body
    writer.write([Submission(made)])


def space_of(store: IChainStore, agent: str = ALICE) -> tuple[int, int] | None:
    row = store.read_usage([owner_name(key("", agent))]).get(owner_name(key("", agent)))
    return None if row is None else (row.keys, row.octets)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> IChainStore:
    return MemoryStore() if request.param == "memory" else sqlite_store(tmp_path)


def test_an_agent_has_so_many_keys_and_others_theirs(store: IChainStore) -> None:
    """Beyond the quota a refusal of its own, with the time until a key may have expired; a known key is answered."""
    now = [1_000.0]
    writer = group_writer(store, answers=SMALL, now=lambda: now[0])
    for name in "abc":
        assert claim(writer, key(name)).state is ReservationState.NEW
    now[0] += 3_600
    full = claim(writer, key("d"))
    assert (full.state, full.unit, full.limit) == (ReservationState.FULL, "keys", 3)
    assert full.retry_after == 86_400 - 3_600
    assert claim(writer, key("a")).state is ReservationState.RUNNING
    assert claim(writer, key("d", BOB)).state is ReservationState.NEW
    assert space_of(store) == (3, 0)


def test_in_one_group_they_are_counted_as_well(store: IChainStore) -> None:
    """However many come at once."""
    writer = group_writer(store, answers=SMALL)
    claims = [Claim(key(str(number)), b"d") for number in range(10)]
    writer.write(claims)
    states = [each.outcome.state for each in claims if isinstance(each.outcome, Reservation)]
    assert states == [ReservationState.NEW] * 3 + [ReservationState.FULL] * 7


def test_octets_are_counted_and_what_is_beyond_is_a_hash(store: IChainStore) -> None:
    """The quota of octets holds whatever answers come to; the next key is refused for it."""
    writer = group_writer(store, answers=replace(SMALL, keys=99, longest=99))
    for name in "ab":
        claim(writer, key(name))
    answer(writer, key("a"), b"x" * 70)
    answer(writer, key("b"), b"y" * 70)
    first, second = (claim(writer, key(name)) for name in "ab")
    assert first.state is second.state is ReservationState.DONE
    assert (
        first.result.endswith(b"x" * 70)
        and second.result == b"-200 %b 70" % hashlib.sha256(b"y" * 70).hexdigest().encode()
    )
    full = claim(writer, key("c"))
    assert (full.state, full.unit) == (ReservationState.FULL, "octets")


def test_a_long_answer_is_done_and_not_kept(store: IChainStore) -> None:
    """A repeat is told so by a refusal that never runs the call again."""
    writer = group_writer(store, answers=SMALL)
    claim(writer, key("a"))
    answer(writer, key("a"), b"z" * 61)
    done = claim(writer, key("a"))
    assert done.state is ReservationState.DONE
    with pytest.raises(Refusal) as caught:
        recall(done.result)
    refusal = caught.value
    assert (int(refusal.status), refusal.reason) == (409, "idempotency-result-not-kept")
    assert refusal.details == {
        "done": True,
        "original_status": 200,
        "result_hash": hashlib.sha256(b"z" * 61).hexdigest(),
        "result_octets": 61,
    }
    assert claim(writer, key("a"), b"other").state is ReservationState.MISMATCH


def test_who_has_proven_nothing_has_few(store: IChainStore) -> None:
    """A caller below certificate assurance."""
    writer = group_writer(store, answers=SMALL)
    assert claim(writer, key("a", sure=False)).state is ReservationState.NEW
    assert claim(writer, key("b", sure=False)).limit == 1


def test_expired_answers_give_their_room_back_a_thousand_at_a_time(tmp_path: Path) -> None:
    """Deleting is bounded work, the count follows, and a store that starts reads none of it."""
    now = [1_000.0]
    store = sqlite_store(tmp_path)
    writer = group_writer(store, now=lambda: now[0])
    for start in range(0, 2_500, 500):
        writer.write([Claim(key(str(start + number)), b"d") for number in range(500)])
    writer.running.clear()
    assert space_of(store) == (2_500, 0)
    now[0] += 86_401
    assert [writer.tidy() for _ in range(3)] == [True, True, False]
    assert space_of(store) is None
    assert claim(writer, key("0")).state is ReservationState.NEW
    assert space_of(store) == (1, 0)


def test_all_agents_together_have_so_many_and_the_next_one_its_share(store: IChainStore) -> None:
    """
    One alone reaches its quota; many who take all they can stay below the cap of all, and leave room for the next.

    Every key that was acknowledged is still known: a repeat never runs again.
    """
    writer = group_writer(store, answers=CROWDED)
    agents = [f"{number:064x}" for number in range(12)]
    known = []
    for agent in agents:
        for number in range(40):
            which = key(str(number), agent)
            if claim(writer, which).state is ReservationState.NEW:
                known.append(which)
    had = [sum(each.agent_id == agent for each in known) for agent in agents]
    assert had[0] == 25 and min(had) >= 1 and sum(had) < 90, had
    assert {claim(writer, each).state for each in known} == {ReservationState.RUNNING}
    total = store.read_usage([ALL])[ALL]
    assert (total.keys, total.octets) == (sum(had), 0)
    full = claim(writer, key("more", agents[0]))
    assert (full.state, full.unit) == (ReservationState.FULL, "keys") and full.limit < 25


def test_octets_of_all_are_counted(store: IChainStore) -> None:
    """Beyond the cap of all the hash is kept of an answer, and new keys are refused."""
    writer = group_writer(store, answers=replace(CROWDED, keys=900, keys_in_all=9_000))
    for agent in (f"{number:064x}" for number in range(30)):
        for number in range(30):
            which = key(str(number), agent)
            if claim(writer, which).state is ReservationState.NEW:
                answer(writer, which, b"x" * 150)
    total = store.read_usage([ALL])[ALL]
    assert total.octets <= CROWDED.octets_in_all + total.keys * len(unkept(b"200 a\n" + b"x" * 150))
    assert total.octets == sum(
        row.octets for row in store.read_usage(owner_name(key("", f"{n:064x}")) for n in range(30)).values()
    )
    full = claim(writer, key("new", f"{0:064x}"))
    assert (full.state, full.unit) == (ReservationState.FULL, "octets")


def test_the_count_of_all_follows_what_expires(store: IChainStore) -> None:
    """And its row goes with the last key."""
    now = [1_000.0]
    writer = group_writer(store, answers=CROWDED, now=lambda: now[0])
    claim(writer, key("a"))
    answer(writer, key("a"), b"abc")
    now[0] += 60
    claim(writer, key("b", BOB))
    writer.running.clear()
    now[0] += 86_400 - 30
    writer.forget()
    assert store.read_usage([ALL])[ALL].keys == 1 and space_of(store) is None
    now[0] += 60
    writer.forget()
    assert store.read_usage([ALL]) == {}


def test_a_key_that_is_used_anew_after_its_time_counts_once(store: IChainStore) -> None:
    """It takes the place of the one that has expired."""
    now = [1_000.0]
    writer = group_writer(store, answers=SMALL, now=lambda: now[0])
    claim(writer, key("a"))
    answer(writer, key("a"), b"abc")
    now[0] += 86_401
    assert claim(writer, key("a")).state is ReservationState.NEW
    assert space_of(store) == (1, 0)


def test_a_count_that_forgets_the_expired_would_refuse_for_ever(tmp_path: Path) -> None:
    """The control: without the row following deletions, an agent stays full."""
    now = [1_000.0]
    store = sqlite_store(tmp_path)
    writer = group_writer(store, answers=SMALL, now=lambda: now[0])
    for name in "abc":
        claim(writer, key(name))
    writer.running.clear()
    now[0] += 86_401
    writer.tidy()
    store.begin()
    store.put_keyed([KeyedRow(owner_name(key("")), 3, 0, 0)])
    store.commit()
    assert claim(writer, key("e")).state is ReservationState.FULL
