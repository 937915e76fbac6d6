"""Who listens for changes of lists is told in turns where there are many, and holds nobody up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.adapters.mcp import subscribers
from agtphost.adapters.mcp.subscribers import Subscriber, Subscribers
from agtphost.handlers import rights_listeners
from agtphost.handlers.rights_listeners import RightsListeners
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.steps import TURN

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
LISTS = frozenset({"toolsListChanged", "promptsListChanged"})
MANY = 20
STEP = TURN / 10


class Later:
    """What is to be done in turns to come; a clock of Twisted's does in one what a reactor does in many."""

    def __init__(self) -> None:
        self._due: list[Callable[[], object]] = []

    def callLater(self, delay: float, function: Callable[..., object], *given: Any) -> None:
        assert delay == 0
        self._due.append(partial(function, *given))

    def turn(self) -> bool:
        """Whether there was another."""
        due, self._due = self._due, []
        for call in due:
            call()
        return bool(due)


def work() -> None:
    """As long as finding out what of thousands of tools is for somebody."""
    ends = time.perf_counter() + STEP
    while time.perf_counter() < ends:
        pass


def all_at_once(steps: Iterator[object], clock: object) -> None:
    """What is no spreading."""
    list(steps)


def in_turns(begin: Callable[[], object], done: list[Any], clock: Later) -> list[int]:
    """How many each turn does."""
    begin()
    found = [len(done)]
    while clock.turn():
        found.append(len(done) - sum(found))
    return found


def listening(clock: Later) -> tuple[Subscribers, list[tuple[int, str]]]:
    """Many, and what they have heard."""
    server: Any = SimpleNamespace(clock=clock, terms=None)
    events, heard = Subscribers(server), list[tuple[int, str]]()

    def take(number: int, method: str, params: Mapping[str, Any]) -> None:
        work()
        heard.append((number, method))

    for number in range(MANY):
        events.add(
            Subscriber(frozenset({"toolsListChanged", "promptsListChanged"}), frozenset(), partial(take, number))
        )
    return events, heard


def test_many_are_told_in_turns_and_each_of_everything_in_order() -> None:
    clock = Later()
    events, heard = listening(clock)

    def change() -> None:
        events.announce(TOOLS, {})
        events.announce(PROMPTS, {})
        events.announce(TOOLS, {})

    turns = in_turns(change, heard, clock)
    assert max(turns) <= 3, turns
    for number in range(MANY):
        mine = [method for each, method in heard if each == number]
        # Who had heard of the first change before the second came hears of that too, and nobody of one alone.
        assert mine in ([TOOLS, PROMPTS], [TOOLS, PROMPTS, TOOLS]), mine
    assert [number for number, method in heard if method == PROMPTS] == list(range(MANY))


def test_who_has_left_is_told_no_more_and_who_fails_stops_nobody() -> None:
    clock = Later()
    events, heard = listening(clock)
    others = list(events._subscribers)
    others[0].take = lambda method, params: 1 // 0
    events.announce(TOOLS, {})
    events.remove(others[-1])
    while clock.turn():
        pass
    assert heard == [(number, TOOLS) for number in range(1, MANY - 1)]
    events.announce(TOOLS, {})
    # The first turn ends early where the failure of the first subscriber takes long to log.
    while clock.turn():
        pass
    assert heard[MANY - 2 :] == [(number, TOOLS) for number in range(1, MANY - 1)], "the next change is told too"


def test_telling_all_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(subscribers, "spread", all_at_once)
    clock = Later()
    events, heard = listening(clock)
    assert in_turns(lambda: events.announce(TOOLS, {}), heard, clock) == [MANY]


@pytest.mark.parametrize("spreads", [True, False])
def test_another_configuration_ends_many_requests_in_turns(spreads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not spreads:
        monkeypatch.setattr(rights_listeners, "spread", all_at_once)
    clock, ended = Later(), list[int]()
    listeners = RightsListeners(clock)  # type: ignore[arg-type]

    def end(number: int) -> None:
        work()
        ended.append(number)

    for number in range(MANY):
        listeners.add(str(number // 2), Assurance.CERTIFICATE).addCallback(lambda _, number=number: end(number))
    turns = in_turns(listeners.end_all, ended, clock)
    assert ended == list(range(MANY))
    assert max(turns) <= 3 if spreads else turns == [MANY]
