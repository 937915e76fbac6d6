"""
The writing side in PostgreSQL: one connection, used by the ledger's writer thread.

:mod:`agtphost.stores.postgres.transactions` says how it keeps others out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any, Final

from zope.interface import implementer

from agtphost.stores.database_check import looked_at
from agtphost.stores.facet_rows import FacetNumbers
from agtphost.stores.interfaces import IChainStore
from agtphost.stores.keyed_digests import sealed_use
from agtphost.stores.lease import read_holder, require_unmoved
from agtphost.stores.postgres import statements
from agtphost.stores.postgres.block_writing import BlockWriting
from agtphost.stores.postgres.connection import (
    Address,
    Session,
    dial,
)
from agtphost.stores.postgres.index_filling import fill_index
from agtphost.stores.postgres.lease import PostgresLease
from agtphost.stores.postgres.reading import FIND, PostgresReader, open_postgres_reader, read_signed
from agtphost.stores.postgres.rows import PostgresTableRows, find_store_fault, read_log
from agtphost.stores.postgres.schema_files import require_rights, require_usable
from agtphost.stores.postgres.transactions import Transactions
from agtphost.stores.row_shapes import LARGEST, check_row
from agtphost.stores.rows import (
    FACET,
    ISSUED_AT,
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
from agtphost.stores.table_interfaces import ITableSource

PRUNED_AT_ONCE: Final = 1000
"""Reservations dropped in one transaction."""

PROBE_OCTETS: Final = 1 << 20
"""What a store that failed has to take before it counts as healthy: some hundred records."""

ENDLESS: Final = 2**62
"""What :meth:`PostgresStore.free_space` returns: the database alone knows its disk, and says so by SQLSTATE 53100."""


@implementer(IChainStore, ITableSource)
class PostgresStore(BlockWriting):
    """
    A store in a database.

    :param lease: the right to write to it; it is taken here if that has not been done.
    :param server_id: of the host; the store of another one is refused.
    :raises StoreError: the store is missing or cannot be used, or another host holds it.
    """

    def __init__(self, address: Address, lease: PostgresLease, server_id: str) -> None:
        self._address = address
        self._lease = lease
        self._server_id = server_id
        self._facets = FacetNumbers(lambda *given: self._execute(*given))
        self._transactions = Transactions(self._dial, lease, self._facets.note_rollback)
        self._execute = self._transactions.execute
        try:
            self._take()
        except BaseException:
            self._transactions.session.close()
            raise

    def _dial(self) -> Session:
        """Connect, and check that the database has a store that can be used."""
        session = dial(self._address, writer=True)
        try:
            row = require_usable(session, self._server_id)
            if not self._lease.term:
                require_unmoved(self.name, read_holder(row.holder))
            require_rights(session)
        except BaseException:
            session.close()
            raise
        return session

    @property
    def name(self) -> str:
        """The database in messages."""
        return self._address.name

    def reader(self) -> PostgresReader:
        """Return a reader with separate connections."""
        return open_postgres_reader(self._address)

    # Who may write

    def _take(self) -> None:
        """
        Take the lease of the store for this host.

        :raises StoreError: another host holds it.
        """
        if self._lease.term or self._lease.take():
            fill_index(self._transactions.session)
            return
        seen = self._lease.look()
        hold = 0.0 if seen.holder is None else seen.holder.takeover_after
        raise StoreError(
            f"{self.name} is in use by another host, {seen.holder}, which wrote {max(seen.age, 0.0):.0f} s ago. Stop "
            f"that host first; if it was killed, wait until it has not written for {hold:.0f} s"
        )

    # Transactions

    def begin(self) -> bool:
        moved = self._transactions.begin()
        if moved:
            self._facets.forget()
        return moved

    def commit(self) -> None:
        self._transactions.commit()
        self._facets.uncommitted = False

    def rollback(self) -> None:
        self._transactions.rollback()

    def _own_transaction(self) -> AbstractContextManager[None]:
        """Run statements under the lock, without a change that another process has to learn of."""
        return self._transactions.run_separately()

    # Chains

    def heads(self) -> dict[str, HeadRow]:
        heads = {}
        for agent_id, chain, number, seq, audit_id, issued_at, signed in self._execute(statements.HEADS).fetchall():
            check_row("chain", (chain, agent_id))
            for name, value in (("seq", seq), ("issued_at", issued_at)):
                if not 0 <= value < LARGEST:
                    raise DamagedRow("record", str(number), f"{name} is {value!r}, which is out of range")
            if sha256(signed).digest() != audit_id:
                raise DamagedRecord(
                    f"{self.name}: the newest record of chain {agent_id.hex()!r}, record {seq}, is damaged. "
                    "`agtp audit verify` lists all that is; restore the database from its backup"
                )
            heads[agent_id.hex()] = HeadRow(chain, number, seq, audit_id, issued_at)
        return heads

    @contextmanager
    def tables(self) -> Iterator[PostgresTableRows]:
        """Yield a source of rows as stored; see :class:`agtphost.stores.table_interfaces.ITableSource`."""
        yield PostgresTableRows(self._transactions.session)

    def damage(self) -> list[str]:
        return looked_at(self._execute)

    def chain_number(self, chain: str) -> int:
        agent_id = bytes.fromhex(chain)
        found = self._execute("SELECT number FROM chain WHERE agent_id = ?", (agent_id,)).fetchone()
        if found is None:
            found = self._execute(
                "INSERT INTO chain (number, agent_id) SELECT coalesce(max(number), 0) + 1, ? FROM chain "
                "RETURNING number",
                (agent_id,),
            ).fetchone()
        number: int = found[0]
        return number

    def last_number(self) -> int:
        # The records of an open transaction are not counted in the row of the store before it commits.
        settled = self._transactions.has_no_record
        if settled and (faults := find_store_fault(self._execute)):
            raise DamagedRow("store", "1", faults[0].partition(": ")[2])
        number: int = self._execute("SELECT coalesce(max(number), 0) FROM record").fetchone()[0]
        if settled:
            self._transactions.committed = number
        return number

    def append(self, records: Sequence[RecordRow]) -> None:
        columns = tuple(zip(*records, strict=True))
        numbers = self._facets.number_records(columns)
        self._insert(statements.ADD_RECORDS, (*columns[:FACET], numbers))
        self._transactions.last = max(self._transactions.last, *columns[0])
        self._transactions.issued_at = max(self._transactions.issued_at, *columns[ISSUED_AT])

    def records_after(self, after: int, limit: int) -> list[tuple[int, StoredRecord]]:
        return read_records(self._execute, after, limit)

    def signed_after(self, after: int, limit: int) -> list[SignedRow]:
        return read_signed(self._execute, after, limit)

    def holds(self, audit_id: bytes) -> bool:
        if self._transactions.is_open:
            return self._find(audit_id)
        with self._own_transaction():
            found = self._find(audit_id)
            if not found:
                self._transactions.exclude_late()
        return found

    def _find(self, audit_id: bytes) -> bool:
        return self._execute(FIND, (audit_id, audit_id)).fetchone() is not None

    # Lifecycle

    def lifecycle_states(self) -> dict[str, StateRow]:
        states: dict[str, StateRow] = {}
        for row in self._execute(statements.STATES).fetchall():
            check_row("lifecycle", row)
            states[row[0].hex()] = StateRow(*row[1:])
        return states

    def lifecycle_status(self, agent_id: str) -> str | None:
        found = self.lifecycle_row(agent_id)
        return None if found is None else found.status

    def lifecycle_row(self, agent_id: str) -> StateRow | None:
        found = self._execute(f"{statements.STATES} WHERE agent_id = ?", (bytes.fromhex(agent_id),)).fetchone()
        return None if found is None else StateRow(*found[1:])

    def set_lifecycle(self, agent_id: str, state: StateRow) -> None:
        self._transactions.add(
            "INSERT INTO lifecycle (agent_id, status, since, reason, successor, deadline, org_domain) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent_id) {statements.replace_columns(StateRow._fields)}",
            (bytes.fromhex(agent_id), *state),
        )

    # State items

    def list_items(self) -> list[ItemRow]:
        found = self._execute(f"{statements.ITEMS} ORDER BY kind, key").fetchall()
        for row in found:
            check_row("held", row)
        return list(map(ItemRow._make, found))

    def held_rows(self, kind: str, keys: Sequence[str]) -> dict[str, ItemRow]:
        if not keys:
            return {}
        rows = self._execute(
            f"{statements.ITEMS} WHERE kind = ? AND key = ANY(?::text[])", (kind, list(keys))
        ).fetchall()
        return {row[1]: ItemRow(*row) for row in rows}

    def expired_items(self, now: int, limit: int) -> list[ItemRow]:
        rows = self._execute(f"{statements.ITEMS} WHERE expires_at <= ? ORDER BY expires_at LIMIT ?", (now, limit))
        return [ItemRow(*row) for row in rows.fetchall()]

    def put_held(self, rows: Sequence[ItemRow]) -> None:
        gone = [row for row in rows if row.value is None]
        if gone:
            self._transactions.add(
                "DELETE FROM held USING unnest(?::text[], ?::text[]) AS gone (kind, key) "
                "WHERE held.kind = gone.kind AND held.key = gone.key",
                ([row.kind for row in gone], [row.key for row in gone]),
            )
        self._put(statements.PUT_ITEMS, [row for row in rows if row.value is not None])

    def _put(self, insert: statements.RowInsert, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, if there are any."""
        if rows:
            self._insert(insert, tuple(zip(*rows, strict=True)))

    def _insert(self, insert: statements.RowInsert, columns: Sequence[Sequence[Any]]) -> None:
        """Insert rows that are given as columns."""
        for statement, values in insert.prepare(columns):
            self._transactions.add(statement, values)

    # What changed in these

    def state_changes(self, after: int, limit: int) -> list[StateChangeRow]:
        return read_log(self._execute, after, limit)

    def last_state_change(self) -> int:
        number: int = self._execute("SELECT coalesce(max(number), 0) FROM state_change").fetchone()[0]
        return number

    def put_state_changes(self, rows: Sequence[StateChangeRow]) -> None:
        self._put(statements.PUT_CHANGES, rows)

    def clear_state_changes(self) -> None:
        self._execute("DELETE FROM state_change")

    # The tree over all records

    def audit_ids(self, after: int, limit: int) -> list[bytes]:
        rows = self._execute(
            "SELECT number, audit_id FROM record WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        ).fetchall()
        for expected, (number, _) in enumerate(rows, after + 1):
            if number != expected:
                raise DamagedRow("record", str(expected), f"is not there, and the next one is {number}")
        return [audit_id for _, audit_id in rows]

    def tile(self, level: int, number: int) -> bytes:
        return read_tile(self._execute, level, number)

    def put_tiles(self, tiles: Mapping[tuple[int, int], bytes]) -> None:
        self._put(statements.PUT_TILES, [(*place, hashes) for place, hashes in tiles.items()])

    def checkpoint(self) -> CheckpointRow | None:
        return read_checkpoint(self._execute)

    def put_checkpoint(self, row: CheckpointRow) -> None:
        self._transactions.add(
            "INSERT INTO checkpoint (size, issued_at, note, previous) VALUES (?, ?, ?, ?) "
            f"ON CONFLICT (size) {statements.replace_columns(CheckpointRow._fields[1:])}",
            tuple(row),
        )

    # Reservations

    def reservations(self, names: Sequence[bytes]) -> dict[bytes, ReservationRow]:
        found: dict[bytes, ReservationRow] = {}
        for row in self._execute(statements.FIND_RESERVATIONS, (list(names),)).fetchall() if names else ():
            check_row("reservation", row)
            found[row[0]] = ReservationRow(*row)
        return found

    def put_reservations(self, rows: Sequence[ReservationRow]) -> None:
        self._put(statements.PUT_RESERVATIONS, list({row.name: row for row in rows}.values()))

    def put_results(self, results: Sequence[AnswerRow]) -> None:
        newest = {answer.name: (answer.name, b"", 0, answer.result, answer.record) for answer in results}
        self._put(statements.PUT_RESULTS, list(newest.values()))

    def read_usage(self, owners: Iterable[bytes]) -> dict[bytes, KeyedRow]:
        found: dict[bytes, KeyedRow] = {}
        for row in self._execute(statements.FIND_USAGE, (list(owners),)).fetchall():
            check_row("keyed", row)
            found[row[0]] = KeyedRow(*row)
        return found

    def put_keyed(self, rows: Iterable[KeyedRow]) -> None:
        self._put(statements.PUT_KEYED, list({row.owner: row for row in rows}.values()))

    # Upkeep

    def free_space(self) -> int:
        return ENDLESS

    def probe(self) -> None:
        # Committed before it is removed: otherwise nothing of it would reach the disk.
        with self._own_transaction():
            self._execute("INSERT INTO probe (filler) VALUES (decode(repeat('00', ?), 'hex'))", (PROBE_OCTETS,))
        with self._own_transaction():
            self._execute("DELETE FROM probe")

    def forget(self, expired_before: int, running: Iterable[bytes]) -> bool:
        self._transactions.revive()  # This is asked in every idle moment; a call is to find a connection.
        kept = list(running)
        wanted = "FROM reservation WHERE reserved_at < ? AND name <> ALL(?::bytea[])"
        if self._execute(f"SELECT 1 {wanted} LIMIT 1", (expired_before, kept)).fetchone() is None:
            return False
        with self._own_transaction():
            gone = self._execute(
                f"SELECT name, owner, coalesce(length(result), 0), reserved_at {wanted} ORDER BY reserved_at LIMIT ?",
                (expired_before, kept, PRUNED_AT_ONCE),
            ).fetchall()
            self._drop_reservations(gone)
        return len(gone) == PRUNED_AT_ONCE

    def _drop_reservations(self, gone: Sequence[tuple[bytes, bytes | None, int, int]]) -> None:
        """
        Delete reservations, and take them off what their agents have used.

        :param gone: of each its name, its owner, the octets of its answer, and when it was made.
        """
        self._transactions.add("DELETE FROM reservation WHERE name = ANY(?::bytea[])", ([row[0] for row in gone],))
        uses = self.read_usage({b"", *(owner for _, owner, _, _ in gone if owner)})
        for _, owner, octets, reserved_at in gone:
            for counted in (owner, b"") if owner else ():
                if (use := uses.get(counted)) is not None:
                    octets_left, since = max(use.octets - octets, 0), max(use.since, reserved_at)
                    uses[counted] = use._replace(keys=use.keys - 1, octets=octets_left, since=since)
        self.put_keyed(sealed_use(use) for use in uses.values() if use.keys > 0)
        self._transactions.add(
            "DELETE FROM keyed WHERE owner = ANY(?::bytea[])", ([use.owner for use in uses.values() if use.keys <= 0],)
        )

    def tidy(self) -> None:
        """Say that this host still holds the store."""
        self._lease.keep()

    def reopen(self) -> None:
        self._transactions.reopen()

    def close(self) -> None:
        session = self._transactions.session
        if session.in_transaction:
            self.rollback()
        session.close()
        # A host that cannot say that it stops is one that was killed.
        self._lease.give_up()
