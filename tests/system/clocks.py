"""A host in a process of its own whose system clock a test sets: see :mod:`tests.system.shifted_host`."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.attacks.attack import Target
from tests.system.hosting import Host
from tests.system.raw_link import RawLink, client_context

SHIFTED = Path(__file__).with_name("shifted_host.py")


class SetClock:
    """The clock of one machine."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(struct.pack("d", 0.0))

    def set(self, ahead: float) -> None:
        """From now on it differs by so many seconds from the right one."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("d", ahead))


def notified(target: Target, key: str) -> str:
    """What a keyed NOTIFY is answered with, once more or the first time: another number where it ran again."""
    with RawLink(target, context=client_context(target)) as link:
        given = {"recipient": "operator", "content": {"text": key}}
        answer = link.ask("NOTIFY", "/", given, Idempotency_Key=key)
    assert answer.status in (200, 202), answer
    return str(json.loads(answer.body)["result"]["notification_id"])


@contextmanager
def shifted(config: Path, clock: SetClock) -> Iterator[Host]:
    """A host on that machine, until the end of the block."""
    host = Host(config, prefix=(sys.executable, str(SHIFTED), str(clock.file)))
    try:
        yield host.wait()
    finally:
        host.kill()
