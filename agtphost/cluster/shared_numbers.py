"""
Numbers of published contents in a store that several hosts share, so that no number is used for two contents.

Theory of operation. The store has one row with the history and the numbers up to which the host that holds the lease
may go; it adds no record. That host reads it when it takes over and allots some more numbers to itself by one write,
before it publishes anything. From then on it gives numbers without waiting for the database, and each change is written
later, by the ledger's writer thread, together with the next limit. Another host that takes over begins above the limit
that it finds. So numbers that were published and not written are left out, and none is used again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from twisted.logger import Logger

from agtphost.stores.interfaces import ILease
from agtphost.stores.rows import StoreError

ALLOTTED: Final = 8
"""Numbers that a host may use before the store has confirmed its next limit."""

log = Logger()

Numbers = Mapping[str, int]
"""The newest number of each series."""


class SharedNumbers:
    """
    Gives numbers of several series.

    :param lease: of the store, taken by this host.
    :param call_in_writer: has the ledger's writer thread call a function.
    """

    def __init__(self, lease: ILease, call_in_writer: Callable[[Callable[[], object]], object]) -> None:
        self._lease = lease
        self._call_in_writer = call_in_writer
        self._used: dict[str, int] = {}
        self._limits: dict[str, int] = {}

    def read(self) -> tuple[Any, Numbers]:
        """
        Return the history that the store has, and the numbers up to which hosts may have published.

        :return: None for a history that was never written.
        :raises ValueError: the row is not one that a host wrote.
        :raises agtphost.stores.StoreError: it cannot be read.
        """
        return read_row(self._lease.read_published())

    def begin(self, history: Mapping[str, Any], used: Numbers) -> None:
        """
        Allot numbers to this host.

        :param used: the numbers to begin above.
        :raises agtphost.stores.StoreError: the store has not confirmed it.
        """
        self._used = dict(used)
        self._write(history, self._next_limits())

    def allot(self, series: str) -> int:
        """
        Return the next number of a series.

        :raises OSError: the store has not confirmed that this host may use it.
        """
        number = self._used[series] + 1
        if number > self._limits[series]:
            raise OSError("the shared store has not confirmed further numbers yet")
        self._used[series] = number
        return number

    def save(self, history: Mapping[str, Any]) -> None:
        """Write a history later."""
        self._call_in_writer(partial(self._write_later, history, self._next_limits()))

    def _next_limits(self) -> dict[str, int]:
        return {series: number + ALLOTTED for series, number in self._used.items()}

    def _write_later(self, history: Mapping[str, Any], limits: dict[str, int]) -> None:
        """Write in the writer's thread, whose ledger reports that the store is away."""
        try:
            self._write(history, limits)
        except StoreError as error:
            log.warn("the numbers of what is published wait for the store: {why}", why=str(error))

    def _write(self, history: Mapping[str, Any], limits: dict[str, int]) -> None:
        self._lease.write_published(write_row(history, limits))
        self._limits = limits


def read_row(text: str) -> tuple[Any, Numbers]:
    """
    Return the history in the row of a store, and the numbers up to which hosts may have published.

    :param text: empty where the store has no row; then the history is None.
    :raises ValueError: it is not one that a host wrote.
    """
    if not text:
        return None, {}
    stored = json.loads(text)
    limits = stored.get("limits") if isinstance(stored, dict) else None
    if not isinstance(limits, dict) or not all(type(limit) is int and limit >= 0 for limit in limits.values()):
        raise ValueError("the row of the table published has no limits")
    return stored.get("history"), limits


def write_row(history: Mapping[str, Any], limits: Numbers) -> str:
    """Return the row of a store."""
    return json.dumps({"history": history, "limits": limits})
