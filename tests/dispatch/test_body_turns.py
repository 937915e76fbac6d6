"""Large bodies take turns: whose is read next, and what waits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from agtphost.dispatch import large_bodies
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.large_bodies import LONGEST, LargeBodies
from agtphost.errors import Refusal
from agtphost.identity.peer import INTERNAL, Assurance, Peer
from agtphost.testing import MemoryHost
from agtphost.wire.events import Request

LARGE = 20_000


class Calls:
    """Calls that wait for their turn, by name."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.large = LargeBodies(self.clock, rest_always=False)
        self.ends: dict[str, Callable[[], None]] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.refused: dict[str, Refusal] = {}
        self.left: list[str] = []

    def begin(self, name: str, *, in_turn: bool = False, internal: bool = False, octets: int = LARGE) -> None:
        """``a1`` is the first call from the address ``a``."""
        transport = {"transport": INTERNAL} if internal else {}
        exchange = Exchange(Request(method="ECHO", body=b"x" * octets), Peer(address=name[0], **transport), 0.0)
        exchange.binding = SimpleNamespace(in_turn=in_turn)  # type: ignore[assignment]
        self.exchanges[name] = exchange

        async def begin() -> None:
            try:
                self.ends[name] = await self.large.begin(exchange)
            except Refusal as refusal:
                self.refused[name] = refusal
            except CancelledError:
                self.left.append(name)

        Deferred.fromCoroutine(begin())

    def read(self, name: str) -> None:
        """Its body was read; the others have rested."""
        self.ends[name]()
        self.clock.advance(1.0)

    def over(self, name: str) -> None:
        """It was answered."""
        when_over = self.exchanges[name].when_over
        assert when_over is not None
        when_over()

    @property
    def begun(self) -> list[str]:
        return [*self.ends]


def test_one_body_is_read_at_a_time_and_callers_take_turns() -> None:
    calls = Calls()
    for name in ("a1", "a2", "a3", "b1"):
        calls.begin(name)
    assert calls.begun == ["a1"]
    calls.read("a1")
    calls.read("a2")
    assert calls.begun == ["a1", "a2", "b1"]


def test_a_body_that_comes_during_the_rest_waits_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two callers whose bodies come one right after the other do not hold up others for both."""
    calls, spent = Calls(), iter([10.0, 10.02, 11.0])
    calls.large = LargeBodies(calls.clock, rest_always=True)
    monkeypatch.setattr(large_bodies.time, "thread_time", lambda: next(spent))
    calls.begin("a1")
    calls.ends["a1"]()
    calls.begin("b1")
    assert calls.begun == ["a1"]
    calls.clock.advance(0.02 * large_bodies.REST - 0.001)
    assert calls.begun == ["a1"]
    calls.clock.advance(0.002)
    assert calls.begun == ["a1", "b1"]


def test_between_two_bodies_others_have_the_reactor() -> None:
    """Where one waits, it is read in a later turn of the reactor."""
    calls = Calls()
    calls.begin("a1")
    calls.begin("b1")
    calls.ends["a1"]()
    calls.ends["a1"]()
    assert calls.begun == ["a1"] and len(calls.clock.getDelayedCalls()) == 2
    calls.clock.advance(1.0)
    assert calls.begun == ["a1", "b1"]


def test_the_rest_is_eight_times_as_long_as_the_body_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have the reactor for eight ninths of the time, whatever one caller sends."""
    times = iter((1.0, 1.5))
    monkeypatch.setattr(large_bodies, "time", SimpleNamespace(thread_time=lambda: next(times, 2.0)))
    calls = Calls()
    calls.begin("a1")
    calls.begin("b1")
    calls.ends["a1"]()
    calls.clock.advance(3.9)
    assert calls.begun == ["a1"]
    calls.clock.advance(0.2)
    assert calls.begun == ["a1", "b1"]


