"""Approved digests of what upstreams say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from agtphost.adapters.definitions import KIND as DEFINITION
from agtphost.adapters.definitions import LONGEST, MOST_OF_ONE
from agtphost.adapters.web.pins import APPROVED, CHANGED, KIND, PINNED, Pins
from agtphost.audit.drafts import Change, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.upstream.failures import NotApproved
from tests.adapters.peers import Book

FIRST, SECOND = b'{"says":1}', b'{"says":2}'
ONE, TWO = sha256(FIRST).hexdigest(), sha256(SECOND).hexdigest()


class Desk:
    """A book, and the events that were signed."""

    def __init__(self) -> None:
        self.book = Book()
        self.events: list[StreamEvent] = []
        self.down = False

    async def submit(self, changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        if self.down:
            raise LedgerUnavailable("no space left")
        self.book.commit(changes)
        self.events.extend(events)

    def pins(self, configured: Any = None) -> Pins:
        return Pins("acp", "bee", configured or {}, self.book, self.submit)

    def told(self) -> list[str]:
        return [event.event_type for event in self.events]


def judged(pins: Pins, **found: bytes) -> set[str]:
    answers: list[Any] = []
    ensureDeferred(pins.judge(found)).addBoth(answers.append)
    if not isinstance(answers[0], frozenset):
        raise answers[0].value
    return set(answers[0])


def test_the_first_is_approved_and_a_change_is_told_once() -> None:
    """Pinned at first sight, off once changed, told of once; and all of it is known to the next process."""
    desk = Desk()
    assert judged(desk.pins(), echo=FIRST) == set()
    for _ in range(3):
        assert judged(desk.pins(), echo=SECOND) == {"echo"}
    assert desk.told() == [PINNED, CHANGED]
    assert judged(desk.pins(), echo=FIRST) == set()
    assert judged(desk.pins(), echo=SECOND) == {"echo"}
    assert desk.told() == [PINNED, CHANGED, CHANGED]
    change, event = desk.pins().approval("echo", TWO, "operator")
    assert event.event_type == APPROVED and event.fields["replaced_sha256"] == ONE
    called: list[bool] = []
    pins = desk.pins()
    pins.on_approval = lambda: called.append(True)
    desk.book.commit((change,))
    assert called and judged(pins, echo=SECOND) == set()
    assert judged(desk.pins(), echo=FIRST) == {"echo"}


def test_the_configuration_wins() -> None:
    """A digest that the operator wrote down is neither learned nor replaced."""
    desk = Desk()
    assert judged(desk.pins(), echo=FIRST) == set()
    pins = desk.pins({"echo": TWO})
    assert judged(pins, echo=FIRST) == {"echo"} and judged(pins, echo=SECOND) == set()
    assert pins.fixed("echo") and not pins.fixed("other")


def test_nothing_is_approved_that_would_be_forgotten() -> None:
    """Store down: what is new is not approved; what was approved before is."""
    desk = Desk()
    assert judged(desk.pins(), old=FIRST) == set()
    desk.down = True
    assert judged(desk.pins(), old=FIRST) == set()
    with pytest.raises(NotApproved):
        judged(desk.pins(), old=FIRST, new=SECOND)
    desk.down = False
    assert judged(desk.pins(), new=FIRST) == set()


def test_every_change_says_what_it_was_decided_on() -> None:
    """A first sight or an approval that comes second is refused where it is written, and hides no swap."""
    desk = Desk()
    seen: list[Change] = []
    kept = desk.submit

    async def submit(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        seen.extend(changes)
        await kept(changes, events)

    desk.submit = submit  # type: ignore[method-assign]
    judged(desk.pins(), echo=FIRST)
    judged(desk.pins(), echo=SECOND)
    seen.append(desk.pins().approval("echo", TWO, "operator")[0])
    assert [change.expected for change in seen if change.kind == KIND] == [0, 1, 2]


def test_a_change_that_somebody_else_made_first_is_no_approval() -> None:
    """The store says that the item moved: nothing is approved on what was known before."""
    desk = Desk()

    async def stale(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        raise StaleChange("moved")

    desk.submit = stale  # type: ignore[method-assign]
    with pytest.raises(NotApproved):
        judged(desk.pins(), echo=FIRST)


def test_the_text_of_what_was_approved_is_kept() -> None:
    """For the next process too; a longer one is not, and only its digest is known."""
    desk = Desk()
    judged(desk.pins(), echo=FIRST)
    long = b'{"says":"' + b"x" * LONGEST + b'"}'
    judged(desk.pins(), long=long)
    pins = desk.pins()
    both = pins.shown("echo", SECOND)
    assert both == {
        "approved": {"sha256": ONE, "definition": FIRST.decode()},
        "present": {"sha256": TWO, "definition": SECOND.decode()},
        "off": True,
    }
    unknown = pins.shown("long", SECOND)
    assert unknown is not None and set(unknown["approved"]) == {"sha256", "unknown"}
    # What is shown as approved has the approved digest, whatever is kept.
    assert (desk.pins({"echo": "3" * 64}).shown("echo", FIRST) or {})["approved"].keys() == {"sha256", "unknown"}
    assert pins.shown("nobody", None) is None


def test_an_upstream_that_makes_up_definitions_fills_no_store() -> None:
    """1 MiB of one upstream is kept; the pins are kept all the same."""
    desk = Desk()
    texts = {f"a{number}": b'{"n":%d,"says":"%s"}' % (number, b"x" * 60_000) for number in range(30)}
    assert judged(desk.pins(), **texts) == set()
    kept = list(desk.book.all(DEFINITION))
    assert 10 < len(kept) < 20 and sum(item.octets for item in kept) <= MOST_OF_ONE + (64 << 10)
    assert all(desk.pins().approved(name) for name in texts)
