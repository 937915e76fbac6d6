"""Copy a store: every row as it is, the tree made anew and compared with the newest checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from agtphost.audit import checkpoint
from agtphost.audit.merkle import Growth, Tree
from agtphost.cli.failures import Unverified
from agtphost.cli.progress import show_progress
from agtphost.cli.store_move import arriving_move, finish_move, new_move, withdraw_move
from agtphost.stores.copying import PUBLISHED, TABLES, ReadTable, Row, WriteTable
from agtphost.stores.location import StoreLocation
from agtphost.stores.row_shapes import SHAPES, check_row
from agtphost.stores.rows import DamagedRow, StoreError

_RECORD = [column.name for column in SHAPES["record"]]
_NUMBER, _AUDIT_ID, _SIGNED = (_RECORD.index(name) for name in ("number", "audit_id", "signed"))


def copy_store(
    source: StoreLocation, target: StoreLocation, server_id: str, state_dir: Path, *, keep_serving: bool = False
) -> dict[str, int]:
    """
    Copy all rows of a store into a new one, which is removed after an error; then no host can serve the old one.

    The old store is marked before the new one can be seen, the mark is completed afterwards, and then hosts can serve
    the new one. If the process dies in between, hosts can serve one of both at most.

    :param server_id: the host that the records are of.
    :param state_dir: of the host; it has the numbers of what was published, where a store does not have them.
    :param keep_serving: whether the old store is left as it is.
    :return: the numbers of copied rows, by table, without the tiles.
    :raises Unverified: the source is damaged: it contradicts its records or its newest checkpoint.
    :raises agtphost.errors.ConfigurationError: the numbers of what was published cannot be read.
    :raises agtphost.stores.moves.StoreMoved: the source was copied before.
    :raises agtphost.stores.StoreError: the source cannot be read, or the target cannot be written.
    :raises OSError: the file cannot be written.
    """
    if (found := source.identify()) and found == target.identify():
        raise StoreError(f"FROM and TO are the same store, {source.name}; name a database or schema without one in TO")
    move = None if keep_serving else new_move(target)
    resumed = None if move is None else source.find_move()
    if resumed is not None and (resumed.complete or resumed.target != target.url):
        resumed = None
    marked = False
    copied: Counter[str] = Counter(dict.fromkeys(TABLES, 0))
    try:
        with (
            source.read_tables(moves=move is not None, resumed=resumed) as read,
            target.write_tables(server_id, None if move is None else arriving_move(move)) as write,
        ):
            size, root = _newest_checkpoint(read, source.name)
            growth = Growth(lambda level, number: b"", 0)
            for table in TABLES:
                rows = _count(_check(table, read(table)), table, copied)
                if table == "record":
                    rows = show_progress(_plant(rows, growth, size), "records copied", size)
                write(table, rows)
            tiles = growth.changed_tiles()
            if size and (growth.size != size or Tree(lambda *place: tiles.get(place, b""), size).root() != root):
                raise Unverified(
                    f"{source.name}: the records are not those that its checkpoint of {size} records covers",
                    "Nothing was copied; `agtp audit verify` names what differs.",
                )
            write("tile", ((*place, hashes) for place, hashes in sorted(tiles.items())))
            _copy_numbers(source, read, target, write, state_dir)
            if move is not None:
                marked = True
                read.mark(move)
    except DamagedRow as error:
        raise Unverified(
            f"{source.name}: {error}", "Nothing was copied; `agtp audit verify` names all that differs."
        ) from None
    except BaseException:
        if move is not None and marked:
            withdraw_move(source, target, move)
        raise
    if move is not None:
        try:
            is_finished = finish_move(source, target, move)
        except StoreError as error:
            raise StoreError(
                f"{target.name} is written; {error}. Run the command again, and hosts can serve it"
            ) from error
        if not is_finished:
            raise StoreError(f"{source.name} has another mark now, so no host can serve {target.name}; remove that")
    return dict(copied)


def _copy_numbers(
    source: StoreLocation, read: ReadTable, target: StoreLocation, write: WriteTable, state_dir: Path
) -> None:
    """
    Copy the numbers of what was published, so that the next host uses none again.

    An error of the copy afterwards leaves a file with larger numbers than were used, which does no harm.
    """
    from agtphost.host.publication import HISTORY
    from agtphost.host.publication_history import merge_row, write_file

    history = state_dir / HISTORY
    row = merge_row(history, "".join(text for _, text in read(PUBLISHED)) if source.has_numbers else "")
    if row and target.has_numbers:
        write(PUBLISHED, [(1, row)])
    elif row and source.has_numbers:
        write_file(history, row)


def _newest_checkpoint(read: ReadTable, name: str) -> tuple[int, bytes]:
    """Return size and root of the newest checkpoint; 0 without one."""
    newest: Row | None = None
    for newest in read("checkpoint"):
        check_row("checkpoint", newest)
    if newest is None:
        return 0, b""
    try:
        noted = checkpoint.read(newest[2])
    except checkpoint.CheckpointError as error:
        raise DamagedRow("checkpoint", str(newest[0]), str(error)) from None
    if noted.size != newest[0]:
        raise DamagedRow("checkpoint", str(newest[0]), f"its note is of {noted.size} records")
    return noted.size, noted.root


def _check(table: str, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        check_row(table, row)
        yield row


def _count(rows: Iterable[Row], table: str, copied: Counter[str]) -> Iterator[Row]:
    for row in rows:
        copied[table] += 1
        yield row


def _plant(rows: Iterable[Row], growth: Growth, size: int) -> Iterator[Row]:
    """Add the records that a checkpoint covers to the tree; the host adds the others when it starts."""
    for expected, row in enumerate(rows, 1):
        if row[_NUMBER] != expected:
            raise DamagedRow("record", str(expected), "is not there")
        if sha256(row[_SIGNED]).digest() != row[_AUDIT_ID]:
            raise DamagedRow("record", str(expected), "signed does not have the hash audit_id")
        if expected <= size:
            growth.add(row[_AUDIT_ID])
        yield row
