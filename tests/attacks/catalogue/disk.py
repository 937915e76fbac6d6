"""The disk: a host that starts where too little is free."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.ledger import DATABASE, _copy
from tests.attacks.site import amend
from tests.attacks.strikes import turns
from tests.system.clocks import notified
from tests.system.hosting import Host, running, until
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


SMALL, FLOOR = 64 << 20, 24 << 20


def fill_while_idle(target: Target, seconds: float) -> None:
    """
    The store is on a disk of its own, without a reserve. Others fill it while nobody calls: the next call runs nothing.

    The disk is a file system in memory that only the host's mount namespace has; it is filled through ``/proc``.
    """
    notified(target, "before-the-full-disk")
    with _copy(target) as config:
        disk = config.parent / "disk"
        disk.mkdir()
        store = config.parent / target.state.relative_to(target.config.parent) / DATABASE
        keys = f'url = "sqlite:{disk / DATABASE}"', f"free_space_floor = {FLOOR}", "free_space_reserve = 0"
        amend(config.parent, "store", "\n".join(keys))
        place = shlex.quote(str(disk))
        script = f'mount -t tmpfs -o size={SMALL} tmpfs {place} && cp {shlex.quote(str(store))} {place} && exec "$@"'
        alone = ("/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-c", script, "sh")
        host = Host(config, prefix=alone)
        try:
            host.wait()
            _fill_and_call(host, Path(f"/proc/{host.process.pid}/root{disk}"), seconds)
        finally:
            host.kill()


def _fill_and_call(host: Host, disk: Path, seconds: float) -> None:
    note = {"recipient": "operator", "content": {"text": "x"}}
    with RawLink(host) as link:
        for turn in turns(seconds, most=20):
            key = f"full-{turn}"
            with suppress(OSError), (disk / "ballast").open("wb") as ballast:
                while ballast.write(bytes(1 << 20)):
                    ballast.flush()
            # Longer than a look at the disk may be old.
            assert host.agtp("--version").returncode == 0
            answer = link.ask("NOTIFY", "/", note, Idempotency_Key=key)
            assert (answer.status, answer.reason) == (503, "store-unavailable"), (answer.status, answer.reason)
            (disk / "ballast").unlink()
            until(lambda: link.ask("ECHO", "/text", {"text": "x"}).status == 200)
            # It has not run: it is neither answered from what is stored, nor in doubt.
            answer = link.ask("NOTIFY", "/", note, Idempotency_Key=key)
            assert answer.status in (200, 202), (answer.status, answer.reason)


ATTACKS = (
    Attack(
        name="disk-full-while-idle",
        who="fault",
        says="Others fill the disk while nobody calls, and no space is kept: the next call runs nothing.",
        run=fill_while_idle,
        disk=80 << 20,
    ),
    Attack(
        name="disk-below-floor",
        who="fault",
        says="A host starts where less is free than the floor: it is not ready, and still revokes.",
        run=start_below_the_floor,
        disk=80 << 20,
    ),
)
