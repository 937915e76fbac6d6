"""Which records share a commit where calls end one by one, and that nobody waits in vain for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import Clock, deferLater

from agtphost.audit import grouping
from agtphost.audit.collecting import Collecting
from agtphost.audit.grouping import HOLD, MOST_SKIPPED, Grouping
from agtphost.audit.writer import Entry, Submission
from tests.audit.drafting import draft
from tests.audit.test_ledger import Counting, running


async def one_by_one(calls: int, expected: int) -> list[int]:
    """What groups calls make that end two turns of the reactor after each other, while so many are open."""
    store = Counting()
    async with running(store) as ledger:
        ledger.expect(lambda: expected)
        sealing: list[Deferred[Any]] = []
        for _ in range(calls):
            sealing.append(ledger.submit(draft()))
            for _ in range(2):
                await deferLater(reactor, 0)  # type: ignore[arg-type]
        await DeferredList(sealing)
    return store.groups


@pytest_twisted.ensureDeferred
async def test_calls_that_end_one_by_one_share_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in four of the open calls is a group, at once; the time that it may wait is not waited for."""
    monkeypatch.setattr(grouping, "HOLD", 60.0)
    assert await one_by_one(4, 16) == [4]


@pytest_twisted.ensureDeferred
async def test_control_without_open_calls_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls are groups of their own where no other is open: the count above is what waiting makes."""
    monkeypatch.setattr(grouping, "HOLD", 60.0)
    assert max(await one_by_one(4, 1)) < 4


@pytest_twisted.ensureDeferred
async def test_a_group_that_nobody_joins_is_written() -> None:
    """However many calls are open."""
    assert await one_by_one(1, 1000) == [1]


@pytest_twisted.ensureDeferred
async def test_what_waits_is_written_when_the_ledger_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping waits for no further calls."""
    monkeypatch.setattr(grouping, "HOLD", 60.0)
    store = Counting()
    async with running(store) as ledger:
        ledger.expect(lambda: 16)
        sealing = ledger.submit(draft())
        await deferLater(reactor, 0)  # type: ignore[arg-type]
        await deferLater(reactor, 0)  # type: ignore[arg-type]
        assert store.groups == []
    await sealing
    assert store.groups == [1]
    late = [str(call) for call in reactor.getDelayedCalls() if call.getTime() > reactor.seconds() + 30]  # type: ignore[attr-defined]
    assert not [call for call in late if "Ledger" in call], "no timer is left"


def asked(grouping: Grouping) -> Iterator[bool]:
    """Whether each of the next groups of one is held back."""
    while True:
        held = grouping.wait(1) == HOLD
        if held:
            assert grouping.wait(1) is None, "once"
        grouping.over(1, 1)
        yield held


def test_holding_back_in_vain_becomes_rare() -> None:
    """Many calls that last for minutes delay the one that comes and goes beside them in a few cases only."""
    each = asked(Grouping(lambda: 100))
    first = [next(each) for _ in range(12)]
    assert first == [True, False, True, False, False, False, True, *[False] * 5]
    assert sum(next(each) for _ in range(20 * (MOST_SKIPPED + 1))) <= 25


def test_one_that_is_joined_begins_anew() -> None:
    """What is worth its while goes on."""
    kept = Grouping(lambda: 100)
    for _ in range(3):
        assert kept.wait(1) == HOLD and not kept.enough(24) and kept.enough(25)
        kept.over(2, 2)


def test_calls_that_are_all_collected_wait_for_nobody() -> None:
    """A single caller, and as many as answer together."""
    for kept, count in ((Grouping(lambda: 1), 1), (Grouping(lambda: 4), 1), (Grouping(lambda: 64), 16)):
        assert kept.wait(count) is None


def collecting(clock: Clock) -> tuple[Collecting, list[list[Entry]]]:
    """What collects, and what it handed over."""
    groups: list[list[Entry]] = []
    return Collecting(clock, lambda entries, octets: groups.append(entries)), groups


def entry(*, inner: bool) -> Submission:
    """One record."""
    drafted = draft()
    drafted.inner = inner
    return Submission(drafted)


def turns_until_the_next(*, inner: bool) -> int:
    """After how many turns of the reactor that is handed over which a group of three prompts."""
    clock = Clock()
    kept, groups = collecting(clock)
    for _ in range(3):
        kept.add(entry(inner=inner), 0)
    clock.advance(0)
    (first,) = groups
    kept.returned(first, lambda: kept.add(entry(inner=False), 0))
    turns = 0
    while len(groups) < 2:
        clock.advance(0)
        turns += 1
    assert [len(group) for group in groups] == [3, 1]
    return turns


def test_what_the_host_goes_on_with_itself_waits_for_no_turn() -> None:
    """The record of a BATCH follows at once on those of its calls: nobody outside could come again yet."""
    assert turns_until_the_next(inner=True) == 0


def test_control_callers_outside_are_waited_for() -> None:
    """Their answers go out first."""
    assert turns_until_the_next(inner=False) > 0


def test_a_group_that_fails_to_be_settled_keeps_nobody_waiting() -> None:
    """Whatever goes wrong where a group is told of, the next one is handed over."""
    clock = Clock()
    kept, groups = collecting(clock)
    kept.add(entry(inner=True), 0)
    clock.advance(0)
    with pytest.raises(ZeroDivisionError):
        kept.returned(groups[0], lambda: 1 // 0)
    kept.add(entry(inner=True), 0)
    clock.advance(0)
    assert len(groups) == 2
