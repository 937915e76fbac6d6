"""
The host's time: a steady clock, kept right by the system's clock as long as that does not jump.

Theory of operation. The system's clock can be set by days in either direction: by an operator, by a time server that is
wrong, by a virtual machine that is resumed. Everything that expires would then expire immediately, or never. So the
host reads a clock that cannot be set (:func:`agtphost.vocabulary.times.steady`) and adds an offset, which
:meth:`HostClock.look` corrects every few seconds:

- A difference of up to :data:`JUMP` is followed, so a time server that slews or steps a little is obeyed. Small steps
  add up: they are measured against an anchor that moves by no more than :data:`SLEW` of the time that passes.
- A larger difference is a jump. It is recorded and logged, and the host's time goes on as if nothing had happened.
  It is believed once it has lasted :data:`BELIEVED_AFTER`, or where the host is restarted.

At a start the host has no earlier steady time to compare with. The newest signed time of the store is then the lower
bound; a clock that is far ahead of it is believed (the machine may have been off for a week), and recorded.

Each believed leap ahead is remembered for as long as answers of keyed requests are kept, and added to that time: so
a wrong clock never makes the host forget an answer and run the request twice. A further leap extends those before it.
See ``docs/operations.rst``.

Certificates, tokens and revocation lists are judged by :meth:`HostClock.latest`, the later of the host's time and the
system's. Others wrote their times by other clocks, and the TLS library reads the system's clock too: a host that did
not follow it would contradict its own handshakes. But a clock that goes back must not make valid again what has ended,
nor open the way to a token that was used and is forgotten. After a start behind the newest record the system's clock
alone counts there: a wrong clock may have signed that record, and otherwise all calls could fail for an hour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from agtphost.vocabulary import times

JUMP: Final = 300.0
"""Seconds by which the system's clock may differ from what is expected before that is a jump."""

SLEW: Final = 0.001
"""Seconds of correction for each second that passes: twice what a kernel slews by."""

BELIEVED_AFTER: Final = 3_600.0
"""Seconds for which a jump has to last before the host's time follows it."""

AHEAD: Final = 3_600.0
"""Seconds by which a start may come after the newest record without a word."""


class JumpKind(Enum):
    """The kinds of events of the system's clock."""

    JUMPED = "clock-jumped"
    """It differs from the host's time; the host does not follow it yet."""

    BELIEVED = "clock-jump-believed"
    """It has differed for so long that the host follows it now."""

    RETURNED = "clock-returned"
    """It agrees with the host's time again."""

    AHEAD = "clock-ahead-at-start"
    """At the start it is far ahead of the newest record; the host follows it."""

    BEHIND = "clock-behind-at-start"
    """At the start it is behind the newest record; the host does not follow it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEvent:
    """An event of the system's clock."""

    kind: JumpKind
    seconds: float
    """How far the system's clock was ahead of what was expected; negative where it was behind."""

    system: float
    """The system's time, in seconds since the Unix epoch."""

    host: float
    """The host's time after it, in seconds since the Unix epoch."""

    @property
    def leap(self) -> float:
        """Seconds by which the host's own time went ahead with it."""
        return max(self.seconds, 0.0) if self.kind in (JumpKind.BELIEVED, JumpKind.AHEAD) else 0.0


class HostClock:
    """
    The time of one host.

    Any thread may read it; :meth:`begin` and :meth:`look` are called by one.

    :param wall: the system's time, in seconds since the Unix epoch.
    :param steady: seconds since any moment, of a clock that is never set.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = times.steady) -> None:
        self.wall = wall
        """The system's time, in seconds since the Unix epoch."""

        self._steady = steady
        self._looked = steady()
        self._offset = self._anchor = self._lower = wall() - self._looked
        self._jump: float | None = None  # Of a jump that is not believed: the offset that it would lead to.
        self._since = 0.0
        self._leaps: dict[str, tuple[float, float]] = {}

    def seconds(self) -> float:
        """Return the host's time, in seconds since the Unix epoch. It is read several times in each call."""
        return self._steady() + self._offset

    def latest(self) -> float:
        """Return the later of the host's time and the system's, for things that end at a time that others wrote."""
        wall, own = self.wall(), self._steady() + self._lower
        return wall if wall > own else own

    def begin(self, newest: float) -> ClockEvent | None:
        """
        Compare the system's clock with the newest signed time of the store, once, at the start.

        :param newest: seconds since the Unix epoch; 0 where nothing is signed yet.
        :return: what is to be recorded, if anything.
        """
        if not newest:
            return None
        ahead = self.wall() - newest
        if ahead > AHEAD:
            return self._event(JumpKind.AHEAD, ahead)
        if ahead >= -JUMP:
            return None
        self._since, self._jump = self._steady(), self._offset
        self._offset = self._anchor = newest - self._since
        self._lower = -math.inf
        return self._event(JumpKind.BEHIND, ahead)

    def look(self) -> ClockEvent | None:
        """
        Compare the system's clock with the steady one, and follow it where it may be followed.

        :return: what is to be recorded, if anything.
        """
        steady = self._steady()
        passed, self._looked = max(steady - self._looked, 0.0), steady
        offset = self.wall() - steady
        if self._jump is None:
            most = passed * SLEW
            self._anchor += min(max(offset - self._anchor, -most), most)
        if abs(offset - self._anchor) <= JUMP:
            returned, self._jump = self._jump is not None, None
            self._offset = self._lower = offset
            return self._event(JumpKind.RETURNED, 0.0) if returned else None
        if self._jump is None or abs(offset - self._jump) > JUMP:
            self._jump, self._since = offset, steady
            return self._event(JumpKind.JUMPED, offset - self._offset)
        if steady - self._since < BELIEVED_AFTER:
            return None
        ahead, self._jump = offset - self._offset, None
        self._offset = self._anchor = self._lower = offset
        return self._event(JumpKind.BELIEVED, ahead)

    def _event(self, kind: JumpKind, ahead: float) -> ClockEvent:
        return ClockEvent(kind=kind, seconds=ahead, system=self.wall(), host=self.seconds())

    # Leaps that memory must outlast

    def remember(self, key: str, until: float, leap: float) -> None:
        """
        Count a believed leap ahead.

        :param key: its name.
        :param until: the host's time up to which it counts.
        :param leap: seconds.
        """
        self._leaps = {**self._leaps, key: (until, leap)}

    def forget(self, key: str) -> None:
        """Count it no longer."""
        self._leaps = {known: leap for known, leap in self._leaps.items() if known != key}

    def extend_leaps(self, leap: float) -> dict[str, tuple[float, float]]:
        """
        Let every leap count for as much longer as the host's time has gone ahead once more.

        Their ends are times of this clock. Without this a second leap ends the first one, and what was to outlast both
        is forgotten.

        :param leap: seconds, of the last one.
        :return: the leaps that counted until then, by name, with their new ends.
        """
        before = self.seconds() - leap
        kept = {key: (until + leap, length) for key, (until, length) in self._leaps.items() if until > before}
        self._leaps = {**self._leaps, **kept}
        return kept

    def ended_leaps(self) -> list[str]:
        """Return the names of the leaps that count no longer."""
        now = self.seconds()
        return [key for key, (until, _) in self._leaps.items() if until <= now]

    def leaped_seconds(self) -> float:
        """Return by how many seconds the host's time may recently have gone ahead of the real time."""
        leaps = self._leaps
        if not leaps:
            return 0.0
        now = self.seconds()
        return sum(leap for until, leap in leaps.values() if until > now)
