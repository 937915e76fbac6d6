"""SEARCH sorts what it finds in parts, so that other threads have the interpreter in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agtphost.methods.standard.collections.search import RUN, Order
from agtphost.vocabulary.steps import Slices
from tests.rows import each_row

SEED = 20261127
SORTS = (["a"], ["-a"], ["a", "-b"], ["-a", "-b"], ["-b", "a", "-b"])
VALUES = (3, -2.5, 7, "a", "b", "ab", "", True, False, None, [1], {"x": 1})


class Counted(Slices):
    """Counts pauses, and rests in none."""

    pauses = 0

    def pause(self) -> None:
        self.pauses += 1


def plainly(sort: Sequence[str], data: Sequence[dict[str, Any]]) -> list[int]:
    """Return the identifiers in the order that the documentation promises, by one stable sort for each member."""
    kinds = {bool: 2, int: 0, float: 0, str: 1}
    found = list(data)
    for name in reversed(sort):
        member = name.removeprefix("-")

        def rank(record: dict[str, Any], member: str = member) -> tuple[int, Any]:
            kind = kinds.get(type(record.get(member)), 3)
            return kind, record[member] if kind < 3 else 0

        found.sort(key=rank, reverse=name.startswith("-"))
        found.sort(key=lambda record, member=member: member not in record)  # type: ignore[misc]
    return [record["id"] for record in found]


@each_row("sort", SORTS, ids=str)
def test_sorting_in_parts_is_sorting(sort: list[str]) -> None:
    """Numbers, texts, truth values, then the rest; what is missing last; equal ones as they came; any part of it."""
    print(f"seed {SEED}")
    source = random.Random(SEED)
    for count in (0, 1, 40, RUN - 1, RUN, RUN + 1, 3 * RUN):
        data = [
            {**{name: source.choice(VALUES) for name in "ab" if source.random() < 0.8}, "id": number}
            for number in range(count)
        ]
        order, offset = Order(sort), source.randrange(30)
        rows = ((order.ranks(each), each) for each in data)
        total, found = Order.select(rows, offset, 200, Counted())
        assert total == count
        assert [each["id"] for each in found] == plainly(sort, data)[offset : offset + 200]


def test_others_have_their_turn_while_many_are_sorted() -> None:
    """There is a pause between any two parts that are sorted, and one for each row that is merged."""
    order, slices = Order(["-n"]), Counted()
    Order.select(((order.ranks({"n": n}), n) for n in range(20 * RUN)), 0, 100, slices)
    assert slices.pauses >= 19 + 100 + 19
    assert len(Order(["-n", "n", "-n"])._keys) == 1, "a member that stands twice is sorted by once"
