"""Whether the store's disk has room: what stays free on it, and what the ballast keeps for when nothing is."""

from __future__ import annotations

import time
from collections.abc import Callable

from agtphost.stores.ballast import PIECE, Ballast

FREE_SPACE_FLOOR = 64 * 1024 * 1024
"""Octets that stay free: the ledger says no while the disk can still take what it already promised."""

SPACE_SECONDS = 1.0
"""How often the free space is looked at under load."""


class Space:
    """
    The room on the store's disk; used by one thread at a time.

    :param free: octets that are free there.
    :param floor: octets that have to stay free.
    :param ballast: holds space for when they are gone; None holds none.
    :param report: takes a message with ``{why}``, and why.
    """

    def __init__(
        self, free: Callable[[], int], floor: int, ballast: Ballast | None, report: Callable[[str, str], None]
    ) -> None:
        self._free = free
        self._floor = floor
        self._ballast = ballast
        self._report = report
        self._seen = 0.0
        self.shortage = f"less than {floor} octets are free on the store's disk"
        """What is said where :meth:`enough` is False."""

    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self._seen > SPACE_SECONDS

    def enough(self) -> bool:
        """Whether the floor is free."""
        self._seen = time.monotonic()
        return self._free() >= self._floor

    def make_room(self) -> bool:
        """Where less than a piece is free, have the ballast give one back; whether it did."""
        ballast = self._ballast
        if ballast is None or self._free() >= PIECE:
            return False
        return ballast.give_back() > 0

    def ballasted(self) -> bool:
        """Whether the ballast holds all that it should, or takes it now and leaves the floor free."""
        ballast = self._ballast
        if ballast is None:
            return True
        missing = ballast.missing
        if missing and self._free() - missing < self._floor:
            return False
        try:
            ballast.hold()
        except OSError as error:
            self._report("no space can be kept for a full disk: {why}", repr(error))
        return True
