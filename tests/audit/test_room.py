"""
What room costs where there is much: things that end at one moment, kinds that are full, and changes by the thousand.

CPU time of this thread is measured, as in :mod:`tests.methods.standard.test_turns`: all of it may be in one turn.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from agtphost.audit import state
from agtphost.audit.drafts import Change
from agtphost.audit.state import Admitted, StateTable
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.quotas import ITEM_KINDS
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.programmes import length

KIND = "notification"
MANY = length(8_000, 100_000)
OWNERS = [f"{n:064x}" for n in range(1_000)]
END = 1_000_000


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Collections of all objects are none of the table's work."""
    gc.disable()
    yield
    gc.enable()


def row(n: int, status: str = "delivered", expires_at: int | None = None, version: int = 1) -> ItemRow:
    value = jsontext.encode({"status": status, "sender": "s"})
    return ItemRow(KIND, f"n{n:06}", bytes.fromhex(OWNERS[n % len(OWNERS)]), version, expires_at, value)


def change(key: str, n: int, value: object = None) -> Change:
    return Change(kind=KIND, key=key, value=value, owner=OWNERS[n % len(OWNERS)])


def seconds(function: Callable[[], object]) -> float:
    """CPU time of this thread; the best of one, unless it says otherwise itself."""
    began = time.thread_time()
    function()
    return time.thread_time() - began


def table(now: Callable[[], float] = lambda: 1.0) -> StateTable:
    """With room for so many notifications, and no more."""
    return StateTable(now, {**ITEM_KINDS, KIND: replace(ITEM_KINDS[KIND], in_all=MANY, per_owner=MANY)})


@measured
@pytest.mark.programme
def test_what_ends_at_one_moment_goes_in_many_turns() -> None:
    """However many look at what room there is in one turn; whoever asks for the rest is told to."""
    now, told = [1.0], []
    held = table(lambda: now[0])
    held.apply([row(n, expires_at=END) for n in range(MANY)])
    held.overdue = lambda: told.append(1)
    now[0] = END / 1_000
    assert held.get(KIND, "n000000") is None, "it has ended, whether or not it is gone"
    found = [seconds(lambda: [held.count(KIND) for _ in range(20)])]
    assert told and held.count(KIND) > MANY / 2
    left = True
    while left:
        began = time.thread_time()
        left = held.prune()
        found.append(time.thread_time() - began)
    assert held.count(KIND) == 0 and len(found) > 10
    print(f"{max(found) * 1000:.1f} ms")
    assert max(found) < most()


@measured
def test_all_of_it_at_once_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    now = [1.0]
    held = table(lambda: now[0])
    held.apply([row(n, expires_at=END) for n in range(MANY)])
    now[0] = END / 1_000
    monkeypatch.setattr(state, "SHARE", 1e9)
    assert seconds(lambda: held.prune(MANY)) > most() and not held.count(KIND)


def test_what_has_ended_keeps_nobody_out() -> None:
    """A kind that is full of it has room at once for the first, and for everybody in the next turn."""
    now = [1.0]
    held = StateTable(lambda: now[0], {**ITEM_KINDS, KIND: replace(ITEM_KINDS[KIND], in_all=1_000, per_owner=1_000)})
    held.apply([row(n, "pending", END) for n in range(1_000)])
    with pytest.raises(state.StateFull):
        held.admit([change("new", 0, {"status": "pending"})])
    now[0] = END / 1_000
    # As many as go before the first look at the clock: more go in one turn only where it is fast enough.
    changes = [change(f"new{n}", n, {"status": "pending"}) for n in range(state.LOOKS)]
    assert len(held.admit(changes).changes) == state.LOOKS


@measured
@pytest.mark.programme
def test_what_makes_room_for_a_thousand_is_found_at_once() -> None:
    """
    A message for a thousand inboxes that are full, and a thousand things that go as others come.

    What is going already, and what went before, is in nobody's way.
    """
    held = table()
    held.apply([row(n) for n in range(MANY)])
    # The oldest have gone by ones: their places are not looked through again.
    for n in range(MANY // 2):
        held.apply([row(n)._replace(value=None), row(MANY + n)])
    admitted: list[Admitted] = []
    new = [change(f"new{n}", n, {"status": "pending", "text": "x" * 100}) for n in range(1_000)]
    found = [seconds(lambda: admitted.append(held.admit(new)))]
    going = [each.key for each in admitted[0].changes if each.value is None]
    assert going == [f"n{MANY // 2 + n:06}" for n in range(1_000)], "the oldest go first"
    again = [change(f"again{n}", n, {"status": "pending"}) for n in range(10)]
    assert held.admit(again).changes[0].key == f"n{MANY // 2 + 1_000:06}", "none of them twice"
    # It fails: they stay, and are the first to go for another.
    held.settle(admitted.pop())
    assert [each.key for each in held.admit(new).changes if each.value is None] == going
    both = [change(f"n{MANY // 2 + 2_000 + n:06}", n) for n in range(1_000)]
    both += [change(f"other{n}", n, {"status": "pending"}) for n in range(1_000)]
    found.append(seconds(lambda: admitted.append(held.admit(both))))
    assert len(admitted[0].changes) == 2_000, "as many come as go"
    print([f"{each * 1000:.1f} ms" for each in found])
    assert max(found) < most()


@measured
@pytest.mark.programme
def test_changes_of_what_ends_leave_nothing_behind() -> None:
    """However often items were changed, as many ends are known as there are items; no change goes through all."""
    held = table()
    held.apply([row(n, expires_at=END + n) for n in range(MANY)])
    found = []
    for version in range(2, 22):
        rows = [row(n, expires_at=END + n + version, version=version) for n in range(0, MANY, 20)]
        for at in range(0, len(rows), 500):
            part = rows[at : at + 500]
            found.append(seconds(lambda part=part: held.apply(part)))  # type: ignore[misc]
    assert len(held._ends) == held.count(KIND) == MANY
    print(f"{max(found) * 1000:.1f} ms")
    assert max(found) < most()
