"""The lease of a store in a PostgreSQL database: taken, kept and given up by one UPDATE of the row of the store."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Final

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import (
    Holder,
    HostProcess,
    LeaseState,
    Superseded,
    compare_clocks,
    read_holder,
    require_unmoved,
)
from agtphost.stores.postgres.connection import (
    IDLE_SECONDS,
    READING_SECONDS,
    STATEMENT_SECONDS,
    Address,
    DatabaseError,
    Session,
    dial,
    escape,
)
from agtphost.stores.postgres.listening import RELEASED, ReleaseListener
from agtphost.stores.postgres.processes import FORGET, write_process
from agtphost.stores.postgres.schema_files import require_usable
from agtphost.stores.postgres.statements import limit_transaction
from agtphost.vocabulary.times import steady

log = Logger()

LIMITS: Final = limit_transaction(STATEMENT_SECONDS, IDLE_SECONDS)
"""They hold for one transaction, which a message with several statements is, too."""

LOOK: Final = (
    "SELECT term, holder, extract(epoch FROM clock_timestamp() - beat)::float8, extract(epoch FROM beat)::float8, "
    "last, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM store"
)

HELD: Final = b"term = %d AND sha256(convert_to(holder, 'UTF8')) = decode('%b', 'hex')"
"""
Condition that this host still has the lease: its term, and what it wrote as the holder.

The term alone is not enough. After a database was restored to an earlier state, another host may have taken the lease
with the same term.
"""

STAY: Final = (
    b"least(greatest(beat, clock_timestamp()), clock_timestamp() + make_interval(secs => %d))" % READING_SECONDS
)
"""The time of a beat: not before what the host kept beforehand, which a clock that went back would extend."""

KEEP: Final = b"UPDATE store SET beat = %b WHERE " + HELD + b" RETURNING extract(epoch FROM clock_timestamp())::float8"
GIVE_UP: Final = b"UPDATE store SET holder = '' WHERE " + HELD + b"; NOTIFY " + RELEASED.encode()

RELEASES: Final = 3
"""Tries to give the lease up; each is limited to :data:`STATEMENT_SECONDS`."""

PUBLISH: Final = (
    "INSERT INTO published (one, value) SELECT 1, ?::text FROM ("
    "SELECT FROM store WHERE term = ?::bigint AND sha256(convert_to(holder, 'UTF8')) = decode(?::text, 'hex') FOR SHARE"
    ") AS held ON CONFLICT (one) DO UPDATE SET value = excluded.value"
)
"""The row of the store stays locked until the end, so that no other host takes the lease in between."""

END_PARTIAL: Final = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid) CROSS JOIN store "
    b"WHERE datname = current_database() AND database = datid AND relation = 'store'::regclass "
    b"AND mode IN ('RowShareLock', 'RowExclusiveLock') AND state = 'active' AND wait_event = 'ClientRead' AND " + HELD
)
"""
Ends sessions that have the row of the store locked and got only a part of a message.