def test_of_bindings_in_turn_the_next_call_of_a_caller_waits_for_the_answer() -> None:
    """Those of other callers, and of other bindings, do not."""
    calls = Calls()
    for name, in_turn in (("a1", True), ("a2", True), ("b1", True)):
        calls.begin(name, in_turn=in_turn)
    calls.read("a1")
    calls.read("b1")
    assert calls.begun == ["a1", "b1"] and len(calls.large) == 1
    calls.over("a1")
    assert calls.begun == ["a1", "b1", "a2"]


def test_a_call_that_begins_anew_gives_its_turn_back() -> None:
    """The gates look at it once more, and it takes another turn."""
    calls = Calls()
    calls.begin("a1", in_turn=True)
    calls.read("a1")
    calls.exchanges["a1"].restart(0.0)
    calls.begin("a2", in_turn=True)
    assert calls.begun == ["a1", "a2"]


def test_a_caller_that_has_left_takes_no_turn() -> None:
    """Its body is not read, and the next one's is."""
    calls = Calls()
    for name in ("a1", "a2", "b1"):
        calls.begin(name, in_turn=True)
    for leave in tuple(calls.exchanges["a2"].peer.leaving):
        leave()
    assert calls.left == ["a2"]
    calls.read("a1")
    calls.over("a1")
    assert calls.begun == ["a1", "b1"] and len(calls.large) == 0 and not calls.exchanges["b1"].peer.leaving


def test_a_call_inside_another_waits_for_no_turn() -> None:
    """The call that made it may have the turn."""
    calls = Calls()
    calls.begin("a1", in_turn=True)
    calls.begin("a2", in_turn=True, internal=True)
    assert calls.begun == ["a1", "a2"]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In octets, of one and of all; and nothing waits for ever."""
    monkeypatch.setattr(large_bodies, "MOST_OCTETS_EACH", 2 * LARGE)
    monkeypatch.setattr(large_bodies, "MOST_OCTETS", 3 * LARGE)
    calls = Calls()
    for name in ("a1", "a2", "a3", "a4", "b1", "b2"):
        calls.begin(name)
    assert [*calls.refused] == ["a4", "b2"]
    assert calls.refused["a4"].reason == "handlers-busy" and calls.refused["a4"].headers == (("Retry-After", "1"),)
    calls.clock.advance(LONGEST)
    assert [*calls.refused] == ["a4", "b2", "a2", "a3", "b1"] and len(calls.large) == 0
    calls.ends["a1"]()
    calls.begin("c1")
    assert calls.begun == ["a1", "c1"]


def test_a_header_takes_no_turn_of_the_agent_that_it_names() -> None:
    """Whoever is known by a header alone has the turns of its address."""
    from agtphost.dispatch.turn_owner import key_of

    exchange = Exchange(Request(method="ECHO"), Peer(address="192.0.2.1"), 0.0)
    exchange.caller = SimpleNamespace(agent_id="a" * 64)  # type: ignore[assignment]
    keys = []
    for assurance in (Assurance.HEADER, Assurance.GATEWAY, Assurance.CERTIFICATE):
        exchange.assurance = assurance
        keys.append(key_of(exchange))
    assert keys == ["address 192.0.2.1", "a" * 64, "a" * 64], "a token and a certificate have one turn"


def test_the_turn_ends_with_the_call_whatever_comes_of_it() -> None:
    """A refusal of a gate, of the schema and of the function give it back, as an answer does."""
    host = MemoryHost({"methods": {"standard": ["FILTER"]}})
    caller = host.agent("caller")
    given: list[tuple[Any, int]] = [
        ({"data": "x" * LARGE}, 422),
        ({"data": "{" + "x" * LARGE, "criteria": {"n": 1}}, 422),
        ({"data": ["x" * LARGE], "criteria": {"n": 1}}, 200),
        ({"data": ["x" * LARGE], "criteria": {"n": 1}, "more": 1}, 422),
    ]
    for _ in range(2):
        for call, status in given:
            assert host.call("FILTER", "/", call, caller=caller).status == status
