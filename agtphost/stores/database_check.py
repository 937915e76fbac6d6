"""
Which records of a database can be read, and are what was signed.

Pages go bad one by one, and SQLite says no more than that "the database disk
image is malformed". What counts is which evidence is concerned: so what a
whole read stumbles over is read again record by record. A start looks at the
newest records and at some others, a different choice each time, and takes
no longer with more of them; a walk over all is ``agtp audit verify``.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from agtphost.vocabulary.foreign_errors import explain

NEWEST = 256
"""Records that a start reads, from the newest down."""

SPREAD = 256
"""Records that it reads anywhere else, chosen by chance."""

AROUND = 64
"""How far around an unreadable one it looks for others, to both sides."""

SHOWN = 8
"""Ranges that are reported one by one."""

Execute = Callable[..., Any]


def is_malformed(error: Exception) -> bool:
    """Return whether an error is about the content of the file, not about locks, disks or programs."""
    return type(error) is sqlite3.DatabaseError


def looked_at(execute: Execute, newest: int = NEWEST, spread: int = SPREAD) -> list[str]:
    """
    Read some records by their numbers.

    :return: what is wrong, a line for each range of records; empty where all is well.
    """
    lines: list[str] = []
    try:
        last = int(execute("SELECT coalesce(max(number), 0) FROM record").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        # Use the count of the newest checkpoint instead, which is near the end.
        last = int(execute("SELECT coalesce(max(size), 0) FROM checkpoint").fetchone()[0])
        lines.append(f"the newest records of the store cannot be found, those after about {last}: {explain(error)}")
    chance = random.SystemRandom()
    numbers = set(range(max(1, last - newest + 1), last + 1))
    numbers.update(chance.randint(1, last) for _ in range(spread if last else 0))
    wrong: dict[int, str] = {}
    for number in sorted(numbers):
        if why := _fault(execute, number):
            wrong[number] = why
            if len(wrong) == 1:
                near = range(max(1, number - AROUND), min(last, number + AROUND) + 1)
                wrong.update((other, said) for other in near if (said := _fault(execute, other)))
    return lines + _describe_ranges(execute, wrong)


class _Unreadable(Exception):
    """The database cannot read a record."""


def _record(execute: Execute, number: int) -> tuple[bytes, bytes] | None:
    """
    Return digest and octets of a record; None if it does not exist.

    :raises _Unreadable: the row cannot be read.
    """
    try:
        row: tuple[bytes, bytes] | None = execute(
            "SELECT audit_id, signed FROM record WHERE number = ?", (number,)
        ).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        raise _Unreadable(f"cannot be read ({explain(error)})") from error
    return row


def _fault(execute: Execute, number: int) -> str:
    """Return the fault of one record; empty if it has none."""
    try:
        row = _record(execute, number)
    except _Unreadable as error:
        return str(error)
    if row is None:
        return "is not there"
    sound = type(row[1]) is bytes and sha256(row[1]).digest() == row[0]
    return "" if sound else "is not what was signed"


def _describe_ranges(execute: Execute, wrong: dict[int, str]) -> list[str]:
    ranges: list[tuple[int, int, str]] = []
    for number, why in sorted(wrong.items()):
        if ranges and ranges[-1][1] == number - 1 and ranges[-1][2] == why:
            ranges[-1] = ranges[-1][0], number, why
        else:
            ranges.append((number, number, why))
    lines = []
    for first, last, why in ranges[:SHOWN]:
        if first == last:
            lines.append(f"record {first} of the store {why}{_place(execute, first)}")
        else:
            lines.append(f"records {first} to {last} of the store: each {why}")
    if len(ranges) > SHOWN:
        lines.append(f"and {len(ranges) - SHOWN} further ranges")
    return lines


def _place(execute: Execute, number: int) -> str:
    """Return the place of a record in its chain as text; empty if it cannot be read."""
    try:
        row = execute(
            "SELECT c.agent_id, r.seq FROM record r JOIN chain c ON c.number = r.chain WHERE r.number = ?", (number,)
        ).fetchone()
    except sqlite3.DatabaseError:
        return ""
    if row is None or type(row[0]) is not bytes:
        return ""
    return f": {row[1]} of chain {row[0].hex() or 'host'}"


def one_by_one(execute: Execute, chain: str, after: int, limit: int) -> Iterable[tuple[int, int | str]]:
    """
    Yield the records of a chain after a position one by one, because reading them together failed.

    By the index, which has the places and numbers of records without the records.

    :return: place, and the record's number; or place, and why it cannot be read.
    """
    places: Sequence[tuple[int, int]] = execute(
        "SELECT r.seq, r.number FROM record r INDEXED BY sqlite_autoindex_record_1 "
        "WHERE r.chain = (SELECT number FROM chain WHERE agent_id = ?) AND r.seq > ? ORDER BY r.seq LIMIT ?",
        (bytes.fromhex(chain), after, limit),
    ).fetchall()
    for seq, number in places:
        try:
            _record(execute, number)
        except _Unreadable as error:
            yield seq, str(error)
        else:
            yield seq, number