PostgreSQL waits for the rest without a limit: ``idle_in_transaction_session_timeout`` and ``statement_timeout`` do not
hold within a message.
"""

SILENT: Final = b" AND (holder = '' OR beat < clock_timestamp() - make_interval(secs => %f))"
"""Condition that the lease is over at this moment, as in :data:`TAKE`: its holder may have written since a look."""

TAKE: Final = (
    "UPDATE store SET term = term + 1, holder = ?, beat = clock_timestamp() WHERE term = ? AND (holder IN ('', ?) OR "
    "beat < clock_timestamp() - make_interval(secs => ?)) RETURNING term"
)


def _fence(term: int, holder: str) -> tuple[int, bytes]:
    """Return the parameters of :data:`HELD`."""
    return term, sha256(escape(holder).encode()).hexdigest().encode()


def _end_partial(session: Session, term: int, holder: str, condition: bytes = b"") -> None:
    """Run :data:`END_PARTIAL`, which does nothing where the row of the store has another term or holder."""
    session.command(LIMITS + END_PARTIAL % _fence(term, holder) + condition)


@contextmanager
def _log_failure() -> Iterator[None]:
    """Log why sessions could not be ended, for which the user may have no right; the lock may be free all the same."""
    try:
        yield
    except DatabaseError as error:
        log.error("sessions that may have the store locked were not ended: {why}", why=str(error))


@implementer(ILease)
class PostgresLease:
    """
    The lease of a store, with a separate connection, so that it can be kept while the store is being read.

    Any thread may use it, one at a time.

    :param me: this host.
    :param server_id: of the host; the store of another one is refused.
    """

    def __init__(self, address: Address, me: Holder, server_id: str) -> None:
        self._address = address
        self._server_id = server_id
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._reported = ""  # the id of the process that was reported
        self.me = me
        self.term = 0
        self._held = ""  # column holder, as this host wrote it
        self._listener: ReleaseListener | None = None
        self.confirmed = -math.inf
        self.clock_ahead = 0.0
        self.when_superseded: Callable[[Superseded], object] = lambda error: None

    @property
    def name(self) -> str:
        """The database in messages."""
        return self._address.name

    def look(self) -> LeaseState:
        """
        Return who holds the lease.

        :raises agtphost.stores.moves.StoreMoved: the store was copied to another place.
        """
        with self._lock:
            seen, _ = self._look()
        require_unmoved(self.name, seen.holder)
        return seen

    def _look(self) -> tuple[LeaseState, str]:
        """Return who holds the lease, and the time of the database as text."""
        began = time.time()
        row = self._run(lambda session: session.execute(LOOK).fetchone())
        if row is None:
            raise DatabaseError(f"{self.name} has no row in table store; restore the database from a backup")
        term, text, age, beat, last, now = row
        self.clock_ahead = compare_clocks(began, beat + age, time.time())
        return LeaseState(term, read_holder(text), text, age, beat, last), now

    def take(self) -> bool:
        """
        Take the lease with a new term, if it is over, or this host's own.

        :raises agtphost.stores.moves.StoreMoved: the store was copied to another place.
        """
        sent = steady()
        with self._lock:
            seen, now = self._look()
            require_unmoved(self.name, seen.holder)
            mine = seen.holder is not None and seen.holder.is_same_host(self.me)
            if not (mine or seen.is_over):
                return False
            hold = 0.0 if seen.holder is None else seen.holder.takeover_after
            with _log_failure():
                silent = b"" if mine else SILENT % hold
                self._run(lambda session: _end_partial(session, seen.term, seen.text, silent))
            held = (self.me.to_text(now), seen.term, seen.text if mine else "", hold)
            term = self._take(held)
        if term:
            self.term = term
            self._held = held[0]
            self.confirmed = sent
        return bool(term)

    def _take(self, held: Sequence[Any]) -> int:
        """Return the new term; 0 where another host was faster."""

        def take(session: Session) -> int:
            session.command(b"BEGIN; " + LIMITS)
            try:
                row = session.execute(TAKE, held).fetchone()
            except BaseException:
                with suppress(DatabaseError):
                    session.command(b"ROLLBACK")
                raise
            done = session.command(b"COMMIT").command_status == b"COMMIT"
            return int(row[0]) if done and row is not None else 0

        term: int = self._run(take)
        return term

    def keep(self, ahead: int | None = None) -> None:
        """
        Confirm the lease.

        :param ahead: whole seconds for which this host may not be able to confirm it again; a call without it does not
            take them back.
        :raises Superseded: another host has taken it.
        """
        sent = steady()
        beat = STAY if ahead is None else b"clock_timestamp() + make_interval(secs => %d)" % ahead
        began = time.time()
        with self._lock:
            if not self.term:
                return
            kept = self._run(lambda session: session.command(LIMITS + KEEP % (beat, *_fence(self.term, self._held))))
        if not kept.ntuples:
            self.end(None)
        self.clock_ahead = compare_clocks(began, float(kept.get_value(0, 0)), time.time())
        self.note_commit(sent)

    def end_partial(self, session: Session) -> None:
        """End sessions that keep the lock for the rest of a message which this host does not send any more."""
        if self.term:
            with _log_failure():
                _end_partial(session, self.term, self._held)

    def require_held(self, term: int, holder: str) -> None:
        """
        Compare what the row of the store says with what this host wrote when it took the lease.

        :raises Superseded: another host has taken it.
        """
        if (term, holder) != (self.term, self._held):
            self.end(LeaseState(term, read_holder(holder), holder, 0.0, 0.0))

    def note_commit(self, sent: float) -> None:
        """Note that the database confirmed a transaction under this term; ``sent`` is when it was sent."""
        self.confirmed = max(self.confirmed, sent)

    def end(self, seen: LeaseState | None) -> None:
        """
        Report that this host has the lease no more.

        :param seen: what the row of the store says; None to read it.
        :raises Superseded: the row is another host's, or of an earlier state of the database.
        :raises DatabaseError: the row cannot be read, or is this host's again, as while the database is being restored.
        """
        if seen is None:
            with self._lock:
                seen, _ = self._look()
            if (seen.term, seen.text) == (self.term, self._held):
                raise DatabaseError(f"{self.name} had another row in table store a moment ago")
        if seen.term < self.term or (seen.term == self.term and seen.holder is None):
            holder = "no holder" if seen.holder is None else f"the holder {seen.holder}"
            ended = f"was restored to an earlier state: its lease has term {seen.term} and {holder}"
        elif seen.holder is not None and seen.holder.move is not None:
            ended = f"was copied to {seen.holder.move.target} on {seen.holder.move.at}"
        else:
            ended = f"was taken over by {seen.holder or 'another host'}, with term {seen.term}"
        error = Superseded(
            f"{self.name} {ended}; this host had term {self.term}, which the database confirmed "
            f"{steady() - self.confirmed:.1f} s ago, and has to end"
        )
        self.when_superseded(error)
        raise error

    def read_published(self) -> str:
        """Return the numbers of what was published."""
        with self._lock:
            row = self._run(lambda session: session.execute("SELECT value FROM published").fetchone())
        return "" if row is None else str(row[0])

    def write_published(self, text: str) -> None:
        """Replace the numbers of what was published, under this host's term."""
        with self._lock:
            given = (text, self.term, _fence(self.term, self._held)[1].decode())
            done = self._run(lambda session: session.run_together([(PUBLISH, given)]))
        if not done.command_tuples:
            self.end(None)

    def report(self, process: HostProcess) -> None:
        """Write the row of this process."""
        with self._lock:
            first = self._reported != process.id
            self._run(lambda session: write_process(session, LIMITS, process, first=first))
            self._reported = process.id

    def listen(self, wake: Callable[[], object]) -> None:
        """Call a function, in another thread, when a host gives the lease up; until :meth:`stop_listening`."""
        self._listener = ReleaseListener(self._address, wake)
        self._listener.start()

    def stop_listening(self) -> None:
        """Stop calling the function, and close the connection that was used for it."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None

    def give_up(self) -> None:
        """
        Give the lease up, if this host has it, and close the connection. A lasting failure leaves it to its end.

        The row of this process is removed.
        """
        with self._lock:
            if self._reported:
                with suppress(DatabaseError):
                    self._run(lambda session: session.execute(FORGET, (self._reported,)))
                self._reported = ""
            if self.term:
                self._release()
            self.term = 0
            self._held = ""
            self.confirmed = -math.inf
            if self._session is not None:
                self._session.close()
                self._session = None

    def _release(self) -> None:
        """
        Give the lease up, and try again while the database is there.

        Otherwise a lock that is held for a moment, or a stalled disk, would cost callers the whole time of the lease.
        """
        for left in reversed(range(RELEASES)):
            try:
                self._run(lambda session: session.command(LIMITS + GIVE_UP % _fence(self.term, self._held)))
                return
            except DatabaseError as error:
                # Without a session, the database could not be reached.
                if not left or self._session is None:
                    log.error(
                        "the lease was not given up, so another host takes over {seconds:.0f} s later only: {why}",
                        seconds=self.me.takeover_after,
                        why=str(error),
                    )
                    return

    def _run(self, work: Callable[[Session], Any]) -> Any:
        """Call a function with a connection; with a new one where the old one has ended."""
        if self._session is not None:
            if not self._session.is_lost:
                try:
                    return work(self._session)
                except DatabaseError as error:
                    if not self._session.may_repeat(error):
                        raise
            self._session.close()
            self._session = None
        session = dial(self._address, writer=True)
        try:
            require_usable(session, self._server_id)
        except BaseException:
            session.close()
            raise
        self._session = session
        return work(session)
