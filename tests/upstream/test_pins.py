"""Approved digests of what upstreams say of themselves: durable, told of once, whatever store and upstream do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StaleChange, StreamEvent
from agtphost.errors import Refusal
from agtphost.upstream.approval import ApproveDefinition
from agtphost.upstream.failures import NotApproved
from agtphost.upstream.pins import (
    APPROVED,
    CHANGED,
    DEFINITION,
    LONGEST,
    MOST_OF_ONE,
    MOST_PINS,
    MOST_REPORTED,
    PIN,
    PINNED,
    REPORTED,
    TOOL_PIN,
    Pins,
    PinStore,
)
from tests.fakes import FakeLedger

FIRST, SECOND = b'{"says":1}', b'{"says":2}'
ONE, TWO = sha256(FIRST).hexdigest(), sha256(SECOND).hexdigest()

BOTH = pytest.mark.parametrize("protocol", ["mcp", "acp"])


class PinnedHost:
    """Pins over a ledger in memory; another over the same ledger is the next process."""

    def __init__(self, protocol: str = "acp", ledger: FakeLedger | None = None) -> None:
        self.protocol = protocol
        self.clock = Clock()
        self.ledger = FakeLedger() if ledger is None else ledger
        self.store = PinStore(held=self.ledger.held, submit=self.submit, clock=self.clock)

    async def submit(self, changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        await self.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

    def pins(self, configured: Mapping[str, str] | None = None) -> Pins:
        return Pins(self.protocol, "bee", configured, self.store)

    def judged(self, pins: Pins, **found: bytes) -> set[str]:
        answers: list[Any] = []
        ensureDeferred(pins.check(found)).addBoth(answers.append)
        self.clock.advance(0)
        if not isinstance(answers[0], frozenset):
            raise answers[0].value
        return set(answers[0])

    def off(self, pins: Pins, **digests: str) -> set[str]:
        off = set(pins.find_off(digests))
        self.clock.pump([0.0] * 5)
        return off

    def commit(self, changes: Sequence[Change], event: StreamEvent) -> None:
        """What the dispatcher does with the answer to an operator."""
        failed: list[Any] = []
        ensureDeferred(self.submit(changes, (event,))).addErrback(failed.append)
        if failed:
            raise failed[0].value

    @property
    def events(self) -> list[StreamEvent]:
        return [event for draft in self.ledger.drafts for event in draft.events]

    def told(self) -> list[str]:
        return [event.event_type for event in self.events]


@BOTH
def test_the_first_is_approved_and_a_change_is_told_once(protocol: str) -> None:
    """Off once changed, told of once until an approval, which turns it on; and all is known to the next process."""
    host = PinnedHost(protocol)
    assert host.judged(host.pins(), echo=FIRST) == set()
    for _ in range(3):
        assert host.judged(host.pins(), echo=SECOND) == {"echo"}
    assert host.judged(host.pins(), echo=FIRST) == set()
    pins = host.pins()
    called: list[bool] = []
    pins.on_approval = lambda: called.append(True)
    assert host.judged(pins, echo=SECOND) == {"echo"}
    first = [] if protocol == "mcp" else [PINNED]
    assert host.told() == [*first, CHANGED]
    named = {"protocol": protocol, "upstream": "bee", "name": "echo"}
    assert host.events[-1].chain == HOST_CHAIN
    assert host.events[-1].fields == {**named, "sha256": TWO, "approved_sha256": ONE}
    changes, event = host.pins().approval("echo", TWO, "operator")
    assert event.event_type == APPROVED
    assert event.fields == {**named, "sha256": TWO, "replaced_sha256": ONE, "approved_by": "operator"}
    assert not called
    host.commit(changes, event)
    assert called == [True] and host.judged(pins, echo=SECOND) == set()
    assert host.judged(host.pins(), echo=FIRST) == {"echo"}
    assert host.told() == [*first, CHANGED, APPROVED, CHANGED]


def test_the_items_are_those_of_earlier_versions() -> None:
    """Kinds, keys and members: what was approved before an upgrade is approved after it."""
    web, tools = PinnedHost(), PinnedHost("mcp")
    for host in (web, tools):
        host.judged(host.pins(), echo=FIRST)
        host.judged(host.pins(), echo=SECOND)
    items = {
        (kind, item.key): item.value
        for host in (web, tools)
        for kind in (PIN, TOOL_PIN, REPORTED, DEFINITION)
        for item in host.ledger.held.all(kind)
    }
    text = {"sha256": ONE, "text": FIRST.decode()}
    assert items == {
        ("upstream-pin", "acp\nbee\necho"): {"approved": ONE, "seen": TWO},
        ("upstream-definition", "acp\nbee\necho"): {"upstream": "acp\nbee", **text},
        ("mcp-tool-pin", "bee\necho"): {"sha256": ONE},
        ("mcp-tool-changed", "bee\necho"): {"told": [TWO]},
        ("upstream-definition", "mcp\nbee\necho"): {"upstream": "mcp\nbee", **text},
    }


def test_the_configuration_wins() -> None:
    """A digest that the operator wrote down is neither learned nor replaced."""
    host = PinnedHost()
    assert host.judged(host.pins(), echo=FIRST) == set()
    pins = host.pins({"echo": TWO})
    assert host.judged(pins, echo=FIRST) == {"echo"} and host.judged(pins, echo=SECOND) == set()
    assert pins.is_fixed("echo") and not pins.is_fixed("other")


def test_a_digest_of_the_configuration_is_changed_there() -> None:
    """An approval of what host.toml pins names host.toml; one of an older definition names the list of upstreams."""
    anybody: Any = SimpleNamespace(require=lambda *_: "operator")
    for configured, wanted, remedy in (({"echo": TWO}, ONE, "host.toml"), ({}, TWO, "agtp upstreams ls --json")):
        pins = PinnedHost().pins(configured)
        approve = ApproveDefinition("acp", "bee", pins, lambda: {"echo": ONE}, anybody)
        context: Any = SimpleNamespace(input={"name": "echo", "sha256": wanted})
        with pytest.raises(Refusal) as refused:
            approve.handle(context)
        assert remedy in refused.value.remedy


@BOTH
def test_nothing_is_approved_that_would_be_forgotten(protocol: str) -> None:
    """Store down: what is new is not approved; what was approved before is."""
    host = PinnedHost(protocol)
    assert host.judged(host.pins(), old=FIRST) == set()
    host.ledger.failing = True
    assert host.judged(host.pins(), old=FIRST) == set()
    with pytest.raises(NotApproved):
        host.judged(host.pins(), old=FIRST, new=SECOND)
    host.ledger.failing = False
    assert host.judged(host.pins(), new=FIRST) == set()


@BOTH
def test_of_two_approvals_the_second_is_told_so(protocol: str) -> None:
    """Both were decided on the same pin: one is kept, and the other is refused where it is written."""
    host = PinnedHost(protocol)
    host.judged(host.pins(), echo=FIRST)
    one, two = host.pins().approval("echo", TWO, "desk"), host.pins().approval("echo", "3" * 64, "desk")
    host.commit(*one)
    with pytest.raises(StaleChange):
        host.commit(*two)
    assert host.pins().approved_digest("echo") == TWO


@BOTH
def test_a_first_sight_that_comes_second_is_no_approval(protocol: str) -> None:
    """Two processes see something new at once: the first one's is the measure, and hides no swap."""
    host = PinnedHost(protocol)
    late, kept = host.pins(), host.ledger.held.watch
    host.ledger.held.watch = lambda kind, watcher: None  # type: ignore[method-assign]
    unaware = host.pins()
    host.ledger.held.watch = kept  # type: ignore[method-assign]
    assert host.judged(late, echo=FIRST, other=FIRST) == set()
    assert host.judged(unaware, echo=SECOND, third=FIRST) == {"echo", "third"}
    assert {name: late.approved_digest(name) for name in ("echo", "third")} == {"echo": ONE, "third": ONE}


