"""
Checkpoints the write-ahead log in a thread, so that commits do not wait for it.

Theory of operation. SQLite copies the log into the database within the commit that makes it too long, and that commit,
with every record in it, waits for the disk some ten times as long as any other. So a separate thread with a separate
connection copies first; it and the writer do not block each other. It copies until nothing was committed between two
of its copies: the log then starts anew with the next commit. Where commits come without a pause and little was
committed in the meantime, the writer's connection copies the rest. If much was committed, the thread copies once more,
and once only, because a log that is never copied completely grows. SQLite's own limit stays in force as a fallback, if
the thread is too slow.
"""

from __future__ import annotations

from contextlib import closing, suppress
from threading import Thread

from agtphost.stores.connection import Connect, Connection, open_writer

FOLD_OCTETS = 2 * 1024 * 1024
"""Octets of records, answers and state items after which the log is copied: with indexes some 7 MiB of log."""

COMMIT_OCTETS = 5 * 1024
"""
What a commit counts in addition to its octets: it writes some five pages of 4 KiB, even for one short record. A commit
of eight records writes ten, so both copy the log after some 1,600 pages.

Without them, 110 calls a second filled the log up to SQLite's own limit every four seconds, with 43 of 48 copies made
within a commit.
"""

COPIES = 4
"""Copies of one thread: each after the first takes a few milliseconds."""

LITTLE = 256 * 1024
"""At most so many octets are copied by the writer's thread: a call may arrive while it is copying."""

FOLD = "PRAGMA wal_checkpoint(PASSIVE)"


class WalCheckpointer:
    """
    Decides when to checkpoint, and starts the thread that does it; used by the writer's thread.

    :param opener: opens the second connection.
    :param path: the database file.
    """

    def __init__(self, opener: Connect, path: str) -> None:
        self._opener = opener
        self._path = path
        self._octets = 0
        self._thread: Thread | None = None
        self._again = False
        self._is_copied = False

    def note_commit(self, octets: int, connection: Connection) -> None:
        """
        Count a commit, and start or finish a checkpoint if it is time.

        :param octets: of the records, answers and state items that the commit holds.
        :param connection: the writer's, which copies the rest of the log when the thread has ended.
        """
        self._octets += octets + COMMIT_OCTETS
        if self._thread is None:
            if self._octets >= FOLD_OCTETS:
                self._begin()
        elif self._is_idle():
            if self._is_copied:
                self._again = False
                return
            if self._octets > LITTLE and not self._again:
                self._begin()
                self._again = True
                return
            self._again = False
            with suppress(Exception):  # The log stays; SQLite's own limit says so if it has to.
                connection.execute(FOLD).fetchall()

    def idle(self, connection: Connection) -> None:
        """
        Move the whole log into the database, because nothing is to be written now.

        :raises Exception: what the database raised; the log stays.
        """
        if not self._is_idle():
            return
        if self._octets > LITTLE:
            self._begin()
        else:
            self._octets = 0
            connection.execute(FOLD).fetchall()

    def _is_idle(self) -> bool:
        """Return whether no checkpoint thread is running."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = None
        return True

    def _begin(self) -> None:
        self._octets = 0
        self._is_copied = False
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
        # As in the writer's thread: a failed checkpoint is not a failed commit.
        with suppress(Exception), closing(open_writer(self._opener, self._path)) as connection:
            pages = -1
            for _ in range(COPIES):
                _, found, copied = connection.execute(FOLD).fetchone()
                if 0 <= found <= pages:
                    # Nothing was committed since the copy before, or the log has begun anew after it.
                    self._is_copied = True
                    return
                pages = found if copied == found else -1
