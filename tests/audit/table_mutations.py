"""
Changes of one value or one row, in any table of a store; what there is, the database's own schema says.

The copy that is changed has no STRICT and no NOT NULL: what SQL refuses, a damaged page or an editor of files can do.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HARMLESS = {
    ("probe", "filler"): "zeros, deleted in the transaction after the one that wrote them",
    ("checkpoint", "issued_at"): "nothing reads it: the age of a checkpoint is told from memory",
}
"""Columns on which no answer, no decision and no search depends, with the reason."""

HARMLESS_COPIES = {
    "chain": "a chain that no record names: the next record of its agent begins it",
    "probe": "as for its column",
}
"""Tables to which a row can be added without any effect, with the reason."""


QUICK = "PRAGMA synchronous=OFF"
"""A copy that is changed need not survive a power cut: waiting for the disk took a third of the time."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """What was changed."""

    table: str
    column: str
    """Empty where a whole row was deleted or added."""

    how: str
    keys: tuple[tuple[Any, ...], ...]
    """The key of the row: before, and after where that is another."""

    owner: bytes | None = None
    """Of a reservation: for whom it counts."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column or '*'} {self.how} at {self.keys}"

    def is_named_by(self, table: str, row: str) -> bool:
        """Whether a finding is about this row."""
        if table == self.table and any(_names(row, key) for key in self.keys):
            return True
        if self.table == "reservation" and self.how == "delete":
            # Its key was in the row alone: what is left is the record of its answer, or the count of its owner's.
            counted = table == "keyed" and self.owner is not None and row == self.owner.hex()
            return counted or (table == "reservation" and row.startswith("of record "))
        return False


def _names(row: str, key: Sequence[Any]) -> bool:
    shown = [part.octets.decode("utf-8", "backslashreplace") if isinstance(part, Undecoded) else part for part in key]
    if shown != list(key) and row == " ".join(map(str, shown)):
        return True
    plain = [part.octets if isinstance(part, Undecoded) else part for part in key]
    texts = [part.hex() or "(empty)" if isinstance(part, bytes) else str(part) for part in plain]
    if row == " ".join(texts) or all(text in row.split(" ") for text in texts):
        return True
    if row.startswith("numbers ") and type(key[0]) is int:
        # Of entries of one list, as the record that signed it has one digest for all of them.
        numbers = [int(number) for number in re.findall(r"-?[0-9]+", row)]
        reaches = " to " in row or " from " in row
        return key[0] in numbers or (reaches and numbers[0] <= key[0] <= (numbers[1:] or [key[0]])[0])
    first, _, last = row.partition(" to ")
    return len(key) == 1 and last.isdigit() and type(key[0]) is int and int(first) <= key[0] <= int(last)


