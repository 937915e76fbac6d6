"""The writing side in SQLite: one connection, used by the ledger's writer thread (design decision 8)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from zope.interface import implementer

from agtphost.stores import upgrade
from agtphost.stores.block_writer import lacks_blocks, write_blocks
from agtphost.stores.connection import Connect, Connection, connect, explain_failure, open_writer
from agtphost.stores.database_check import looked_at
from agtphost.stores.facet_rows import FacetNumbers
from agtphost.stores.interfaces import IChainStore
from agtphost.stores.keyed_digests import sealed_use
from agtphost.stores.record_reader import FIND, RecordReader
from agtphost.stores.row_shapes import LARGEST, check_row
from agtphost.stores.rows import (
    FACET,
    SIGNED,
    AnswerRow,
    CheckpointRow,
    DamagedRecord,
    DamagedRow,
    HeadRow,
    ItemRow,
    KeyedRow,
    RecordRow,
    ReservationRow,
    SignedRow,
    StateChangeRow,
    StateRow,
    StoredRecord,
    StoreError,
)
from agtphost.stores.sql_reader import read_checkpoint, read_records, read_tile
from agtphost.stores.sqlite_move import require_unmoved
from agtphost.stores.state_rows import read_signed, read_state_changes
from agtphost.stores.table_interfaces import ITableSource
from agtphost.stores.table_rows import TableRows
from agtphost.stores.wal_checkpoint import WalCheckpointer
from agtphost.vocabulary.foreign_errors import explain

ROWS = 128
"""Rows of one INSERT: enough for one statement a commit, few enough to keep each number compiled."""

PROBE_OCTETS = 1 << 20
"""What a store that was full has to take before it counts as healthy: some hundred records."""

PRUNED_AT_ONCE = 1000
"""Reservations dropped in one moment."""

_HEADS = """
    SELECT c.agent_id, r.chain, r.number, r.seq, r.audit_id, r.issued_at, r.signed
    FROM chain c CROSS JOIN record r ON r.chain = c.number
    AND r.seq = (SELECT max(seq) FROM record WHERE chain = c.number)
"""
"""One search per chain, by UNIQUE (chain, seq): CROSS JOIN keeps SQLite from walking the records instead."""


@cache
def _insert(into: str, columns: int, rows: int, tail: str = "") -> str:
    """``INSERT`` of so many rows: one statement runs once where many would wait for each other's turn."""
    places = ",".join(["(" + ",".join("?" * columns) + ")"] * rows)
    return f"{into} VALUES {places} {tail}"


_ITEMS = "SELECT kind, key, owner, version, expires_at, value FROM held"
_PUT_ITEMS = "INSERT OR REPLACE INTO held (kind, key, owner, version, expires_at, value)"

_RECORDS = (
    "INSERT INTO record "
    "(number, chain, seq, audit_id, previous, kind, format, issued_at, status, method, path, caller, signed, "
    "session, task, facet)"
)
_TILES = "INSERT INTO tile (level, number, hashes)"
_TILES_TAIL = (
    # A tile only ever grows: a writer that knows less than the store must not cut it.
    "ON CONFLICT (level, number) DO UPDATE SET hashes = excluded.hashes "
    "WHERE length(excluded.hashes) > length(tile.hashes)"
)
_STATE_CHANGES = "INSERT INTO state_change (number, record, kind, key, leaf)"
_USE = "SELECT owner, keys, octets, since, digest FROM keyed WHERE owner = ?"
_RESERVATIONS = "INSERT OR REPLACE INTO reservation (name, digest, reserved_at, result, owner, seal, record)"
_RESULTS = "INSERT INTO reservation (name, digest, reserved_at, result, record)"
_RESULTS_TAIL = "ON CONFLICT (name) DO UPDATE SET result = excluded.result, record = excluded.record"


@cache
def _find_items(keys: int) -> str:
    """``SELECT`` of so many state items of one kind."""
    return f"{_ITEMS} WHERE kind = ? AND key IN ({','.join('?' * keys)})"