def test_the_text_of_what_was_approved_is_kept() -> None:
    """For the next process too; a longer one is not, and only its digest is known."""
    host = PinnedHost()
    host.judged(host.pins(), echo=FIRST)
    long = b'{"says":"' + b"x" * LONGEST + b'"}'
    host.judged(host.pins(), long=long)
    pins = host.pins()
    assert pins.describe("echo", SECOND) == {
        "approved": {"sha256": ONE, "definition": FIRST.decode()},
        "present": {"sha256": TWO, "definition": SECOND.decode()},
        "off": True,
    }
    unknown = pins.describe("long", SECOND)
    assert unknown is not None and set(unknown["approved"]) == {"sha256", "unknown"}
    # What is shown as approved has the approved digest, whatever is kept.
    assert (host.pins({"echo": "3" * 64}).describe("echo", FIRST) or {})["approved"].keys() == {"sha256", "unknown"}
    assert pins.describe("nobody", None) is None


def test_an_upstream_that_makes_up_definitions_fills_no_store() -> None:
    """1 MiB of one upstream is kept; the pins are kept all the same."""
    host = PinnedHost()
    texts = {f"a{number}": b'{"n":%d,"says":"%s"}' % (number, b"x" * 60_000) for number in range(30)}
    assert host.judged(host.pins(), **texts) == set()
    kept = list(host.ledger.held.all(DEFINITION))
    assert 10 < len(kept) < 20 and sum(item.octets for item in kept) <= MOST_OF_ONE + (64 << 10)
    assert all(host.pins().approved_digest(name) for name in texts)


