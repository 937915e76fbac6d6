"""
Report the host's state to the service manager: ``sd_notify`` of systemd, and anything that speaks this protocol.

The protocol is one datagram of ``NAME=value`` lines to the socket of ``NOTIFY_SOCKET``; systemd promises to keep it
stable. Without that variable nothing is sent.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from agtphost.vocabulary.times import steady
from agtphost.vocabulary.vitals import VitalsReader, obstacles

log = Logger()

STATUS_SECONDS = 10.0
"""Seconds between two updates of the line in ``systemctl status``, if no watchdog is configured."""

LONGEST_STATUS = 400
"""Characters of that line."""


class ServiceManagerNotifier(Service):
    """
    A service that reports when the host is ready, reloads and stops, and sends watchdog notices while it is healthy.

    It is healthy while the reactor turns and the ledger takes all records, or only vital ones because the disk is full:
    a restart would not free space.

    :param environ: of the process; ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID`` are read.
    :param alive: returns whether the ledger works.
    :param monotonic: the clock with which systemd dates the beginning of a reload.
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
        self._look: VitalsReader | None = None
        self._line = ""
        self._ready = self._failed = False
        watched = _watchdog(environ)
        self._every = STATUS_SECONDS if watched is None else watched / 2
        self._watched = watched is not None
        self._timer = LoopingCall(self._tick)
        self._timer.clock = clock

    def look_with(self, look: VitalsReader) -> None:
        """Let the status line report what ``look`` finds."""
        self._look = look

    def startService(self) -> None:
        """Start the periodic notices."""
        super().startService()  # type: ignore[no-untyped-call]
        if self._address:
            self._timer.start(self._every, now=False)

    def stopService(self) -> None:
        """Stop the periodic notices."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._timer.running:
            self._timer.stop()

    def notify_ready(self, line: str) -> None:
        """Report that the host is ready, for the first time or again; ``line`` says where it serves."""
        self._ready = True
        self._line = line
        self._send("READY=1", f"STATUS={self._status()}")

    def notify_status(self, line: str) -> None:
        """Report another status line, without a change of readiness."""
        self._line = line
        self._send(f"STATUS={self._status()}")

    def notify_reloading(self) -> None:
        """Report that the host reads its files again, until :meth:`end_reload`."""
        if self._ready:
            self._send("RELOADING=1", f"MONOTONIC_USEC={int(self._monotonic() * 1_000_000)}")

    def end_reload(self) -> None:
        """Report that the reload has ended, successful or not."""
        if self._ready:
            self._send("READY=1", f"STATUS={self._status()}")

    def notify_stopping(self) -> None:
        """Report that the host stops."""
        self._line, self._look = "stopping: waiting for running calls", None
        self._send("STOPPING=1", f"STATUS={self._line}")

    @contextmanager
    def keep_alive(self, seconds: float) -> Iterator[None]:
        """Send watchdog notices by a thread while the reactor's thread is busy, for so many seconds at most."""
        done = threading.Event()
        thread = threading.Thread(target=self._send_until, args=(done, seconds), name="agtphost-watchdog", daemon=True)
        if self._address and self._watched:
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.ident is not None:
                thread.join()

    def _send_until(self, done: threading.Event, seconds: float) -> None:
        end = steady() + seconds
        while not done.is_set() and steady() < end:
            self._send("WATCHDOG=1")
            done.wait(self._every)

    def _tick(self) -> None:
        lines = [f"STATUS={self._status()}"] if self._line else []
        if self._watched and self._alive():
            lines.append("WATCHDOG=1")
        if lines:
            self._send(*lines)

    def _status(self) -> str:
        found = [] if self._look is None else [f"{each.what}: {each.why}" for each in obstacles(self._look())]
        line = f"not ready: {'; '.join(found)}" if found else self._line
        return "".join(character if character.isprintable() else "?" for character in line)[:LONGEST_STATUS]

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
                # A manager that does not read must not block the host; the next notice has the present state.
                told.setblocking(False)
                told.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                log.warn("the service manager cannot be notified: {why}", why=error.strerror)
            self._failed = True


def _address(named: str) -> str:
    """
    Return the address of a path or a name in the abstract namespace, which begins with NUL; empty for anything else.
    """
    if named.startswith("@"):
        return f"\0{named[1:]}"
    return named if named.startswith("/") else ""


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """Return the seconds within which the manager expects a notice, or None if it expects none of this process."""
    given, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdecimal() or not int(given) or whose not in ("", str(os.getpid())):
        return None
    return int(given) / 1_000_000