@implementer(IChainStore, ITableSource)
class SQLiteStore:
    """
    A database file.

    Built by :func:`open_sqlite`.

    :param path: the file; it exists and has the latest schema.
    :param opener: what opens connections.
    """

    def __init__(self, path: Path, opener: Connect, connection: Connection) -> None:
        self.path = path
        self._opener = opener
        self._connection = connection
        self._execute = connection.execute
        self._version = -1
        self._folding = WalCheckpointer(opener, str(path))
        self._octets = 0
        self._facets = FacetNumbers(self._execute)

    def reader(self) -> RecordReader:
        """Return a reader with separate connections."""
        return RecordReader(str(self.path), self._opener)

    # Transactions

    def begin(self) -> bool:
        self._execute("BEGIN IMMEDIATE")
        version: int = self._execute("PRAGMA data_version").fetchone()[0]
        moved = version != self._version
        if moved:
            require_unmoved(self._connection, str(self.path))
            self._facets.forget()
        self._version = version
        return moved

    def commit(self) -> None:
        self._execute("COMMIT")
        self._facets.uncommitted = False
        octets, self._octets = self._octets, 0
        self._folding.note_commit(octets, self._connection)

    def rollback(self) -> None:
        self._octets = 0
        self._facets.note_rollback()
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    # Chains

    def heads(self) -> dict[str, HeadRow]:
        heads = {}
        for agent_id, chain, number, seq, audit_id, issued_at, signed in self._execute(_HEADS).fetchall():
            check_row("chain", (chain, agent_id))
            for name, value in (("seq", seq), ("issued_at", issued_at)):
                if type(value) is not int or not 0 <= value < LARGEST:
                    raise DamagedRow("record", str(number), f"{name} is {value!r}, which is out of range")
            if type(signed) is not bytes or sha256(signed).digest() != audit_id:
                raise DamagedRecord(
                    f"{self.path}: the newest record of chain {agent_id.hex()!r}, record {seq}, is damaged. "
                    "`agtp audit verify` lists all that is; restore the store from a backup"
                )
            heads[agent_id.hex()] = HeadRow(chain, number, seq, audit_id, issued_at)
        return heads

    @contextmanager
    def tables(self) -> Iterator[TableRows]:
        """Yield a source of rows as stored; see :class:`agtphost.stores.table_interfaces.ITableSource`."""
        yield TableRows(self._execute)

    def damage(self) -> list[str]:
        return looked_at(self._execute)

    def chain_number(self, chain: str) -> int:
        agent_id = bytes.fromhex(chain)
        self._execute("INSERT INTO chain (agent_id) VALUES (?) ON CONFLICT DO NOTHING", (agent_id,))
        number: int = self._execute("SELECT number FROM chain WHERE agent_id = ?", (agent_id,)).fetchone()[0]
        return number

    def last_number(self) -> int:
        number: int = self._execute("SELECT coalesce(max(number), 0) FROM record").fetchone()[0]
        return number

    def append(self, records: Sequence[RecordRow]) -> None:
        columns = tuple(zip(*records, strict=True))
        values: list[Any] = []
        for record, number in zip(records, self._facets.number_records(columns), strict=True):
            values += record[:FACET]
            values.append(number)
        self._insert(_RECORDS, FACET + 1, values)
        self._octets += sum(map(len, columns[SIGNED]))

    def _insert_all(self, into: str, columns: int, rows: Iterable[Sequence[Any]], tail: str = "") -> None:
        self._insert(into, columns, [*itertools.chain.from_iterable(rows)], tail)

    def _insert(self, into: str, columns: int, values: Sequence[Any], tail: str = "") -> None:
        """Insert rows, given their values one after the other."""
        for start in range(0, len(values), ROWS * columns):
            part = values[start : start + ROWS * columns]
            self._execute(_insert(into, columns, len(part) // columns, tail), part)

    def records_after(self, after: int, limit: int) -> list[tuple[int, StoredRecord]]:
        return read_records(self._execute, after, limit)

    def signed_after(self, after: int, limit: int) -> list[SignedRow]:
        return read_signed(self._execute, after, limit)

    def holds(self, audit_id: bytes) -> bool:
        return self._execute(FIND, (audit_id, audit_id)).fetchone() is not None

    # Lifecycle

    def lifecycle_states(self) -> dict[str, StateRow]:
        rows = self._execute("SELECT agent_id, status, since, reason, successor, deadline, org_domain FROM lifecycle")
        states: dict[str, StateRow] = {}
        for row in rows.fetchall():
            check_row("lifecycle", row)
            states[row[0].hex()] = StateRow(*row[1:])
        return states

    def lifecycle_status(self, agent_id: str) -> str | None:
        rows = self._execute("SELECT status FROM lifecycle WHERE agent_id = ?", (bytes.fromhex(agent_id),))
        found = rows.fetchone()
        return None if found is None else str(found[0])

    def lifecycle_row(self, agent_id: str) -> StateRow | None:
        found = self._execute(
            "SELECT status, since, reason, successor, deadline, org_domain FROM lifecycle WHERE agent_id = ?",
            (bytes.fromhex(agent_id),),
        ).fetchone()
        return None if found is None else StateRow(*found)

    def set_lifecycle(self, agent_id: str, state: StateRow) -> None:
        self._execute(
            "INSERT OR REPLACE INTO lifecycle (agent_id, status, since, reason, successor, deadline, org_domain) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (bytes.fromhex(agent_id), *state),
        )

    # State items

    def list_items(self) -> list[ItemRow]:
        """
        Return all state items, the rows of the table ``held``, in the order of kind and key.

        :raises DamagedRow: a row has not the shape of that table.
        """
        rows = self._execute(f"{_ITEMS} ORDER BY kind, key")
        found = rows.fetchall()
        for row in found:
            check_row("held", row)
        return [ItemRow(*row) for row in found]

    def held_rows(self, kind: str, keys: Sequence[str]) -> dict[str, ItemRow]:
        found: dict[str, ItemRow] = {}
        for start in range(0, len(keys), ROWS):
            part = keys[start : start + ROWS]
            for row in self._execute(_find_items(len(part)), (kind, *part)).fetchall():
                found[row[1]] = ItemRow(*row)
        return found

    def expired_items(self, now: int, limit: int) -> list[ItemRow]:
        rows = self._execute(f"{_ITEMS} WHERE expires_at <= ? ORDER BY expires_at LIMIT ?", (now, limit))
        return [ItemRow(*row) for row in rows.fetchall()]

    def put_held(self, rows: Sequence[ItemRow]) -> None:
        put = []
        for row in rows:
            if row.value is None:
                self._execute("DELETE FROM held WHERE kind = ? AND key = ?", (row.kind, row.key))
            else:
                put.append(row)
                self._octets += len(row.value)
        # Each statement releases the interpreter lock and waits for it again: 500 of them took half a second next to
        # busy threads.
        self._insert_all(_PUT_ITEMS, 6, put)

    # What changed in these

    def state_changes(self, after: int, limit: int) -> list[StateChangeRow]:
        return read_state_changes(self._execute, after, limit)

    def last_state_change(self) -> int:
        number: int = self._execute("SELECT coalesce(max(number), 0) FROM state_change").fetchone()[0]
        return number

    def put_state_changes(self, rows: Sequence[StateChangeRow]) -> None:
        self._insert_all(_STATE_CHANGES, 5, rows)

    def clear_state_changes(self) -> None:
        self._execute("DELETE FROM state_change")

    # The tree over all records

    def audit_ids(self, after: int, limit: int) -> list[bytes]:
        rows = self._execute(
            "SELECT number, audit_id FROM record WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        ).fetchall()
        for expected, (number, audit_id) in enumerate(rows, after + 1):
            if number != expected:
                # Read on from here, one record with a number far beyond the others would be read for each number.
                raise DamagedRow("record", str(expected), f"is not there, and the next one is {number}")
            if type(audit_id) is not bytes:
                raise DamagedRow("record", str(number), "audit_id is of the wrong type")
        return [audit_id for _, audit_id in rows]

    def tile(self, level: int, number: int) -> bytes:
        return read_tile(self._execute, level, number)

    def put_tiles(self, tiles: Mapping[tuple[int, int], bytes]) -> None:
        self._insert_all(_TILES, 3, [(*place, hashes) for place, hashes in tiles.items()], _TILES_TAIL)

    def checkpoint(self) -> CheckpointRow | None:
        return read_checkpoint(self._execute)

    def put_checkpoint(self, row: CheckpointRow) -> None:
        self._execute(
            "INSERT OR REPLACE INTO checkpoint (size, issued_at, note, previous) VALUES (?, ?, ?, ?)", tuple(row)
        )

    # Reservations

    def reservations(self, names: Sequence[bytes]) -> dict[bytes, ReservationRow]:
        found: dict[bytes, ReservationRow] = {}
        for start in range(0, len(names), ROWS):
            part = list(names[start : start + ROWS])
            rows = self._execute(
                "SELECT name, digest, reserved_at, result, owner, seal, record FROM reservation "
                f"WHERE name IN ({','.join('?' * len(part))})",
                part,
            ).fetchall()
            for row in rows:
                check_row("reservation", row)
                found[row[0]] = ReservationRow(*row)
        return found

    def put_reservations(self, rows: Sequence[ReservationRow]) -> None:
        self._insert_all(_RESERVATIONS, 7, rows)

    def put_results(self, results: Sequence[AnswerRow]) -> None:
        rows = [(answer.name, b"", 0, answer.result, answer.record) for answer in results]
        self._insert_all(_RESULTS, 5, rows, _RESULTS_TAIL)
        self._octets += sum([len(answer.result) for answer in results])

    def read_usage(self, owners: Iterable[bytes]) -> dict[bytes, KeyedRow]:
        found: dict[bytes, KeyedRow] = {}
        for owner in owners:
            row = self._execute(_USE, (owner,)).fetchone()
            if row is not None:
                check_row("keyed", row)
                found[owner] = KeyedRow(*row)
        return found

    def put_keyed(self, rows: Iterable[KeyedRow]) -> None:
        for row in rows:
            self._execute(
                "INSERT OR REPLACE INTO keyed (owner, keys, octets, since, digest) VALUES (?, ?, ?, ?, ?)", tuple(row)
            )

    # Upkeep

    def free_space(self) -> int:
        file_system = os.statvfs(self.path.parent)
        return file_system.f_bavail * file_system.f_frsize

    def probe(self) -> None:
        # Committed before it is removed: otherwise nothing of it would reach the disk.
        self._execute("INSERT INTO probe (filler) VALUES (zeroblob(?))", (PROBE_OCTETS,))
        self._execute("DELETE FROM probe")

    def forget(self, expired_before: int, running: Iterable[bytes]) -> bool:
        kept = set(running)
        rows = self._execute(
            "SELECT name, owner, coalesce(length(result), 0), reserved_at FROM reservation "
            "WHERE reserved_at < ? ORDER BY reserved_at LIMIT ?",
            (expired_before, PRUNED_AT_ONCE + len(kept)),
        ).fetchall()
        gone = [row for row in rows if row[0] not in kept][:PRUNED_AT_ONCE]
        if gone:
            self._execute("BEGIN IMMEDIATE")
            try:
                self._drop_reservations(gone)
                self._execute("COMMIT")
            except BaseException:
                self.rollback()
                raise
        return len(gone) == PRUNED_AT_ONCE

    def _drop_reservations(self, gone: Sequence[tuple[bytes, bytes | None, int, int]]) -> None:
        """
        Delete reservations, and take them off what their agents have used.

        :param gone: of each its name, its owner, the octets of its answer, and when it was made.
        """
        uses: dict[bytes, KeyedRow] = {}
        for name, owner, octets, reserved_at in gone:
            self._execute("DELETE FROM reservation WHERE name = ?", (name,))
            for counted in (owner, b"") if owner else ():
                use = uses.get(counted) or self.read_usage((counted,)).get(counted)
                if use is not None:
                    octets_left, since = max(use.octets - octets, 0), max(use.since, reserved_at)
                    uses[counted] = use._replace(keys=use.keys - 1, octets=octets_left, since=since)
        self.put_keyed(sealed_use(use) for use in uses.values() if use.keys > 0)
        for use in uses.values():
            if use.keys <= 0:
                self._execute("DELETE FROM keyed WHERE owner = ?", (use.owner,))

    def index_blocks(self) -> bool:
        if not lacks_blocks(self._execute):
            return False
        self._execute("BEGIN IMMEDIATE")
        try:
            more = write_blocks(self._execute, self._facets.recent)
            self._execute("COMMIT")
        except BaseException:
            self.rollback()
            raise
        return more

    def tidy(self) -> None:
        self._folding.idle(self._connection)

    def reopen(self) -> None:
        self._folding.stop()
        # A close that fails must not keep the store from coming back.
        with suppress(Exception):
            self._connection.close()
        self._connection = open_writer(self._opener, str(self.path))
        self._execute = self._connection.execute
        self._facets = FacetNumbers(self._execute)
        self._version = -1

    def close(self) -> None:
        self._folding.stop()
        self._connection.close()


RESTORE = "Restore it from a backup, or name another file in [store] url."


def open_sqlite(path: Path, *, create: bool, opener: Connect = connect) -> SQLiteStore:
    """
    Open the store in ``path``.

    :param create: whether a missing file is made: where a store is expected, an empty one is a fault.
    :raises StoreError: it is missing, not a store, of a later version, or cannot be written.
    """
    refuse_device(path)
    if create:
        _make(path)
    else:
        expect(path)
    try:
        connection = open_writer(opener, str(path))
        try:
            require_unmoved(connection, str(path))
            upgrade.bring_up(connection, str(path))
        except BaseException:
            connection.close()
            raise
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"{path} cannot be used as a store: {explain_failure(str(path), error)}. {RESTORE}") from error
    return SQLiteStore(path, opener, connection)


def refuse_device(path: Path) -> None:
    """
    Check that a path is not a pipe, socket or device: SQLite takes ``/dev/null`` for an empty store.

    :raises StoreError: it is one.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StoreError(f"{path} cannot be used as a store: it is a pipe, a socket or a device. {RESTORE}")


def expect(path: Path) -> None:
    """
    Check that the store exists.

    :raises StoreError: it does not; the message says what to do.
    """
    if not path.exists():
        raise StoreError(
            f"{path} does not exist; a store is only made when the host is set up. Restore it from a backup; to set "
            "this host up again knowingly, without its records, run agtp init DIR --production --again"
        )


def _make(path: Path) -> None:
    """Create an empty file that only the owner can read; SQLite gives its log the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {explain(error)}") from error
