"""
However many leases end at the same moment, no turn of the reactor is long; whoever is heard of meanwhile is there.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from agtphost.registry import leases
from agtphost.registry.entry import LATE, LIVE, LOST
from agtphost.registry.leases import FEWEST, LOST_AFTER, WINDOW, Leases
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import Turns
from tests.programmes import length

MANY = length(5_000, 100_000)
SILENT = MANY // 4
"""Of these, so few that they are believed to be gone."""

TELLING = 0.000_04
"""Seconds that it takes to make one lost durable."""


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Collections of all objects are none of the registry's work."""
    gc.disable()
    yield
    gc.enable()


class Registry:
    def __init__(self) -> None:
        self.turns = Turns()
        self.lost: list[str] = []
        self.leases = Leases(self.turns, self.turns.seconds, self._told)  # type: ignore[arg-type]
        self.leases.start()
        for n in range(MANY):
            self.leases.put(f"c{n}", f"a{n % 1_000}" if n < SILENT else "b", 60.0)

    def _told(self, card_id: str, since: float | None) -> None:
        until = time.thread_time() + TELLING
        self.lost.append(card_id)
        while time.thread_time() < until:
            pass

    def later(self, seconds: float, most_turns: int = 10**6) -> float:
        """The longest turn until nothing is due."""
        self.turns.taken.clear()
        self.turns.ahead += seconds
        self.turns.settle()
        return max(self.turns.taken)


@measured
@pytest.mark.programme
def test_leases_that_end_together_end_in_turns() -> None:
    """All are late; a quarter is lost then, but for one that is heard of while the others are told of; then all."""
    registry = Registry()
    of = registry.leases
    found = [registry.later(61.0)]
    assert {of.state(f"c{n}") for n in range(MANY)} == {LATE}
    of.renew_agent("b")
    registry.turns.ahead += 60.0 * LOST_AFTER - 61.0
    of.renew_agent("b")
    registry.turns.taken.clear()
    registry.turns.until(lambda: len(registry.lost) > 10)
    assert len(registry.lost) < SILENT, "all in one turn: nobody could be heard of meanwhile"
    saved = next(f"c{n}" for n in range(SILENT) if f"c{n}" not in registry.lost)
    of.renew(saved)
    registry.turns.settle()
    found.append(max(registry.turns.taken))
    assert sorted([*registry.lost, saved]) == sorted(f"c{n}" for n in range(SILENT))
    assert of.state(saved) == LIVE and of.state("c0" if saved != "c0" else "c1") == LOST and not of.frozen
    found += [registry.later(61.0), registry.later(60.0 * LOST_AFTER)]
    assert of.frozen and of.state(f"c{MANY - 1}") == LATE and FEWEST < MANY
    found.append(registry.later(WINDOW + 1))
    assert of.frozen and len(of._due) == MANY - SILENT + 1, "whoever is not lost is looked at again, and once"
    print([f"{each * 1000:.1f} ms" for each in found])
    assert max(found) < most()
    of.stop()


@measured
def test_all_at_once_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(leases, "TURN", 1e9)
    registry = Registry()
    registry.later(61.0)
    registry.leases.renew_agent("b")
    assert registry.later(60.0 * LOST_AFTER - 61.0) > most() and len(registry.lost) == SILENT
    registry.leases.stop()
