"""Which records share a commit where calls end one by one, and that nobody waits in vain for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import Clock, deferLater

from agtphost.audit import group_timing
from agtphost.audit.drafts import Change
from agtphost.audit.group_timing import HOLD, MOST_SKIPPED, Grouping
from agtphost.audit.state import Admitted
from agtphost.audit.submission_queue import LARGE_CHANGES, LONGEST_REST, MOST_OCTETS, QUIET, EntryCollector
from agtphost.audit.writer import Entry, Submission
from agtphost.testing.ledger import PromptCollector
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
    monkeypatch.setattr(group_timing, "HOLD", 60.0)
    assert await one_by_one(4, 16) == [4]


@pytest_twisted.ensureDeferred
async def test_control_without_open_calls_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls are groups of their own where no other is open: the count above is what waiting makes."""
    monkeypatch.setattr(group_timing, "HOLD", 60.0)
    assert max(await one_by_one(4, 1)) < 4


@pytest_twisted.ensureDeferred
async def test_a_group_that_nobody_joins_is_written() -> None:
    """However many calls are open."""
    assert await one_by_one(1, 1000) == [1]


@pytest_twisted.ensureDeferred
async def test_what_waits_is_written_when_the_ledger_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping waits for no further calls."""
    monkeypatch.setattr(group_timing, "HOLD", 60.0)
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


def ask_groups(grouping: Grouping) -> Iterator[bool]:
    """Whether each of the next groups of one is held back."""
    while True:
        held = grouping.wait(1) == HOLD
        if held:
            assert grouping.wait(1) is None, "once"
        grouping.note_handed_over(1, 1)
        yield held


def test_holding_back_in_vain_becomes_rare() -> None:
    """Many calls that last for minutes delay the one that comes and goes beside them in a few cases only."""
    each = ask_groups(Grouping(lambda: 100))
    first = [next(each) for _ in range(12)]
    assert first == [True, False, True, False, False, False, True, *[False] * 5]
    assert sum(next(each) for _ in range(20 * (MOST_SKIPPED + 1))) <= 25


def test_one_that_is_joined_begins_anew() -> None:
    """What is worth its while goes on."""
    kept = Grouping(lambda: 100)
    for _ in range(3):
        assert kept.wait(1) == HOLD and not kept.enough(24) and kept.enough(25)
        kept.note_handed_over(2, 2)


def test_calls_that_are_all_collected_wait_for_nobody() -> None:
    """A single caller, and as many as answer together."""
    for kept, count in ((Grouping(lambda: 1), 1), (Grouping(lambda: 4), 1), (Grouping(lambda: 64), 16)):
        assert kept.wait(count) is None


def collecting(clock: Clock) -> tuple[EntryCollector, list[list[Entry]]]:
    """What collects, and what it handed over."""
    groups: list[list[Entry]] = []
    return EntryCollector(clock, lambda entries, octets: groups.append(entries)), groups


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
    kept.note_finished(first, lambda: kept.add(entry(inner=False), 0))
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


def test_the_record_of_a_lone_call_waits_for_no_turn() -> None:
    """Nor does its end leave a timer: no other call is there whose record could join it, or follow its answer."""
    clock = Clock()
    kept, groups = collecting(clock)
    kept.grouping.expected = lambda: 1
    for number in (1, 2, 3):
        kept.add(entry(inner=False), 0)
        assert [len(group) for group in groups] == [1] * number
        kept.note_finished(groups[-1], lambda: None)
    assert clock.getDelayedCalls() == []


def test_the_end_of_a_group_that_no_call_follows_takes_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that follow its answers come in a later turn, and begin a group then."""
    clock = Clock()
    turns: list[object] = []
    later = clock.callLater

    def call_later(delay: float, function: Any, *given: Any) -> Any:
        turns.append(function)
        return later(delay, function, *given)

    monkeypatch.setattr(clock, "callLater", call_later)
    kept, groups = collecting(clock)
    kept.grouping.expected = lambda: 2
    kept.add(entry(inner=False), 0)
    kept.add(entry(inner=False), 0)
    clock.advance(0)
    turns.clear()
    kept.note_finished(groups[0], lambda: None)
    clock.advance(0)
    assert len(turns) == 1 and clock.getDelayedCalls() == []
    kept.add(entry(inner=False), 0)
    clock.advance(0)
    assert [len(group) for group in groups] == [2, 1]


def test_control_where_others_are_open_or_were_the_turn_is_waited_for() -> None:
    """A second call of the same turn then shares the commit."""
    clock = Clock()
    kept, groups = collecting(clock)
    kept.grouping.expected = lambda: 2
    kept.add(entry(inner=False), 0)
    kept.add(entry(inner=False), 0)
    assert groups == []
    clock.advance(0)
    kept.note_finished(groups[0], lambda: None)
    clock.advance(0)
    clock.advance(0)
    kept.grouping.expected = lambda: 1
    kept.add(entry(inner=False), 0)
    assert [len(group) for group in groups] == [2]
    clock.advance(0)
    assert [len(group) for group in groups] == [2, 1]


def test_what_comes_while_a_lone_record_is_written_follows_it() -> None:
    """Be it submitted during the commit or by the answer itself; nothing is left behind."""
    clock = Clock()
    kept, groups = collecting(clock)
    kept.grouping.expected = lambda: 1
    kept.add(entry(inner=False), 0)
    kept.add(entry(inner=False), 0)
    kept.note_finished(groups[0], lambda: kept.add(entry(inner=False), 0))
    clock.advance(0)
    clock.advance(0)
    assert [len(group) for group in groups] == [1, 2]
    kept.note_finished(groups[1], lambda: None)
    assert len(kept) == 0


