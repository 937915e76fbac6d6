"""Whether the store's disk has room: what stays free on it, and what the ballast keeps for when nothing is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

from agtphost.stores.ballast import PIECE, Ballast

FREE_SPACE_FLOOR = 64 * 1024 * 1024
"""Octets that stay free: the ledger says no while the disk can still take what it already promised."""

SPACE_SECONDS = 1.0
"""How often the writer looks at the free space under load."""

STALE_SECONDS = 0.02
"""How old the last look may be where a call is about to run its handler: 2 microseconds, fifty times a second."""


class Space:
    """
    The room on the store's disk; used by one thread at a time.

    :param free: octets that are free there.
    :param floor: octets that have to stay free.
    :param ballast: holds space for when they are gone; None holds none.
    :param quick: whether ``free`` never waits; where it may, only the writer's thread asks.
    :param report: takes a message with ``{why}``, and why.
    """

    def __init__(
        self,
        free: Callable[[], int],
        floor: int,
        ballast: Ballast | None,
        report: Callable[[str, str], None],
        *,
        quick: bool = True,
    ) -> None:
        self._free = free
        self._floor = floor
        self._ballast = ballast
        self._report = report
        self._seen = 0.0
        self._quick = quick
        self.stale_from = 0.0 if quick else math.inf
        """When the last look is too old for a handler to run on it, in seconds of :func:`time.monotonic`."""

        self.shortage = f"less than {floor} octets are free on the store's disk"
        """The message where :meth:`enough` is False."""

    def due(self) -> bool:
        """Return whether the last check of the free space is too old."""
        return time.monotonic() - self._seen > SPACE_SECONDS

    def enough(self) -> bool:
        """Return whether the disk has at least the configured floor free."""
        self._seen = time.monotonic()
        if self._quick:
            self.stale_from = self._seen + STALE_SECONDS
        return self._free() >= self._floor

    def enough_now(self) -> bool:
        """Return whether the floor is free; true if the disk does not answer, because the next write reports that."""
        try:
            return self.enough()
        except OSError:
            return True

    def make_room(self) -> bool:
        """Have the ballast give back a piece if less than one is free; return whether it did."""
        ballast = self._ballast
        if ballast is None or self._free() >= PIECE:
            return False
        return ballast.give_back() > 0

    def begin(self) -> bool:
        """
        Reserve the ballast at a start, as far as space allows; return whether the floor is free too.

        What is below the floor is for what is vital, and that is what the ballast is for: so it is taken there too,
        but for what the writer needs until it gives a piece back.
        """
        ballast = self._ballast
        if ballast is not None:
            with suppress(OSError):
                ballast.hold()
            with suppress(OSError):
                if ballast.missing:
                    ballast.hold(ballast.remaining + max(self._free() - 2 * PIECE, 0))
        if ballast is None or not ballast.whole:
            return self.enough()
        if ballast.missing:
            self._report(
                "of the space that is kept for a full disk there is too little: {why}",
                f"{ballast.remaining} of {ballast.whole} octets. Make room on the disk of {ballast.path}, or an agent "
                "may not be revoked where it is full; the host takes the rest when there is room",
            )
        return self.enough()

    def hold_ballast(self) -> bool:
        """Reserve the missing part of the ballast if that leaves the floor free; return whether it is complete."""
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
