"""
The transactions of the one connection that writes.

Theory of operation. A transaction that reads begins with the lock on the one row of table ``store``, so what it reads
stays true until it commits. One that only writes, as for a group of plain records, takes a single message: its first
statement changes that row if the row is as this host left it, and otherwise fails; so the lock is held for the time of
the message alone. Within a message no limit of time of PostgreSQL holds, so a session that got a part of one is ended
by the host that connects again or takes over.

The row says how many transactions there were, so a writer notices those of another one, and it has a fencing token, the
term: a host from which another one took the store over cannot commit any more.

The answer to COMMIT can be lost while the server still carries it out, or before the message reaches the server.
:meth:`Transactions.exclude_late` therefore takes the lock, so that what runs has ended, and changes the row, so that
what comes later fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from agtphost.stores.postgres import statements
from agtphost.stores.postgres.connection import (
    READING_SECONDS,
    STALL_SECONDS,
    STATEMENT_SECONDS,
    DatabaseConflict,
    DatabaseError,
    Session,
)
from agtphost.stores.postgres.lease import PostgresLease
from agtphost.stores.postgres.statement_queue import StatementQueue
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.times import steady

_GROUP_SECONDS: Final = STATEMENT_SECONDS + STALL_SECONDS
"""After which a statement of a group counts as stalled."""

_MOVED: Final = "22012"
"""SQLSTATE of :data:`agtphost.stores.postgres.statements.MOVE_KNOWN` where the row is another one: division by zero."""


class Transactions:
    """
    Opens, commits and rolls back.

    :param dial: connects.
    :param lease: the right to write.
    :param note_rollback: called when a transaction ends without a COMMIT.
    """

    def __init__(self, dial: Callable[[], Session], lease: PostgresLease, note_rollback: Callable[[], object]) -> None:
        self._dial = dial
        self._lease = lease
        self._note_rollback = note_rollback
        self._reading = False  # the whole store is read, for which the lease was kept beforehand
        self._known: statements.Begun | None = None  # the row of the store; None where everything is read next
        self._unsent = False  # a transaction was begun, and nothing of it was sent
        self.committed = 0
        """The number of the newest record that this process has seen."""
        self.last = self.issued_at = 0
        """Of the newest record, those of the open transaction included."""
        self.session = dial()
        self._queue = StatementQueue(self.session)

    @property
    def is_open(self) -> bool:
        """Whether a transaction was begun, and has not ended."""
        return self._unsent or self.session.in_transaction

    @property
    def has_no_record(self) -> bool:
        """Whether no record was added since the last COMMIT."""
        return self._known is None or self.last == self._known.last

    def add(self, statement: str, parameters: Sequence[Any]) -> None:
        """Run a statement whose result is not needed, with ``?`` for parameters, together with the next ones."""
        self._queue.add(statement, parameters)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """
        Run a statement, and return its cursor.

        :raises DatabaseError: it failed, or one that was added before.
        """
        if self._unsent:
            self._send_begin()
        return self._queue.execute(statement, parameters)

    def begin(self) -> bool:
        """
        Begin a transaction, and return whether another writer committed one since this writer's last.

        A transaction that only writes learns that at its end, from an error.

        :raises agtphost.stores.lease.Superseded: another host has taken the store over.
        :raises StoreError: the row of the store is damaged, or of an earlier state.
        """
        if self._known is not None:
            self._unsent = True
            return False
        # Everything is read now, under the lock, which takes longer than a group. So the lease cannot be kept at the
        # same time.
        self._lease.keep(READING_SECONDS)
        self._reading = True
        try:
            begun = self._lock_or_revive()
            self.session.patience = READING_SECONDS + STALL_SECONDS
            self.session.command(statements.READ_ALL)
        except BaseException:
            self.rollback()
            raise
        self._known = begun
        self.last, self.issued_at = begun.last, begun.issued_at
        return True

    def _send_begin(self) -> None:
        """
        Take the lock, as the transaction reads.

        :raises DatabaseConflict: another writer committed something.
        """
        self._unsent = False
        try:
            begun = self._lock_or_revive()
        except BaseException:
            self.forget()
            raise
        if begun != self._known:
            raise self._conflict()

    def _conflict(self) -> DatabaseConflict:
        """Return the error for a transaction whose beginning rests on what is not true any more."""
        self.forget()
        return DatabaseConflict(
            f"{self.session.name}: another program wrote to the store, so this transaction was rolled back"
        )

    def _lock_or_revive(self) -> statements.Begun:
        """Lock the row of the store; by a new connection if the old one had ended between two uses."""
        try:
            return self._lock()
        except DatabaseError as error:
            if not (self.session.may_repeat(error) and self.revive()):
                raise
            return self._lock()

    def _lock(self) -> statements.Begun:
        """
        Open a transaction with the lock, and return the row of the store.

        :raises agtphost.stores.lease.Superseded: another host has taken the store over.
        :raises StoreError: the row is gone, has values that no writer wrote, or is of an earlier state.
        """
        begun = statements.read_begun(self.session.command(statements.BEGIN))
        self._lease.require_held(begun.term, begun.holder)
        if begun.last < self.committed:
            raise StoreError(
                f"{self.session.name} has {begun.last} records, and this host has seen {self.committed}: the database "
                "was restored to an earlier state. Bring the newer one back; to go on with this one knowingly, stop "
                "the host and run `agtp audit accept-store`"
            )
        return begun

    def revive(self) -> bool:
        """Connect again where the server or a firewall ended the session between two uses; return whether it did."""
        if not self.session.is_lost:
            return False
        self.redial()
        return True

    def redial(self) -> None:
        """Replace the session by a new one, which prepares statements if this one did."""
        before = self.session
        # A close that fails must not keep the store from coming back.
        with suppress(Exception):
            before.close()
        self.session = self._queue.session = self._dial()
        if not before.prepares:
            self.session.prepare_nothing()
        # A server that has not noticed the end of the old session would keep the lock for it.
        self._lease.end_partial(self.session)

    def forget(self) -> None:
        """Make the next transaction read everything."""
        self._known = None

    def reopen(self) -> None:
        """Start over with another connection, after a failure."""
        self.forget()
        self._queue.take()
        self._unsent = False
        self.redial()

    def commit(self) -> None:
        """
        Make the transaction durable.

        :raises DatabaseError: it was rolled back, or the answer was lost.
        :raises StoreError: as :meth:`begin`.
        """
        if self._known is None:
            raise StoreError(f"{self.session.name}: no transaction was begun")
        self.session.patience = _GROUP_SECONDS
        sent = steady()
        known, moved = self._known, (self.last, self.issued_at, self._known.news + 1)
        # Where this fails, it may be done all the same: then the row is another one than this host knows.
        self.forget()
        if self._unsent:
            self._unsent = False
            self._commit_unsent(known, moved)
        else:
            self._queue.add(statements.MOVE_STORE, moved)
            self._queue.commit()
        self._lease.note_commit(sent)
        self._reading = False
        self._known = statements.Begun(*moved, known.term, known.holder)
        self.committed = self.last

    def _commit_unsent(self, known: statements.Begun, moved: tuple[int, int, int]) -> None:
        """
        Send the transaction in one message; and again where the connection had ended before that.

        :param known: the row of the store, as this host left it.
        :param moved: what the transaction makes of it.
        """
        writes = self._queue.take()
        try:
            self._queue.run_and_commit([("BEGIN", ()), (statements.MOVE_KNOWN, (*moved, *known)), *writes])
        except DatabaseError as error:
            if error.sqlstate == _MOVED:
                self._report_mover()
            if not (self.session.may_repeat(error) and self.revive()):
                raise
            if self._lock() != known:
                # Perhaps by this very message: the caller asks whether its record is there.
                raise
            self._queue.run_and_commit([*writes, (statements.MOVE_STORE, moved)])

    def _report_mover(self) -> None:
        """
        Report why the row of the store is not as this host left it.

        :raises agtphost.stores.lease.Superseded: another host has taken the store over.
        :raises StoreError: the row is damaged, or of an earlier state; or another writer committed something.
        """
        self.rollback()
        try:
            self._lock()
        finally:
            self.rollback()
        raise self._conflict()

    def rollback(self) -> None:
        """End the transaction, if there is one, without a trace."""
        self._unsent = False
        self._queue.take()
        self.session.patience = _GROUP_SECONDS
        if self._known is not None:
            self.last, self.issued_at = self._known.last, self._known.issued_at
        self._note_rollback()
        if self.session.in_transaction:
            # A lost connection has no transaction any more; the next statement reports it.
            with suppress(DatabaseError):
                self.session.command(b"ROLLBACK")
        if self._reading:
            self._reading = False
            with suppress(DatabaseError):
                self._lease.keep(0)

    @contextmanager
    def run_separately(self) -> Iterator[None]:
        """Run statements under the lock, in a transaction that other writers do not notice."""
        try:
            self._lock()
            yield
            self._queue.commit()
        except BaseException:
            self.rollback()
            raise

    def exclude_late(self) -> None:
        """Make a message fail that this host sent and that has not arrived; within :meth:`run_separately`."""
        self.add(statements.COUNT_NEWS, ())
        self.forget()
