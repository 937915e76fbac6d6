"""The calls of batches begin in one small part of each reactor turn, and callers take turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agtphost.methods.standard.orchestration.batch_turns import SHARE, BatchTurns

LONG = 0.003
"""Seconds that the beginning of a call takes here."""


class Batches:
    """Batches whose calls take :data:`LONG` to begin, and the clock of their reactor."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.turns = BatchTurns(self)  # type: ignore[arg-type]
        self.begun: list[str] = []

    def callLater(self, delay: float, function: Any) -> None:
        assert delay == 0
        self.due.append(function)

    def add(self, key: str, calls: int) -> None:
        for _ in range(calls):
            self.turns.wait(key).addCallback(lambda _: self._begin(key))

    def _begin(self, key: str) -> None:
        self.begun.append(key)
        until = time.perf_counter() + LONG
        while time.perf_counter() < until:
            pass

    def turn(self) -> None:
        """What is due by now, and nothing that it leaves for the next turn."""
        due, self.due = self.due, []
        for function in due:
            function()


def test_all_batches_share_one_part_of_a_turn() -> None:
    """Sixteen batches at a time take no more of a reactor turn than one does."""
    assert LONG > SHARE
    batches = Batches()
    for number in range(16):
        batches.add(f"agent {number}", 2)
    for turn in range(1, 33):
        batches.turn()
        assert len(batches.begun) == turn
    assert not batches.due


def test_a_caller_with_many_batches_waits_for_its_own() -> None:
    """A caller's only call begins behind one call of each other caller, however many those have."""
    batches = Batches()
    batches.add("many", 50)
    batches.add("one", 1)
    batches.turn()
    batches.turn()
    assert batches.begun == ["many", "one"]


def test_a_cancelled_call_takes_no_turn() -> None:
    """What waits of a batch that has ended is passed over."""
    batches = Batches()
    waiting = batches.turns.wait("a")
    waiting.addErrback(lambda _: None)
    batches.add("a", 1)
    waiting.cancel()
    batches.turn()
    assert batches.begun == ["a"]
