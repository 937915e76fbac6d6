"""
How a PostgreSQL database is reached, which settings are refused, and how its errors are reported.

psycopg waits for an answer as long as the connection lives. A machine that vanishes is noticed by the kernel
(``tcp_user_timeout``, keepalives) where the last octets sent were not acknowledged. :mod:`.stall_guard` notices the
rest. So no statement waits longer than five seconds for a server that is away, and no connection longer than four. A
COMMIT whose answer is lost is asked about over a new connection, so its callers wait for both.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import conninfo, pq
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from agtphost.stores.postgres.error_texts import explain_error, find_state
from agtphost.stores.postgres.pipeline import Pipeline
from agtphost.stores.postgres.replication import find_replica_fault
from agtphost.stores.postgres.stall_guard import ALIVE_AFTER, guard
from agtphost.stores.rows import ConflictError, StoreError
from agtphost.vocabulary import database_url

CONNECT_SECONDS: Final = 4
"""How long a connection may take to be made."""

STATEMENT_SECONDS: Final = 5
"""How long a statement of a transaction may take, the wait for another writer included."""

READING_SECONDS: Final = 60
"""The same where the whole store is read, as at a start."""

IDLE_SECONDS: Final = 2
"""How long a transaction may wait for its next statement: a writer that vanished releases the lock then."""

STALL_SECONDS: Final = 2
"""How much longer than the server should take a statement the client waits."""

OLDEST: Final = 14
"""The earliest version of PostgreSQL that is used."""

UNSAFE: Final[Mapping[str, tuple[str, ...]]] = {
    "fsync": ("off",),
    "full_page_writes": ("off",),
    "synchronous_commit": ("off", "local"),
}
"""Values of settings with which acknowledged records can be lost."""

ISOLATION: Final = "read committed"
"""The isolation level in which a transaction that waited for the lock reads what the one before it wrote."""

CONFLICTS: Final = ("40001", "40P01")
"""SQLSTATEs of transactions that may be repeated: serialization failure, deadlock."""

WARNED: Final = "01000"
"""
SQLSTATE of the warning that comes with a COMMIT whose wait for a synchronous replica was cancelled, as by
``pg_cancel_backend``: the records are on the primary server alone.
"""

_OTHERS = ("CockroachDB", "YugabyteDB", "-YB-")
"""Parts of ``version()`` of databases that speak PostgreSQL's protocol and were never tested as a store."""

_SETTINGS = """
    SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('server_encoding'),
        current_setting('default_transaction_read_only'), current_setting('fsync'),
        current_setting('full_page_writes'), current_setting('synchronous_commit'),
        current_setting('default_transaction_isolation')
"""


class DatabaseError(StoreError):
    """
    An error of the database, with its SQLSTATE.

    :param sqlstate: five characters; empty where the connection failed.
    :param original: what the server or its library says.
    :param waited: seconds until it was noticed.
    """

    def __init__(self, message: str, sqlstate: str = "", original: str = "", waited: float = 0.0) -> None:
        super().__init__(message)
        self.waited = waited
        self.original = original
        self.sqlstate = sqlstate


class DatabaseConflict(DatabaseError, ConflictError):
    """A transaction that may be repeated: it met another one."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a database, and how a session there is opened."""

    url: str
    """``postgresql://...``, without a password."""

    password: str | None = field(default=None, repr=False)
    application: str = "agtphost"
    """Shown in ``pg_stat_activity``."""

    synchronous: bool = False
    """Whether a database without a synchronous replica is refused for writing."""

    @property
    def name(self) -> str:
        """The database in messages."""
        return database_url.name_of(self.url)


def dial(address: Address, *, writer: bool) -> Session:
    """
    Connect to a database.

    :param writer: whether the settings that durability rests on are checked.
    :raises StoreError: it cannot be reached, or a setting would lose data.
    """
    parameters: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": address.application,
        "tcp_user_timeout": 2000,
        "keepalives_idle": 1,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        **({} if database_url.on_this_machine(address.url) else {"sslmode": "verify-full", "sslrootcert": "system"}),
    }
    try:
        given = conninfo.conninfo_to_dict(address.url)
        if "sslmode" in given or "sslrootcert" in given:
            # The system's authorities are only for verify-full.
            parameters.pop("sslrootcert", None)
        named = any("," in str(given.get(name, "")) for name in ("host", "hostaddr"))
        several = named and "target_session_attrs" not in given
        if several:
            parameters["target_session_attrs"] = "read-write"
        parameters.update(given)
        if address.password is not None:
            parameters["password"] = address.password
        parameters["client_encoding"] = "UTF8"
        try:
            connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=1)
        except psycopg.OperationalError:
            # A replica may lack the newest records, and is read only where no server takes writes.
            if writer or not several:
                raise
            del parameters["target_session_attrs"]
            connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=1)
    except psycopg.Error as error:
        said = _explain(error)
        state = error.sqlstate or find_state(said)
        shown = f" (SQLSTATE {state})" if state else ""
        raise DatabaseError(
            f"{address.name} cannot be reached: {explain_error(said, state)}{shown}", state, said
        ) from error
    session = Session(connection, address.name)
    try:
        _note_pooler(session, connection)
        if writer:
            _check(session)
            if address.synchronous and (fault := find_replica_fault(session.execute)):
                raise StoreError(f"{session.name} {fault}; [store] require_synchronous_standby demands one")
    except BaseException:
        session.close()
        raise
    return session