class Schema:
    """The tables of a database, by its own account."""

    def __init__(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            names = database.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
            self.columns: dict[str, tuple[str, ...]] = {}
            self.keys: dict[str, tuple[str, ...]] = {}
            self.rows: dict[str, int] = {}
            for (table,) in names.fetchall():
                found = database.execute(f"PRAGMA table_xinfo({table})").fetchall()
                self.columns[table] = tuple(row[1] for row in found)
                self.keys[table] = tuple(row[1] for row in found if row[5]) or (found[0][1],)
                self.rows[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def places(self) -> Iterator[tuple[str, str, str]]:
        """Table, column and change, of everything that has to be noticed."""
        for table, columns in self.columns.items():
            guarded = [column for column in columns if (table, column) not in HARMLESS]
            for column in guarded:
                for how in ("flip", "other", "null", "type"):
                    yield table, column, how
            if guarded:
                yield table, "", "delete"
                if table not in HARMLESS_COPIES:
                    yield table, "", "copy"


Statements = list[tuple[str, str]]
"""Names of tables, and the statements that the schema of a database has of them."""


def loosen(path: Path) -> Statements:
    """Take from a database what refuses values of another type, and NULL; what :func:`tighten` puts back."""
    with closing(sqlite3.connect(path)) as database:
        before: Statements = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(QUICK)
        version = database.execute("PRAGMA schema_version").fetchone()[0]
        database.execute("PRAGMA writable_schema=ON")
        database.execute(
            "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ') STRICT, WITHOUT', ') WITHOUT'), "
            "') STRICT', ')'), ' NOT NULL', '') WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        database.execute(f"PRAGMA schema_version={version + 1}")
    return before


def tighten(path: Path, statements: Statements) -> None:
    """Let the schema say again what it said, whatever the tables hold."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(QUICK)
        version = database.execute("PRAGMA schema_version").fetchone()[0]
        database.execute("PRAGMA writable_schema=ON")
        for name, sql in statements:
            database.execute("UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (sql, name))
        database.execute(f"PRAGMA schema_version={version + 1}")


def unindex(path: Path, table: str, condition: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    """
    Take one row out of every index of its table; the row itself stays.

    :return: the row's columns.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(QUICK)
        schema = database.execute(
            "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE tbl_name = ?", (table,)
        ).fetchall()
        place, *row = database.execute(f"SELECT rowid, * FROM {table} WHERE {condition}", parameters).fetchone()
        database.execute(f"DELETE FROM {table} WHERE rowid = ?", (place,))
        database.execute("PRAGMA writable_schema=ON")
        database.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?", (table,))
        names = [column[1] for column in database.execute(f"PRAGMA table_info({table})")]
        plain = ", ".join(f"{name} INTEGER PRIMARY KEY" if not at else name for at, name in enumerate(names))
        if "INTEGER PRIMARY KEY" not in str(schema[0][4]):
            plain = ", ".join(names)
        _bump(database, "UPDATE sqlite_schema SET sql = ? WHERE name = ?", (f"CREATE TABLE {table} ({plain})", table))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(QUICK)
        marks = ", ".join("?" for _ in names)
        database.execute(f"INSERT INTO {table} (rowid, {', '.join(names)}) VALUES (?, {marks})", (place, *row))
        database.execute("PRAGMA writable_schema=ON")
        database.execute("DELETE FROM sqlite_schema WHERE tbl_name = ?", (table,))
        for entry in schema:
            _bump(database, "INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)
    return tuple(row)


def _bump(database: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> None:
    """Change the schema, and have every connection read it anew."""
    version = database.execute("PRAGMA schema_version").fetchone()[0]
    database.execute(statement, parameters)
    database.execute(f"PRAGMA schema_version={version + 1}")


class Mutator:
    """
    Changes copies of a database.

    :param path: of the database, which stays as it is.
    :param chance: decides about everything that is not asked for.
    """

    def __init__(self, path: Path, chance: random.Random) -> None:
        self._path = path
        self._chance = chance
        self.schema = Schema(path)

    def mutate(self, table: str, column: str, how: str, copy: Path) -> Mutation | None:
        """Change one row of a copy; None where SQLite lets no file have that, such as text for a row's number."""
        shutil.copy(self._path, copy)
        statements = loosen(copy)
        made = None
        with closing(sqlite3.connect(copy, isolation_level=None)) as database:
            database.execute(QUICK)
            for _ in range(40):
                try:
                    made = self._change(database, table, column, how)
                except (sqlite3.IntegrityError, OverflowError):
                    continue
                if made is not None:
                    break
        tighten(copy, statements)
        return made

    def _change(self, database: sqlite3.Connection, table: str, column: str, how: str) -> Mutation | None:
        keys, columns = self.schema.keys[table], self.schema.columns[table]
        at = self._chance.randrange(self.schema.rows[table])
        row = database.execute(f"SELECT * FROM {table} ORDER BY {', '.join(keys)} LIMIT 1 OFFSET ?", (at,)).fetchone()
        values = dict(zip(columns, row, strict=True))
        key = tuple(values[name] for name in keys)
        where = " AND ".join(f"{name} IS ?" for name in keys)
        owner = values.get("owner") if table == "reservation" else None
        if how == "delete":
            if table in ("record_block", "record_hash") and at == self.schema.rows[table] - 1:
                # As if it had not been written yet: the host makes it anew.
                return None
            database.execute(f"DELETE FROM {table} WHERE {where}", key)
            return Mutation(table, column, how, (key,), owner)
        if how == "copy":
            return self._add(database, table, values)
        value = self._value(database, table, column, how, values[column])
        if value == values[column] and type(value) is type(values[column]):
            return None
        literal = "CAST(? AS TEXT)" if isinstance(value, Undecoded) else "?"
        parameter = value.octets if isinstance(value, Undecoded) else value
        database.execute(f"UPDATE {table} SET {column} = {literal} WHERE {where}", (parameter, *key))
        after = tuple(value if name == column else values[name] for name in keys)
        return Mutation(table, column, how, (key, after), owner)

    def _add(self, database: sqlite3.Connection, table: str, values: dict[str, Any]) -> Mutation:
        """Add a row like another one, with another key."""
        keys = self.schema.keys[table]
        changed = dict(values)
        changed[keys[-1]] = self._flipped(changed[keys[-1]])
        if table == "record":
            # Its place in its chain has to be free as well.
            changed |= {"number": self.schema.rows[table] + 1, "seq": 10_000, "previous": 10_000}
        places = ", ".join("CAST(? AS TEXT)" if isinstance(value, Undecoded) else "?" for value in changed.values())
        given = tuple(value.octets if isinstance(value, Undecoded) else value for value in changed.values())
        database.execute(f"INSERT INTO {table} ({', '.join(changed)}) VALUES ({places})", given)
        return Mutation(table, "", "copy", (tuple(changed[name] for name in keys),))

    def _value(self, database: sqlite3.Connection, table: str, column: str, how: str, value: Any) -> Any:
        if how == "null":
            return None
        if how == "type":
            others = [7, 1.5, "text", b"octets", Undecoded(b"\xff\xfe")]
            kept = [other for other in others if type(other) is not type(value)]
            return self._chance.choice(kept)
        if how == "other":
            found = database.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            return self._chance.choice(found)[0]
        return self._flipped(value)

    def _flipped(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, int):
            return value ^ (1 << chance.randrange(62))
        if not value:
            return None if value is None else b"\x01" if isinstance(value, bytes) else "\x01"
        octets = bytearray(value.encode() if isinstance(value, str) else value)
        octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
        if isinstance(value, bytes):
            return bytes(octets)
        try:
            return octets.decode()
        except UnicodeDecodeError:
            return Undecoded(bytes(octets))


@dataclass(frozen=True)
class Undecoded:
    """Text that is no UTF-8."""

    octets: bytes
