"""Tables that keep what is newest: the one way of bounding what is remembered."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep(table: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """
    Put ``value`` into a table as its newest entry; of more than ``most`` the oldest goes.

    :return: ``value``.
    """
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
    return value
