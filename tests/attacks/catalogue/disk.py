"""The disk: a host that starts where too little is free."""

from __future__ import annotations

import os

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.ledger import _copy
from tests.attacks.site import amend
from tests.system.clocks import notified
from tests.system.hosting import running
from tests.system.raw_link import RawLink


def start_below_the_floor(target: Target, seconds: float) -> None:
    """It says that it is not ready, runs no ordinary call, and revokes."""
    notified(target, "before-the-disk")
    with _copy(target) as config:
        free = os.statvfs(config.parent)
        amend(config.parent, "store", f"free_space_floor = {free.f_bavail * free.f_frsize * 2}")
        with running(config) as host, RawLink(host) as link:
            assert any("serves, and is not ready" in line for line in host.lines), host.lines[-20:]
            answer = link.ask("ECHO", "/text", {"text": "x"})
            assert (answer.status, answer.reason) == (503, "store-unavailable"), answer
            reserve = next((host.config.parent / "state").glob("*.reserve"))
            assert reserve.stat().st_size >= 16 << 20, "nothing is kept for a full disk"
            revoked = host.agtp("agent", "revoke", "other", "--reason", "compromise-detected")
            assert revoked.returncode == 0, revoked.stdout + revoked.stderr
            host.kill()


ATTACKS = (
    Attack(
        name="disk-below-floor",
        who="fault",
        says="A host starts where less is free than the floor: it is not ready, and still revokes.",
        run=start_below_the_floor,
        disk=80 << 20,
    ),
)