def test_a_group_that_fails_to_be_settled_keeps_nobody_waiting() -> None:
    """Whatever goes wrong where a group is told of, the next one is handed over."""
    clock = Clock()
    kept, groups = collecting(clock)
    kept.add(entry(inner=True), 0)
    clock.advance(0)
    with pytest.raises(ZeroDivisionError):
        kept.note_finished(groups[0], lambda: 1 // 0)
    kept.add(entry(inner=True), 0)
    clock.advance(0)
    assert len(groups) == 2


def large_entry(*, vital: bool = False) -> Submission:
    """One record that changes as many state items as make it a large one."""
    made = entry(inner=False)
    made.draft.vital = vital
    made.draft.changes = tuple(Change(kind="quote", key=str(n), value={}) for n in range(LARGE_CHANGES))
    made.admitted = Admitted(made.draft.changes, stored=100)
    return made


def test_a_large_entry_is_a_group_of_its_own_behind_small_ones() -> None:
    """What was submitted with it does not wait for it; what comes while it waits does not keep it waiting for ever."""
    clock = Clock()
    kept, groups = collecting(clock)
    large, small, late = large_entry(), entry(inner=False), entry(inner=False)
    for each in (large, small):
        kept.add(each, 0)
    clock.advance(0)
    assert groups == [[small]] and len(kept) == 2
    kept.note_finished(groups[0], lambda: kept.add(late, 0), 0.001)
    for _ in range(4):
        clock.advance(0)
    assert groups == [[small], [large]]
    kept.note_finished(groups[1], lambda: None, 0.001)
    for _ in range(4):
        clock.advance(0)
    assert groups == [[small], [large], [late]]


def rest_after(seconds: float, *, served: bool) -> float:
    """How long the second of two large entries waits after the first, which took so long."""
    clock = Clock()
    kept, groups = collecting(clock)
    first, second = large_entry(), large_entry()
    for each in (first, second):
        kept.add(each, 0)
    clock.advance(0)
    kept.note_finished([first], lambda: None, seconds)
    began = clock.seconds()
    while groups[-1] != [second]:
        if served:
            kept.add(entry(inner=False), 0)
        clock.advance(0.002)
        for group in groups[1:]:
            if group != [second] and kept._under_way:
                kept.note_finished(group, lambda: None, 0.001)
        clock.advance(0)
    return clock.seconds() - began


def test_after_a_large_entry_the_writer_is_left_to_small_ones() -> None:
    """Nineteen times as long as it took, and a second at most; only for a moment where no small ones come."""
    assert rest_after(0.02, served=True) == pytest.approx(0.38, abs=0.02)
    assert rest_after(5.0, served=True) == pytest.approx(LONGEST_REST, abs=0.02)
    assert rest_after(0.02, served=False) == pytest.approx(QUIET, abs=0.01)
    assert rest_after(0.001, served=True) == pytest.approx(0.019, abs=0.01)


def test_large_entries_wait_for_no_rest_where_too_much_waits() -> None:
    """What waits is held in memory: beyond eight megabytes they go one after the other."""
    clock = Clock()
    kept, groups = collecting(clock)
    for _ in range(3):
        kept.add(large_entry(), MOST_OCTETS // 2)
    clock.advance(0)
    kept.note_finished(groups[0], lambda: None, 0.01)
    for _ in range(3):
        clock.advance(0)
    assert len(groups) == 2, "two that wait are more than that"
    kept.note_finished(groups[1], lambda: None, 0.01)
    for _ in range(3):
        clock.advance(0)
    assert len(groups) == 2, "and one is not"
    clock.advance(0.1)
    clock.advance(0)
    assert len(groups) == 3


def test_what_is_vital_is_never_held_back() -> None:
    """However much it changes, it goes with the small ones, and no rest keeps it."""
    clock = Clock()
    kept, groups = collecting(clock)
    first, second, vital = large_entry(), large_entry(), large_entry(vital=True)
    for each in (first, second):
        kept.add(each, 0)
    clock.advance(0)
    kept.note_finished([first], lambda: None, 0.1)
    clock.advance(0)
    kept.add(vital, 0)
    clock.advance(0)
    assert groups == [[first], [vital]]


def test_everything_is_handed_over_at_the_end() -> None:
    """A ledger that stops leaves no large entry behind, whatever rests."""
    clock = Clock()
    kept, groups = collecting(clock)
    each = [large_entry(), large_entry(), entry(inner=False), large_entry()]
    for one in each:
        kept.add(one, 0)
    kept.hand_over_all()
    assert sorted(map(id, (one for group in groups for one in group))) == sorted(map(id, each))


def test_a_ledger_without_a_thread_writes_large_entries_as_well() -> None:
    """Nothing rests where nobody waits: in tests of whole hosts every record is there at once."""
    clock, groups = Clock(), list[list[Entry]]()
    kept = PromptCollector(clock, lambda entries, octets: groups.append(entries))
    each = [large_entry(), large_entry()]
    for one in each:
        kept.add(one, 0)
        kept.note_finished([one], lambda: None, 1.0)
    assert groups == [[one] for one in each] and not clock.getDelayedCalls()