def _note_pooler(session: Session, connection: psycopg.Connection[Any]) -> None:
    """
    Prepare no statements behind a connection pooler.

    A pooler in transaction mode gives each transaction another session of the server, which does not know what an
    earlier one prepared. It names itself by another process id than the server's.
    """
    (pid,) = session.execute("SELECT pg_backend_pid()").fetchone()
    if pid != connection.info.backend_pid:
        connection.prepare_threshold = None
        session.is_pooled = True


def _check(session: Session) -> None:
    """
    Refuse a database that would lose data, or that was never tested as a store.

    :raises StoreError: naming the setting and its value.
    """
    (version,) = session.execute("SELECT version()").fetchone()
    row: Sequence[Any] = () if is_foreign(version) else session.execute(_SETTINGS).fetchone()
    if fault := find_fault(version, row):
        raise StoreError(f"{session.name} cannot be a store: {fault}")


def is_foreign(version: str) -> bool:
    """Return whether a database that answers ``version()`` so is another one than PostgreSQL."""
    return any(each in version for each in _OTHERS) or not version.startswith("PostgreSQL")


def find_fault(version: str, row: Sequence[Any]) -> str:
    """
    Return why a database cannot be a store; empty if it can.

    :param version: the answer of ``version()``.
    :param row: version number, whether it is a replica, encoding, whether transactions only read, ``fsync``,
        ``full_page_writes``, ``synchronous_commit``, ``default_transaction_isolation``.
    """
    if is_foreign(version):
        return f"it is {version[:60]!r}, which was never tested as a store; use PostgreSQL {OLDEST} or later"
    number, replica, encoding, read_only, *settings, isolation = row
    if number < OLDEST * 10_000:
        return f"it is PostgreSQL {number // 10_000}; use version {OLDEST} or later"
    if replica:
        return "it is a replica (pg_is_in_recovery), which takes no writes; name the primary server"
    if encoding != "UTF8":
        return f"its encoding is {encoding}; create the database with ENCODING 'UTF8' TEMPLATE template0"
    if read_only == "on":
        return "default_transaction_read_only is on; set it to off for this role and database"
    for name, value in zip(UNSAFE, settings, strict=True):
        if value in UNSAFE[name]:
            return f"{name} is {value}, and a crash would lose acknowledged records; set {name} = on"
    if isolation != ISOLATION:
        return (
            f"default_transaction_isolation is {isolation}, with which a transaction fails where it had to wait for "
            f"another one; set it to {ISOLATION!r} for this role and database"
        )
    return ""


def _explain(error: psycopg.Error) -> str:
    """Return what an error says, in one line, without values of rows."""
    primary = error.diag.message_primary if error.sqlstate else None
    return " ".join((primary or str(error) or repr(error)).split())


_NUL, _MARK = "\0", "\U0010fffe"


def escape(text: str) -> str:
    """Return a text without NUL, which PostgreSQL cannot store; :func:`unescape` gives the text back."""
    if _NUL in text or _MARK in text:
        return text.replace(_MARK, f"{_MARK}1").replace(_NUL, f"{_MARK}0")
    return text


def unescape(text: str) -> str:
    """Return the text that was escaped."""
    if _MARK in text:
        return text.replace(f"{_MARK}0", _NUL).replace(f"{_MARK}1", _MARK)
    return text


class _TextDumper(Dumper):
    format = Format.BINARY
    oid = 25

    def dump(self, obj: str) -> bytes:
        return escape(obj).encode()


