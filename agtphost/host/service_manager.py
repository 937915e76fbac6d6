"""
Tells the service manager how the host is: ``sd_notify`` of systemd, and of whatever else speaks it.

One datagram of ``NAME=value`` lines to the socket that ``NOTIFY_SOCKET`` names: the whole of the protocol, which
systemd promises to keep. Where nothing is named, nothing is told.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.metrics.vitals import Look, obstacles

log = Logger()

STATUS_SECONDS = 10.0
"""How often the line that ``systemctl status`` shows is looked at, where no watchdog is asked for."""

LONGEST = 400
"""Characters of that line."""


class ServiceManager(Service):
    """
    Says when the host is ready, loads anew, and stops; and, while it is well, that it lives.

    It lives while the reactor turns and the ledger takes records, or only what is vital because the disk is full: no
    start anew makes room there.

    :param environ: of the process; ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID`` are read.
    :param alive: whether the ledger works.
    :param monotonic: the clock that systemd compares the beginning of a reload with.
    """

    name = "service manager"

    def __init__(
        self,
        clock: Any,
        environ: Mapping[str, str],
        alive: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._alive = alive
        self._monotonic = monotonic
        self._look: Look | None = None
        self._line = ""
        self._ready = self._failed = False
        watched = _watchdog(environ)
        self._every = STATUS_SECONDS if watched is None else watched / 2
        self._watched = watched is not None
        self._looking = LoopingCall(self._tick)
        self._looking.clock = clock

    def look_with(self, look: Look) -> None:
        """What the line says from now on is what ``look`` finds."""
        self._look = look

    def startService(self) -> None:
        """Begin to say that the host lives."""
        super().startService()  # type: ignore[no-untyped-call]
        if self._address:
            self._looking.start(self._every, now=False)

    def stopService(self) -> None:
        """The last word."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._looking.running:
            self._looking.stop()

    def ready(self, line: str) -> None:
        """The host is ready, for the first time or again: ``line`` says where."""
        self._ready = True
        self._line = line
        self._tell("READY=1", f"STATUS={self._status()}")

    def reloading(self) -> None:
        """The host reads its files again; :meth:`reloaded` ends it."""
        if self._ready:
            self._tell("RELOADING=1", f"MONOTONIC_USEC={int(self._monotonic() * 1_000_000)}")

    def reloaded(self) -> None:
        """The files were read, with whatever outcome."""
        if self._ready:
            self._tell("READY=1", f"STATUS={self._status()}")

    def stopping(self) -> None:
        """The host ends what runs."""
        self._line, self._look = "stopping: what runs is ended first", None
        self._tell("STOPPING=1", f"STATUS={self._line}")

    def _tick(self) -> None:
        lines = [f"STATUS={self._status()}"] if self._line else []
        if self._watched and self._alive():
            lines.append("WATCHDOG=1")
        if lines:
            self._tell(*lines)

    def _status(self) -> str:
        found = [] if self._look is None else [f"{each.what}: {each.why}" for each in obstacles(self._look())]
        line = f"not ready: {'; '.join(found)}" if found else self._line
        return "".join(character if character.isprintable() else "?" for character in line)[:LONGEST]

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
                # A manager that does not read must not hold the host up: it hears the next word.
                told.setblocking(False)
                told.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                log.warn("the service manager cannot be told: {why}", why=error.strerror)
            self._failed = True


def _address(named: str) -> str:
    """A path, or a name in the abstract namespace, which begins with a NUL for the kernel; empty for neither."""
    if named.startswith("@"):
        return f"\0{named[1:]}"
    return named if named.startswith("/") else ""


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """Seconds within which the manager wants a sign; None where it wants none of this process."""
    given, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdecimal() or not int(given) or whose not in ("", str(os.getpid())):
        return None
    return int(given) / 1_000_000
