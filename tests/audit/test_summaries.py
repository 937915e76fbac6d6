"""Summaries of refusals: nothing is lost in counting, and nothing grows without bound."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from agtphost.audit.drafts import HOST_CHAIN
from agtphost.audit.summaries import (
    MOST_CLAIMS,
    MOST_NAMED,
    MOST_ORIGINS,
    MOST_OUTCOMES,
    MOST_RECORDS,
    AnsweredRead,
    Origin,
    RefusedCall,
    Summaries,
    Tally,
)
from agtphost.host.summary_writer import RECORDS_AT_ONCE, SummaryWriter
from agtphost.identity.jws import parse_unverified
from agtphost.stores import MemoryStore, Selection
from agtphost.stores.records import OffReactorRecords
from agtphost.vocabulary import jsontext
from tests.audit.drafting import draft
from tests.audit.test_ledger import running, soon
from tests.programmes import seed_of_chance

HERE = Origin("address", "203.0.113.9")


def refused_call(status: int = 401, reason: str = "agent-unauthenticated", **claimed: str) -> RefusedCall:
    return RefusedCall(status=status, reason=reason, address="203.0.113.9", claimed=claimed)


def total(event: Any) -> int:
    return int(event.fields["count"])


def test_one_origin_is_one_record_that_says_all() -> None:
    """Count, reasons, times and claims; the id is that of every answer it stands for."""
    now = 1_800_000_000.0
    summaries = Summaries(lambda: now)
    ids = {summaries.add(HERE, refused_call(agent_id="a" * 64)) for _ in range(1_203)}
    now += 59
    ids.add(summaries.add(HERE, refused_call(400, "malformed-request")))
    [event] = summaries.take()
    assert ids == {event.fields["summary_id"]}
    assert event.fields["explanation"] == (
        "1,204 refusals of agent-unauthenticated, malformed-request between 2027-01-15T08:00:00.000Z and "
        "2027-01-15T08:00:59.000Z"
    )
    assert event.fields["origin"] == {"kind": "address", "name": "203.0.113.9"}
    assert event.fields["outcomes"] == [
        {"status": 401, "reason": "agent-unauthenticated", "count": 1_203},
        {"status": 400, "reason": "malformed-request", "count": 1},
    ]
    assert event.fields["claimed"] == [{"agent_id": "a" * 64, "count": 1_203}]
    assert summaries.take() == []
    assert summaries.add(HERE, refused_call()) not in ids


def test_a_million_from_everywhere_stay_few_and_are_all_counted() -> None:
    """More origins, reasons and claims than are kept: the records are few and small, and their counts add up."""
    chance = random.Random(seed_of_chance())
    summaries = Summaries()
    for number in range(40_000):
        origin = Origin("address", f"2001:db8:{chance.randrange(5_000):x}::/64")
        summaries.add(origin, refused_call(400 + number % 99, f"reason-{number % 777}", agent_id=f"{number:064x}"))
        assert len(summaries) <= MOST_ORIGINS + 1
    assert summaries.waiting == 40_000
    events = summaries.take()
    assert len(events) == MOST_RECORDS + 1
    assert sum(map(total, events)) == 40_000
    for event in events:
        fields = event.fields
        assert sum(entry["count"] for entry in fields["outcomes"]) + fields.get("further_outcomes", 0) == total(event)
        assert sum(entry["count"] for entry in fields["claimed"]) + fields.get("further_claimed", 0) == total(event)
        assert len(fields["outcomes"]) <= MOST_OUTCOMES and len(fields["claimed"]) <= MOST_CLAIMS
        assert len(fields.get("origins", ())) <= MOST_NAMED
        assert len(jsontext.encode(dict(fields))) < 16_000
    several = events[-1].fields
    assert several["origin"]["kind"] == "several"
    assert sum(entry["count"] for entry in several["origins"]) + several["further_origins"] == several["count"]


def test_control_a_tally_without_a_cap_is_noticed() -> None:
    """The bound above is that of the tally: one that takes every name breaks it."""
    bounded, boundless = Tally(16), Tally(10**9)
    for number in range(1_000):
        bounded.add(number)
        boundless.add(number)
    assert (len(bounded.counts), bounded.rest) == (16, 984)
    assert len(boundless.counts) == 1_000


def test_refusals_and_reads_are_told_apart() -> None:
    """Of one origin and one time, each with the same id: a sentence, the counts of each method and path, and times."""
    now = 1_800_000_000.0
    summaries = Summaries(lambda: now)
    ids = {summaries.add(HERE, AnsweredRead(status=200, method="DISCOVER", path="/methods", address="203.0.113.9"))}
    ids |= {summaries.add(HERE, AnsweredRead(status=200, method="DESCRIBE", path="/")) for _ in range(2)}
    ids.add(summaries.add(HERE, refused_call()))
    assert summaries.waiting == 4
    refusals, reads = summaries.take()
    assert ids == {refusals.fields["summary_id"]} == {reads.fields["summary_id"]}
    assert (refusals.event_type, reads.event_type) == ("refusals_summed_up", "reads_summed_up")
    assert total(refusals) == 1 and total(reads) == 3
    assert reads.fields["explanation"].startswith("3 reads of DESCRIBE /, DISCOVER /methods between 2027-01-15T08")
    assert reads.fields["outcomes"] == [
        {"status": 200, "method": "DESCRIBE", "path": "/", "count": 2},
        {"status": 200, "method": "DISCOVER", "path": "/methods", "count": 1},
    ]


def test_readers_from_everywhere_stay_few_and_are_all_counted() -> None:
    """As refusals are."""
    summaries = Summaries()
    for number in range(5_000):
        read = AnsweredRead(
            status=200, method="DISCOVER", path=f"/{number % 50}", claimed={"agent_id": f"{number:064x}"}
        )
        summaries.add(Origin("address", f"2001:db8:{number:x}::/64"), read)
    assert len(summaries) <= MOST_ORIGINS + 1
    events = summaries.take()
    assert len(events) == MOST_RECORDS + 1
    assert sum(map(total, events)) == 5_000
    assert all(len(jsontext.encode(dict(event.fields))) < 16_000 for event in events)


class LosingAnswers(MemoryStore):
    """A store whose next COMMIT fails: carried out or not, which it cannot say before it is asked again."""

    carried_out: bool | None = None

    def commit(self) -> None:
        if self.carried_out is None:
            super().commit()
            return
        carried_out, self.carried_out = self.carried_out, None
        if carried_out:
            super().commit()
        self.holds = self._fail  # type: ignore[method-assign]
        raise OSError("the connection is lost")

    def _fail(self, audit_id: bytes) -> bool:
        del self.holds
        raise OSError("no connection")


@pytest.mark.parametrize("carried_out", [True, False])
@pytest_twisted.ensureDeferred
async def test_a_summary_whose_commit_is_in_doubt_is_recorded_once(carried_out: bool) -> None:
    """The same host goes on, and its retry writes only what the store does not have; later counts are not lost."""
    store = LosingAnswers()
    summaries = Summaries()
    async with running(store, probe_seconds=0.02) as ledger:
        records = OffReactorRecords(store.reader(), deferToThread)
        writer = SummaryWriter(reactor, summaries, ledger, records, 60)  # type: ignore[arg-type]
        summaries.add(HERE, refused_call())
        store.carried_out = carried_out
        await writer.write()
        assert not ledger.healthy
        await soon(lambda: ledger.healthy)
        summaries.add(HERE, refused_call())
        summaries.add(HERE, refused_call())
        await writer.write()
    events = [parse_unverified(record.signed) for record in store.records(Selection())]
    assert [event["count"] for event in events] == [1, 2]
    assert len({event["summary_id"] for event in events}) == 2


@pytest_twisted.ensureDeferred
async def test_a_summary_in_doubt_waits_for_a_store_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer nothing is written; with one, the summary is found behind many newer records of the host."""
    store = LosingAnswers()
    summaries = Summaries()
    async with running(store, probe_seconds=0.02) as ledger:
        records = OffReactorRecords(store.reader(), deferToThread)
        writer = SummaryWriter(reactor, summaries, ledger, records, 60)  # type: ignore[arg-type]
        summaries.add(HERE, refused_call())
        store.carried_out = True
        await writer.write()
        await soon(lambda: ledger.healthy)
        for _ in range(2 * RECORDS_AT_ONCE):
            ledger.submit(draft(HOST_CHAIN))
        with monkeypatch.context() as patch:
            patch.setattr(store, "latest", partial(_raise, OSError("too many connections")))
            await writer.write()
        await writer.write()
    events = [parse_unverified(record.signed) for record in store.records(Selection())]
    assert sum("summary_id" in event for event in events) == 1


def _raise(error: Exception, *_: Any, **__: Any) -> None:
    raise error
