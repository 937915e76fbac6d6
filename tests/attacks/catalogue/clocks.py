"""The system's clock: set by days in either direction while the host runs, and while it does not."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.ledger import _copy
from tests.attacks.strikes import turns
from tests.system.clocks import SetClock, notified, shifted

DAY = 86_400.0
SHIFTS = (5 * DAY, -5 * DAY, -300 * DAY)
"""Ahead by less than revocation lists are valid for: those are judged by the system's clock."""


def jump(target: Target, seconds: float) -> None:
    """A call with an Idempotency-Key is repeated within each jump, and after it: it never runs again."""
    notified(target, "before-the-clock")
    with tempfile.TemporaryDirectory(prefix="clock-") as folder, _copy(target) as config:
        clock = SetClock(Path(folder) / "clock")
        with shifted(config, clock) as host:
            first = notified(host, "clock-jump")
            for turn in turns(seconds, most=50):
                clock.set(SHIFTS[turn % len(SHIFTS)])
                assert notified(host, "clock-jump") == first, (
                    f"it ran again within a jump of {SHIFTS[turn % len(SHIFTS)]:.0f} s"
                )
                clock.set(0.0)
                assert notified(host, "clock-jump") == first, "it ran again after a jump"


def jump_while_off(target: Target, seconds: float) -> None:
    """The clock is set while the host is off: the start has it on record, and a repeat does not run again."""
    first = notified(target, "clock-off")
    with tempfile.TemporaryDirectory(prefix="clock-") as folder, _copy(target) as config:
        clock = SetClock(Path(folder) / "clock")
        # A second leap that is longer than answers are kept ends nothing that the first one has kept.
        for ahead in (SHIFTS[0], 2 * SHIFTS[0]):
            clock.set(ahead)
            with shifted(config, clock) as host:
                assert notified(host, "clock-off") == first, f"it ran again after a start {ahead:.0f} s ahead"
                assert any("clock is ahead" in line for line in host.lines), host.lines[-20:]


ATTACKS = (
    Attack(
        name="clock-jump",
        who="fault",
        says="The clock jumps by days and back: a keyed call runs once.",
        run=jump,
    ),
    Attack(
        name="clock-jump-while-off",
        who="fault",
        says="The clock is set by days between two starts: it is on record, and a keyed call runs once.",
        run=jump_while_off,
    ),
)
