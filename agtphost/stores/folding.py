"""
Folds the write-ahead log into the database beside the commits, not between them.

Theory of operation. SQLite copies the log into the database within the commit
that makes it too long, and that commit, with every record in it, waits for the
disk some ten times as long as any other. So a thread of its own, with a
connection of its own, copies first: writers and it do not exclude each other.
What was committed meanwhile is left for the writer's connection where it is
little; with that the log is wholly copied, and begins anew. Where it is much,
the thread copies once more, and once only: a log that is never wholly copied
grows. SQLite's own limit stays in force behind all this,
for a thread that does not get that far.
"""

from __future__ import annotations

from contextlib import closing, suppress
from threading import Thread

from agtphost.stores.connection import Connect, Connection, open_writer

FOLD_OCTETS = 2 * 1024 * 1024
"""Octets of records, answers and state items after which the log is folded in: with indexes some 5 MiB of log."""

LITTLE = 256 * 1024
"""The same that is folded in by the thread that writes, while it has nothing else to do: a call may come meanwhile."""

FOLD = "PRAGMA wal_checkpoint(PASSIVE)"


class LogFolding:
    """
    Decides when, and does it; used by the thread that writes.

    :param opener: opens the second connection.
    :param path: the database file.
    """

    def __init__(self, opener: Connect, path: str) -> None:
        self._opener = opener
        self._path = path
        self._octets = 0
        self._thread: Thread | None = None
        self._again = False

    def committed(self, octets: int, connection: Connection) -> None:
        """
        Note a commit, and take the next step where one is due.

        :param octets: of the records, answers and state items that it holds.
        :param connection: the writer's, for what is left of the log when the thread is through.
        """
        self._octets += octets
        if self._thread is None:
            if self._octets >= FOLD_OCTETS:
                self._begin()
        elif self._through():
            if self._octets > LITTLE and not self._again:
                self._begin()
                self._again = True
                return
            self._again = False
            with suppress(Exception):  # The log stays; SQLite's own limit says so if it has to.
                connection.execute(FOLD).fetchall()

    def idle(self, connection: Connection) -> None:
        """
        Nothing is to be written: fold in all that there is.

        :raises Exception: what the database raised; the log stays.
        """
        if not self._through():
            return
        if self._octets > LITTLE:
            self._begin()
        else:
            self._octets = 0
            connection.execute(FOLD).fetchall()

    def _through(self) -> bool:
        """Whether no thread is at it."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = None
        return True

    def _begin(self) -> None:
        self._octets = 0
        thread = Thread(target=self._fold, name="agtphost-fold", daemon=True)
        with suppress(RuntimeError):  # No thread to be had: the next commits ask again.
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Wait for the thread, before the writer's connection is closed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _fold(self) -> None:
        # As in the writer's thread: a failure here is no failure of a record.
        with suppress(Exception), closing(open_writer(self._opener, self._path)) as connection:
            connection.execute(FOLD).fetchall()