def test_an_upstream_that_makes_up_names_fills_no_store() -> None:
    """Beyond so many names, what is new is off until it is approved."""
    pins = Pins("mcp", "bee")
    names = [f"tool-{number}" for number in range(MOST_PINS + 1)]
    ensureDeferred(pins.remember(dict.fromkeys(names, ONE)))
    assert pins.find_off(dict.fromkeys(names, ONE)) == {names[-1]}
    pins.approve(names[-1], ONE)
    assert not pins.find_off(dict.fromkeys(names, ONE))


def test_a_server_that_changes_all_day_fills_no_ledger() -> None:
    """At most so many definitions of one tool until one is approved; other tools are told of all the same."""
    host = PinnedHost("mcp")
    pins = host.pins({"work": ONE, "other": ONE})
    for number in range(100):
        assert host.off(pins, work=str(number)) == {"work"}
    assert len(host.events) == MOST_REPORTED
    host.off(pins, other="1")
    assert len(host.events) == MOST_REPORTED + 1


def test_many_tools_are_told_together() -> None:
    """One write for up to a hundred tools."""
    host = PinnedHost("mcp")
    names = [f"tool-{number}" for number in range(250)]
    host.off(host.pins(dict.fromkeys(names, ONE)), **dict.fromkeys(names, TWO))
    assert len(host.events) == 250
    assert len(host.ledger.drafts) == 3


@BOTH
def test_a_store_that_is_down_is_asked_again(protocol: str) -> None:
    """What changed is off meanwhile; the event is written once the store is back, and nothing is retried afterwards."""
    host = PinnedHost(protocol)
    pins = host.pins({"echo": ONE})
    host.ledger.failing = True
    assert host.off(pins, echo=TWO) == {"echo"}
    assert host.events == []
    host.ledger.failing = False
    host.clock.advance(1.0)
    assert host.told() == [CHANGED]
    assert not host.clock.getDelayedCalls()


@BOTH
def test_what_another_process_told_meanwhile_is_not_told_again(protocol: str) -> None:
    """Both waited for the store: the write of the second is refused, or found out to be superfluous."""
    host = PinnedHost(protocol)
    other = PinnedHost(protocol, host.ledger)
    one, two = host.pins({"echo": ONE}), other.pins({"echo": ONE})
    host.ledger.failing = True
    assert host.off(one, echo=TWO) == other.off(two, echo=TWO) == {"echo"}
    host.ledger.failing = False
    host.clock.advance(1.0)
    host.ledger.failing = True
    other.clock.advance(1.0)
    assert not other.clock.getDelayedCalls()
    assert host.told() == [CHANGED]
