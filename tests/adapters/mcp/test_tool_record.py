"""What happens to tools is on record, once, whatever the store and the server do."""

from __future__ import annotations

import pytest
import pytest_twisted
from twisted.internet.task import Clock

from agtphost.adapters.mcp.kept_pins import KIND as PIN
from agtphost.adapters.mcp.kept_pins import KeptPins, pin
from agtphost.adapters.mcp.tool_record import APPROVED, CHANGED, KIND, MOST_DEFINITIONS, ToolRecord
from agtphost.adapters.mcp.tools import MAX_TOOLS, ToolPins
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.upstream.failures import UpstreamFailure
from tests.fakes import FakeLedger


class World:
    """A record over a ledger in memory."""

    def __init__(self, ledger: FakeLedger | None = None) -> None:
        self.clock = Clock()
        self.ledger = FakeLedger() if ledger is None else ledger
        self.record = ToolRecord(self.clock, self.ledger.held, self.submit)

    async def submit(self, changes: tuple[Change, ...], events: tuple[StreamEvent, ...]) -> None:
        await self.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

    @property
    def events(self) -> list[StreamEvent]:
        return [event for draft in self.ledger.drafts for event in draft.events]


def test_a_changed_definition_is_told_once() -> None:
    """However often it is listed, and after a restart of the host too (control: another one is told)."""
    world = World()
    for _ in range(3):
        world.record.changed("files", "work", "new", "old")
        world.clock.advance(0)
    [event] = world.events
    assert (event.chain, event.event_type) == (HOST_CHAIN, CHANGED)
    assert event.fields == {
        "protocol": "mcp",
        "upstream": "files",
        "name": "work",
        "sha256": "new",
        "approved_sha256": "old",
    }
    again = World(world.ledger)
    again.record.changed("files", "work", "new", "old")
    again.clock.advance(0)
    assert len(again.events) == 1
    again.record.changed("files", "work", "newest", "old")
    again.clock.advance(0)
    assert [event.fields["sha256"] for event in again.events] == ["new", "newest"]


def test_a_server_that_changes_all_day_fills_no_ledger() -> None:
    """At most so many definitions of one tool until one is approved; other tools are told of all the same."""
    world = World()
    for number in range(100):
        world.record.changed("files", "work", str(number), "old")
        world.clock.advance(0)
    assert len(world.events) == MOST_DEFINITIONS
    world.record.changed("files", "other", "1", "old")
    world.clock.advance(0)
    assert len(world.events) == MOST_DEFINITIONS + 1


def test_many_tools_are_told_together() -> None:
    """One write for up to a hundred tools."""
    world = World()
    for number in range(250):
        world.record.changed("files", f"tool-{number}", "new", "old")
    world.clock.pump([0.0] * 5)
    assert len(world.events) == 250
    assert len(world.ledger.drafts) == 3


def test_a_store_that_is_down_is_asked_again() -> None:
    """The event is written once the store is back, and nothing is retried afterwards."""
    world = World()
    world.ledger.failing = True
    world.record.changed("files", "work", "new", "old")
    world.clock.advance(0)
    assert world.events == []
    world.ledger.failing = False
    world.clock.advance(1.0)
    assert len(world.events) == 1
    assert not world.clock.getDelayedCalls()


def test_what_was_told_before_the_store_was_read_is_not_told_again() -> None:
    """A state item of an unknown version: the write is refused, and found out to be superfluous."""
    world = World()
    first = World(world.ledger)
    first.record.changed("files", "work", "new", "old")
    first.clock.advance(0)
    known = world.ledger.held.get(KIND, "files\nwork")
    assert known is not None
    world.record._waiting["files\nwork"] = ("new", "old")
    world.record._later(0)
    world.ledger.failing = True
    world.clock.advance(0)
    assert not world.clock.getDelayedCalls()
    assert len(world.events) == 1


