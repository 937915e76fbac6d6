"""What an attack costs the host: memory, disk and processor time, as the operating system counts them."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.site import Site

INTERVAL = 0.05
"""Seconds between two looks."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one moment; or, as a difference, of a stretch of time."""

    memory: int
    """Octets of the host's process that lie in memory."""

    disk: int
    """Octets of the files in its state directory, and of what it logged."""

    seconds: float
    """Of processor time, of the process."""


def look(site: Site) -> Cost:
    """The cost so far."""
    return Cost(memory=resident(site.pid), disk=stored(site.state) + logged(site), seconds=consumed(site.pid))


def resident(pid: int) -> int:
    """Octets in memory; 0 of a process that ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def stored(folder: Path) -> int:
    """Octets of all files below."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except OSError:  # It went meanwhile.
                continue
    return total


def logged(site: Site) -> int:
    """Octets of the log."""
    return sum(len(line) + 1 for line in tuple(site.log))


def consumed(pid: int) -> float:
    """Seconds of processor time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def consumed_by_reactor(pid: int) -> float:
    """Seconds of processor time of the process's first thread, to the nanosecond."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Gauge:
    """Looks all the time while a block runs, and keeps the highest figures."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.base = look(site)
        self.memory = self.disk = 0
        """How much more than at the beginning, at most."""

        self.seconds = 0.0

    def __enter__(self) -> Gauge:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()
        self._take()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self._take()

    def _take(self) -> None:
        now = look(self._site)
        self.memory = max(self.memory, now.memory - self.base.memory)
        self.disk = max(self.disk, now.disk - self.base.disk)
        self.seconds = max(self.seconds, now.seconds - self.base.seconds)
