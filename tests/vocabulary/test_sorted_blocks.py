"""Things in the order of their keys, against the plain way of doing the same."""

from __future__ import annotations

import random
import time

import pytest

from agtphost.vocabulary import sorted_blocks
from agtphost.vocabulary.sorted_blocks import SortedBlocks
from tests.measuring import measured

SEED = 16


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few, so that they are divided and go."""
    monkeypatch.setattr(sorted_blocks, "BLOCK", 3)


def test_whatever_comes_and_goes_is_in_order() -> None:
    """Put, replaced, dropped: what is there, what is behind a key, and what came first; snapshots stay."""
    chance, found, plain = random.Random(SEED), SortedBlocks[int](), {}
    kept = []
    for step in range(3_000):
        key = chance.randrange(60)
        if chance.random() < (0.7 if step // 300 % 2 else 0.3):
            assert found.put(key, step) == plain.get(key)
            plain[key] = step
        else:
            assert found.drop(key) == plain.pop(key, None)
        expected = sorted(plain.items())
        assert len(found) == len(plain) and list(found) == [thing for _, thing in expected]
        assert found.first() == (expected[0] if expected else None)
        if step % 7 == 0:
            behind = chance.choice([None, chance.randrange(-1, 61)])
            wanted = [thing for at, thing in expected if behind is None or at > behind]
            kept.append((found.snapshot_after(behind), wanted, dict(plain), behind))
    for snapshot, wanted, had, behind in kept:
        assert list(snapshot) == wanted and len(snapshot) == len(wanted), SEED
        for key in range(60):
            if behind is None or key > behind:
                assert snapshot.get(key) == had.get(key)


@measured
def test_snapshots_cost_nothing_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither they nor changes go through all: the control does."""
    monkeypatch.setattr(sorted_blocks, "BLOCK", 512)
    found: SortedBlocks[int] = SortedBlocks()
    for key in range(100_000):
        found.put(key, key)

    def cost(copied: bool) -> float:
        began = time.thread_time()
        for key in range(0, 100_000, 2_000):
            behind = list(found) if copied else found.snapshot_after(key)
            found.put(key + 0.5, key)
            assert behind
            found.drop(key + 0.5)
        return time.thread_time() - began

    assert min(cost(False) for _ in range(3)) * 5 < cost(True)
