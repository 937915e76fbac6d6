"""
Ends the connections to a database whose server is away, or is there and does not answer.

A server that takes long is asked whether it is still there. The connection is ended where no answer comes, or where a
statement takes longer than the server permits.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

ALIVE_AFTER: Final = 2.0
"""Seconds of a statement after which the server is asked whether it is there."""

PING_SECONDS: Final = 2.0
"""How long it may take to answer that."""

GUARD_SECONDS: Final = 0.5
"""From one look at waiting statements to the next."""

_PING: Final = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
"""SSLRequest: a server, or a pooler, answers it with one octet, without a password and without using a connection."""


def answers(peer: tuple[str, int]) -> bool:
    """
    Return whether a server is there; blocks for :data:`PING_SECONDS` at most.

    :param peer: address and port, or the directory of a UNIX socket.
    """
    host, port = peer
    family, place = socket.AF_INET6 if ":" in host else socket.AF_INET, cast(Any, peer)
    if host.startswith(("/", "@")):
        family, place = socket.AF_UNIX, f"{host}/.s.PGSQL.{port}"
        if host.startswith("@"):
            place = f"\0{place[1:]}"
    end = time.monotonic() + PING_SECONDS
    try:
        with socket.socket(family) as line:
            line.settimeout(PING_SECONDS)
            line.connect(place)
            line.sendall(_PING)
            line.settimeout(max(end - time.monotonic(), 0.01))
            return bool(line.recv(1))
    except OSError:
        return False


class WatchedSession(Protocol):
    """A connection that statements are sent over."""

    @property
    def began(self) -> float:
        """The time at which the statement that is waited for was sent, by :func:`time.monotonic`; 0 without one."""

    @property
    def patience(self) -> float:
        """Seconds after which a statement counts as stalled."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the server; a directory where it has a UNIX socket."""

    def hang_up(self) -> None:
        """Make the statement that another thread waits for fail."""


class StallGuard:
    """Ends connections whose server is away, or there and does not answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: WeakSet[WatchedSession] = WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, session: WatchedSession) -> None:
        """Watch a session for as long as it is used."""
        with self._lock:
            self._sessions.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="agtphost-stalls", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(GUARD_SECONDS)
            with self._lock:
                sessions = list(self._sessions)
                if not sessions:
                    self._thread = None
                    return
            self._look([(session, session.began) for session in sessions if session.began])
            del sessions

    def _look(self, waiting: list[tuple[WatchedSession, float]]) -> None:
        alive: dict[tuple[str, int], bool] = {}
        for session, began in waiting:
            waited = time.monotonic() - began
            stalled = waited > session.patience
            if not stalled and waited > ALIVE_AFTER:
                if session.peer not in alive:
                    alive[session.peer] = answers(session.peer)
                stalled = not alive[session.peer]
            # The statement may have ended by now, and the next one have begun.
            if stalled and session.began == began:
                session.hang_up()


guard: Final = StallGuard()