@pytest_twisted.ensureDeferred
async def test_an_approval_is_on_record_before_it_counts() -> None:
    """It names who approved; with the store down nothing is approved: 503."""
    world = World()
    world.record.changed("files", "work", "new", "old")
    world.clock.advance(0)
    await world.record.approved(pin("files", "work", "new"), "new", "old", "f00d")
    assert world.events[-1].event_type == APPROVED
    assert world.events[-1].fields == {
        "protocol": "mcp",
        "upstream": "files",
        "name": "work",
        "sha256": "new",
        "replaced_sha256": "old",
        "approved_by": "f00d",
    }
    assert world.ledger.held.get(KIND, "files\nwork") is None
    assert len(world.ledger.drafts[-1].changes) == 2, "the pin is committed with the event"
    world.ledger.failing = True
    with pytest.raises(Refusal) as refused:
        await world.record.approved(pin("files", "work", "newer"), "newer", "new", "f00d")
    assert refused.value.status == 503
    pinned = world.ledger.held.get(PIN, "files\nwork")
    assert pinned is not None and pinned.value == {"sha256": "new"}


@pytest_twisted.ensureDeferred
async def test_pins_are_durable_before_a_tool_counts() -> None:
    """
    Design decision 16: pins are state items, which hold for the next host too; with the store down nothing is approved.

    Control: without the store's word, a definition that was never pinned is not admitted.
    """
    ledger = FakeLedger()
    first, second = World(ledger), World(ledger)
    differs: list[tuple[str, str, str]] = []
    pins = KeptPins(ledger.held, first.submit).of("files", {"named": "c"}, lambda *changed: differs.append(changed))
    assert not pins.admits("work", "a")
    ledger.failing = True
    with pytest.raises(UpstreamFailure):
        await pins.remember({"work": "a"})
    assert not pins.admits("work", "a")
    ledger.failing = False
    await pins.remember({"work": "a", "named": "d", "other": "b"})
    assert pins.admits("work", "a") and pins.admits("other", "b") and not pins.admits("named", "d")
    assert differs == [("named", "d", "c")]
    later = KeptPins(ledger.held, second.submit).of("files", {}, lambda *changed: None)
    await later.remember({"work": "evil"})
    assert later.admits("work", "a") and not later.admits("work", "evil")
    await first.record.approved(pin("files", "work", "evil"), "evil", "a", "f00d")
    assert pins.admits("work", "evil") and later.admits("work", "evil")


@pytest_twisted.ensureDeferred
async def test_a_server_that_makes_up_tools_all_day_fills_no_store() -> None:
    """Beyond so many names of one server, a new tool is off until it is approved."""
    pins = ToolPins()
    for listing in range(10):
        await pins.remember({f"tool-{listing}-{number}": "a" for number in range(MAX_TOOLS)})
    assert pins.admits("tool-0-0", "a") and not pins.admits("tool-9-0", "a")


@pytest_twisted.ensureDeferred
async def test_pins_tell_of_what_differs() -> None:
    """First definitions and approved ones are nothing to tell."""
    told: list[tuple[str, str, str]] = []
    pins = ToolPins(differs=lambda *changed: told.append(changed))
    await pins.remember({"work": "a"})
    assert pins.admits("work", "a")
    assert pins.admits("work", "a")
    assert not pins.admits("work", "b")
    assert told == [("work", "b", "a")]


@pytest_twisted.ensureDeferred
async def test_of_two_approvals_the_second_is_told_so() -> None:
    """Both were decided on the same pin: one is kept, and the other is 409 rather than kept instead."""
    world = World()
    other = World(world.ledger)
    stale = StateTable()
    other.record = ToolRecord(other.clock, stale, other.submit)
    await world.record.approved(pin("files", "work", "one"), "one", "", "desk")
    with pytest.raises(Refusal) as caught:
        await other.record.approved(pin("files", "work", "two"), "two", "", "desk")
    assert (caught.value.status, caught.value.reason) == (409, "state-conflict")
    kept = world.ledger.held.get(PIN, "files\nwork")
    assert kept is not None and kept.value == {"sha256": "one"}
