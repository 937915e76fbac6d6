"""Who listens on a port of this machine already: what Linux tells of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LISTENING = "0A"
"""The state of such a socket in ``/proc/net/tcp``."""


def holder(port: int) -> str:
    """
    Return the process that listens on a port, such as ``pid 12 (twistd)``; empty where it cannot be found, as for other
    users' processes.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").iterdir() if wanted else ():
        if process.name.isdecimal() and any(link in wanted for link in _links(process / "fd")):
            with suppress(OSError):
                return f"pid {process.name} ({(process / 'comm').read_text().strip()})"
    return ""


def _inodes(port: int) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _links(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                yield os.readlink(each)
