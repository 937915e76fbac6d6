"""The queue of octets that wait for a peer."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from agtphost.protocols.output_queue import LONG, OutputQueue
from tests.programmes import seed_of_chance

SIZES = (0, 1, 100, LONG - 1, LONG, 3 * LONG + 7)


def test_octets_leave_in_the_order_they_came() -> None:
    """Whatever is put in and taken in turn, the octets are the same, and the length is what is left."""
    chance = random.Random(seed_of_chance())
    queue, given, taken = OutputQueue(), bytearray(), bytearray()
    for _ in range(400):
        if chance.random() < 0.5:
            octets = chance.randbytes(chance.choice(SIZES))
            given += octets
            queue.append(octets)
        else:
            most = chance.choice((1, 1_000, LONG, 5 * LONG))
            piece = queue.take(most)
            assert len(piece) <= most and bool(piece) is (len(given) > len(taken))
            taken += piece
        assert len(queue) == len(given) - len(taken) <= queue.octets_in_memory
    taken += queue.take(len(queue))
    assert taken == given and (len(queue), queue.octets_in_memory) == (0, 0)


@pytest.mark.parametrize("size", [10, 2 * LONG])
def test_a_cleared_queue_is_empty(size: int) -> None:
    """Nothing of what was there comes out afterwards."""
    queue = OutputQueue()
    queue.append(b"x" * size)
    queue.take(3)
    queue.clear()
    assert (len(queue), queue.octets_in_memory, queue.take(10)) == (0, 0, b"")
    queue.append(b"next")
    assert queue.take(10) == b"next"


def test_a_long_answer_is_not_copied() -> None:
    """An answer of 16 MiB takes no second 16 MiB while it waits, only the piece that is being sent."""
    queue, answer = OutputQueue(), bytes(16 << 20)
    tracemalloc.start()
    try:
        queue.append(b"HTTP/1.1 200 OK\r\n\r\n")
        queue.append(answer)
        while queue.take(LONG):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LONG


def test_a_long_answer_counts_whole_until_it_is_taken() -> None:
    """``held`` is what the queue keeps in memory, by which connections of slow readers are cut."""
    queue = OutputQueue()
    queue.append(bytes(4 * LONG))
    queue.take(3 * LONG)
    assert (len(queue), queue.octets_in_memory) == (LONG, 4 * LONG)


def test_many_short_pieces_are_kept_together() -> None:
    """A stream of short events to a slow reader has no object for each."""
    queue = OutputQueue()
    for _ in range(100_000):
        queue.append(b"data: x\n\n")
    assert len(queue._chunks) <= 900_000 // LONG + 1