class _TextLoader(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> str:
        return unescape(str(data, "utf-8"))


@lru_cache(maxsize=512)
def _translate(statement: str) -> str:
    """Return a statement with psycopg's notation of parameters."""
    return statement.replace("?", "%b")


class Session:
    """
    A connection, whose errors are :class:`DatabaseError`; used by one thread at a time.

    :param name: the database in messages.
    """

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        connection.adapters.register_dumper(str, _TextDumper)
        connection.adapters.register_loader("text", _TextLoader)
        self._connection = connection
        self._pipeline = Pipeline(connection)
        self._peer = connection.info.hostaddr or connection.info.host, connection.info.port
        self._warning = ""
        connection.add_notice_handler(self._note_warning)
        self.name = name
        self.patience: float = STATEMENT_SECONDS + STALL_SECONDS
        """Seconds after which a statement counts as stalled."""
        self.began = 0.0
        """When the statement that is waited for was sent; 0 without one."""
        self.is_pooled = False
        """Whether a pooler was noticed between this connection and the server."""
        guard.add(self)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """
        Run one statement, with ``?`` for parameters, and return its cursor.

        :raises DatabaseError: it failed.
        """
        self.began = time.monotonic()
        try:
            return self._connection.execute(_translate(statement), parameters, binary=True)
        except psycopg.Error as error:
            self._note_failure(error.sqlstate)
            waited = time.monotonic() - self.began
            raise self._failure(_explain(error), error.sqlstate or "", waited) from error
        finally:
            self.began = 0.0

    def command(self, statements: bytes) -> pq.abc.PGresult:
        """
        Run several statements in one message, and return the result of the last.

        :raises DatabaseError: one of them failed; the later ones were not run.
        """
        self._warning = ""
        self.began = began = time.monotonic()
        try:
            result = self._connection.pgconn.exec_(statements)
        except psycopg.Error as error:
            raise self._failure(_explain(error), "", time.monotonic() - began) from error
        finally:
            self.began = 0.0
        return self._require(result, began)

    def run_together(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> pq.abc.PGresult:
        """
        Run statements with their parameters in one message, and return the result of the last.

        :raises DatabaseError: one of them failed; the later ones were not run.
        """
        self._warning = ""
        self.began = began = time.monotonic()
        try:
            result = self._pipeline.run(statements)
        except psycopg.Error as error:
            raise self._failure(_explain(error), "", time.monotonic() - began) from error
        finally:
            self.began = 0.0
        return self._require(result, began)

    def _require(self, result: pq.abc.PGresult, began: float) -> pq.abc.PGresult:
        """
        Return a result.

        :raises DatabaseError: it is that of a statement that failed, or the server warned of it.
        """
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            if self._warning:
                raise self._failure(self._warning, WARNED, time.monotonic() - began)
            return result
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode("ascii", "replace")
        self._note_failure(state)
        primary = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        text = " ".join(primary.decode("utf-8", "replace").split())
        raise self._failure(text, state, time.monotonic() - began)

    def _note_warning(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Note what makes a COMMIT uncertain: its wait for a synchronous replica was cancelled."""
        if diagnostic.sqlstate == WARNED and diagnostic.severity_nonlocalized == "WARNING":
            self._warning = " ".join((diagnostic.message_primary or "").split())

    def _note_failure(self, state: str | None) -> None:
        if state in ("26000", "42P05"):
            # A pooler gave this session another server session, which does not know our prepared statements.
            self.prepare_nothing()

    def prepare_nothing(self) -> None:
        """Send each statement as text from now on."""
        self._connection.prepare_threshold = None

    @property
    def prepares(self) -> bool:
        """Whether statements are prepared."""
        return self._connection.prepare_threshold is not None

    def wait_for_notice(self, seconds: float) -> bool:
        """
        Wait for a NOTIFY on a channel that this session listens to, and return whether there was one.

        :raises DatabaseError: the connection ended.
        """
        try:
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error as error:
            raise self._failure(_explain(error), error.sqlstate or "") from error

    def copy_out(self, statement: str, types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """
        Yield the rows of a query as they arrive, so that a table of any size takes little memory.

        :param types: of the columns.
        :raises DatabaseError: it failed.
        """
        try:
            with self._connection.cursor().copy(f"COPY ({statement}) TO STDOUT (FORMAT BINARY)".encode()) as copy:
                copy.set_types(types)
                yield from copy.rows()
        except psycopg.Error as error:
            raise self._failure(_explain(error), error.sqlstate or "") from None

    def copy_in(self, statement: str, types: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """
        Send rows to a COPY statement in binary form.

        :param types: of the columns.
        :raises DatabaseError: it failed.
        """
        try:
            with self._connection.cursor().copy(statement.encode()) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise self._failure(_explain(error), error.sqlstate or "") from None

    def _failure(self, message: str, sqlstate: str, waited: float = 0.0) -> DatabaseError:
        state = f" (SQLSTATE {sqlstate})" if sqlstate else ""
        kind = DatabaseConflict if sqlstate in CONFLICTS else DatabaseError
        return kind(f"{self.name}: {explain_error(message, sqlstate)}{state}", sqlstate, message, waited)

    def may_repeat(self, error: DatabaseError) -> bool:
        """Return whether a new connection may help: this one had ended before, which shows immediately."""
        return self.is_lost and error.waited < ALIVE_AFTER

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not; a lost connection has none."""
        return self._connection.pgconn.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
            pq.TransactionStatus.ACTIVE,
        )

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.pgconn.status != pq.ConnStatus.OK

    @property
    def usable(self) -> bool:
        """Whether the connection is there, without a transaction."""
        return self._connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the server; a directory where it has a UNIX socket."""
        return self._peer

    def hang_up(self) -> None:
        """Make the statement that another thread waits for fail."""
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the server rolls an open transaction back."""
        self._connection.close()
