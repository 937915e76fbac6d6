"""
Hear that a host gave the lease up, so that a standby need not wait for its next look.

PostgreSQL's NOTIFY only wakes: a standby that hears nothing finds the same by looking. Behind a pooler in transaction
mode nothing is heard, because the session that listens is given to others; no connection is kept then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Final

from twisted.logger import Logger

from agtphost.stores.postgres.connection import Address, Session, dial
from agtphost.stores.rows import StoreError

RELEASED: Final = "agtphost_lease"
"""The channel of PostgreSQL's NOTIFY; all stores of a database share it, and a needless look harms nothing."""

RETRY_SECONDS: Final = 5.0
"""From the loss of the connection to the next attempt."""

WAIT_SECONDS: Final = 3_600.0
"""How long one wait takes at most."""

log = Logger()


class ReleaseListener:
    """
    A thread that listens with a separate connection.

    :param wake: called in that thread.
    """

    def __init__(self, address: Address, wake: Callable[[], object]) -> None:
        self._address = address
        self._wake = wake
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agtphost-listen", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()
        with self._lock:
            if self._session is not None:
                self._session.hang_up()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(dial(self._address, writer=False)) as session:
                    if session.is_pooled:
                        log.info(
                            "{database} is behind a pooler, where a standby cannot hear that the lease is given up; it "
                            "looks every half second",
                            database=session.name,
                        )
                        return
                    self._listen(session)
            except StoreError:
                # Looks report a database that is away.
                self._stopped.wait(RETRY_SECONDS)

    def _listen(self, session: Session) -> None:
        session.execute(f"LISTEN {RELEASED}")
        with self._lock:
            if self._stopped.is_set():
                return
            self._session = session
        try:
            # The lease may have been given up before.
            self._wake()
            while not self._stopped.is_set():
                if session.wait_for_notice(WAIT_SECONDS):
                    self._wake()
        finally:
            with self._lock:
                self._session = None
