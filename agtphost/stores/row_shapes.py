"""
What each column of the database can hold: the one place that says so.

SQLite's STRICT tables refuse other values in SQL statements. They refuse nothing in a page that was damaged, or in a
file that was edited. So every row that decides something is compared with its shape when it is read, and a row of
another shape is :class:`~agtphost.stores.rows.DamagedRow`, with its table and its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from agtphost.stores.rows import DamagedRow

_TYPES: Final = {int: "a number", str: "text", bytes: "octets", type(None): "NULL", float: "a fraction"}

LARGEST: Final = 2**62
"""No number or time in the store gets beyond it."""


class Column(NamedTuple):
    """A column, and what it can hold."""

    name: str
    kind: type
    """``int``, ``str`` or ``bytes``, as the driver returns it."""

    lengths: tuple[int, ...] = ()
    """Of ``bytes``, where only some are possible."""

    least: int = 0
    """Of ``int``."""

    nullable: bool = False
    key: bool = False
    """Whether it is part of what the row is called by."""


AGENT: Final = (0, 32)
DIGEST: Final = (32,)

SHAPES: Final[Mapping[str, tuple[Column, ...]]] = {
    "chain": (Column("number", int, least=1, key=True), Column("agent_id", bytes, AGENT)),
    "record": (
        Column("number", int, least=1, key=True),
        Column("chain", int, least=1),
        Column("seq", int, least=1),
        Column("audit_id", bytes, DIGEST),
        Column("previous", int),
        Column("kind", int),
        Column("format", int),
        Column("issued_at", int),
        Column("status", int),
        Column("method", str),
        Column("path", str),
        Column("caller", bytes, AGENT),
        Column("signed", bytes),
        Column("session", str),
        Column("task", str),
        Column("facet", int, least=1),
    ),
    "facet": (
        Column("number", int, least=1, key=True),
        Column("digest", bytes, DIGEST),
        Column("agent", bytes, AGENT),
        Column("caller", bytes, AGENT),
        Column("status", int),
        Column("method", str),
        Column("tool", str),
        Column("reason", str),
        Column("person", str),
        Column("operator", str),
        Column("operator_key", str),
    ),
    "record_block": (
        Column("number", int, key=True),
        Column("began", int),
        Column("sums", bytes),
        Column("facets", bytes),
        Column("times", bytes),
    ),
    "record_hash": (
        Column("number", int, key=True),
        Column("sessions", bytes),
        Column("tasks", bytes),
        Column("paths", bytes),
    ),
    "lifecycle": (
        Column("agent_id", bytes, DIGEST, key=True),
        Column("status", str),
        Column("since", str),
        Column("reason", str, nullable=True),
        Column("successor", str, nullable=True),
        Column("deadline", str, nullable=True),
        Column("org_domain", str, nullable=True),
    ),
    "held": (
        Column("kind", str, key=True),
        Column("key", str, key=True),
        Column("owner", bytes, AGENT),
        Column("version", int, least=1),
        Column("expires_at", int, nullable=True),
        Column("value", bytes),
    ),
    "state_change": (
        Column("number", int, least=1, key=True),
        Column("record", int, least=1),
        Column("kind", str),
        Column("key", str),
        Column("leaf", bytes, DIGEST, nullable=True),
    ),
    "tile": (
        Column("level", int, key=True),
        Column("number", int, key=True),
        Column("hashes", bytes, tuple(range(32, 256 * 32 + 1, 32))),
    ),
    "checkpoint": (
        Column("size", int, least=1, key=True),
        Column("issued_at", int),
        Column("note", str),
        Column("previous", int),
    ),
    "reservation": (
        Column("name", bytes, DIGEST, key=True),
        Column("digest", bytes),
        Column("reserved_at", int),
        Column("result", bytes, nullable=True),
        Column("owner", bytes, (16,), nullable=True),
        Column("seal", bytes, (0, 32, 64)),
        Column("record", int),
    ),
    "keyed": (
        Column("owner", bytes, (0, 16), key=True),
        Column("keys", int, least=1),
        Column("octets", int),
        Column("since", int),
        Column("digest", bytes, (0, 32)),
    ),
}
"""By table, in the order of its columns."""

COLUMNS: Final[Mapping[str, str]] = {
    table: ", ".join(column.name for column in columns) for table, columns in SHAPES.items()
}
"""By table, what to SELECT for a row of :data:`SHAPES`."""

_KINDS: Final = {table: tuple(column.kind for column in columns) for table, columns in SHAPES.items()}


def _sound_types() -> Iterator[tuple[tuple[Any, ...], tuple[tuple[int, int], ...]]]:
    """Yield each combination of types that a row can have, and the places and least values of its numbers."""
    for table, columns in SHAPES.items():
        kinds = [(column.kind, type(None)) if column.nullable else (column.kind,) for column in columns]
        for types in product(*kinds):
            places = enumerate(zip(columns, types, strict=True))
            yield (table, *types), tuple((place, column.least) for place, (column, kind) in places if kind is int)


_SOUND: Final = dict(_sound_types())
"""What most rows are by: a search for their types instead of a look at each column."""


def row_name(table: str, row: Sequence[Any]) -> str:
    """Return what a row is called in messages: the values of its key."""
    parts = [value for column, value in zip(SHAPES[table], row, strict=False) if column.key]
    return " ".join(_text(part) for part in parts)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex() or "(empty)"
    text = str(value)
    return (text if text.isprintable() else ascii(text)).replace("\n", " ")[:200] or "(empty)"


def find_flaw(table: str, row: Sequence[Any], *, lengths: bool = True) -> str:
    """
    Return which column of a row has a value that it cannot have, and what is wrong with it; empty where none has.

    :param lengths: whether the lengths of octets are looked at.
    """
    for column, value in zip(SHAPES[table], row, strict=False):
        if value is None and column.nullable:
            continue
        kind = type(value)
        if kind is not column.kind:
            found = _TYPES.get(kind, "text that is not UTF-8")
            return f"{column.name} is {found}, and must be {_TYPES[column.kind]}"
        if column.kind is int:
            if not column.least <= value <= LARGEST:
                return f"{column.name} is {value}, which is out of range"
        elif lengths and column.lengths and len(value) not in column.lengths:
            return f"{column.name} has {len(value)} octets, which is not an allowed length"
    return ""


def check_row(table: str, row: Sequence[Any]) -> None:
    """
    Compare the types and numbers of a row with the shape of its table, before it is used.

    :raises DamagedRow: it does not have it.
    """
    numbers = _SOUND.get((table, *map(type, row)))
    if numbers is not None:
        for place, least in numbers:
            if not least <= row[place] <= LARGEST:
                break
        else:
            return
    if why := find_flaw(table, row, lengths=False):
        raise DamagedRow(table, row_name(table, row), why)
