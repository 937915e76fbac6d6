"""A store as a host would find it, for looking whether it could start: nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from agtphost.stores import upgrade
from agtphost.stores.connection import Connect, connect, explain_failure, open_reader
from agtphost.stores.memory import MemoryStore
from agtphost.stores.rows import CheckpointRow, StoreError
from agtphost.stores.sqlite import RESTORE, SQLiteStore, expect, open_sqlite, refuse_device
from agtphost.stores.sqlite_move import require_unmoved


class RehearsedStore(SQLiteStore):
    """
    Reads from a database; the tiles and checkpoint that a start adds stay in memory.

    :param path: of a store of the latest version.
    """

    def __init__(self, path: Path, opener: Connect = connect) -> None:
        super().__init__(path, opener, open_reader(opener, str(path)))
        self._tiles: dict[tuple[int, int], bytes] = {}
        self._issued: CheckpointRow | None = None

    def begin(self) -> bool:
        return False

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        pass

    def tile(self, level: int, number: int) -> bytes:
        return self._tiles.get((level, number)) or super().tile(level, number)

    def put_tiles(self, tiles: Mapping[tuple[int, int], bytes]) -> None:
        self._tiles.update(tiles)

    def checkpoint(self) -> CheckpointRow | None:
        return self._issued or super().checkpoint()

    def put_checkpoint(self, row: CheckpointRow) -> None:
        self._issued = row


def rehearse_store(path: Path, *, create: bool, aside: Path) -> SQLiteStore | MemoryStore:
    """
    Open the store that :func:`agtphost.stores.open_store` would open, without changing it.

    :param create: as for :func:`agtphost.stores.open_store`.
    :param aside: a directory for a copy of a store that has to be upgraded.
    :raises StoreError: as :func:`agtphost.stores.open_store` does.
    """
    refuse_device(path)
    if not path.exists():
        if not create:
            expect(path)
        return MemoryStore()
    if path.is_file() and not path.stat().st_size:
        return MemoryStore()
    try:
        with closing(open_reader(connect, str(path))) as reader:
            version = upgrade.version_of(reader, str(path))
            require_unmoved(reader, str(path))
            if version == upgrade.latest():
                return RehearsedStore(path)
            copy = aside / path.name
            with closing(sqlite3.connect(copy)) as target:
                assert isinstance(reader, sqlite3.Connection)
                reader.backup(target)
        return open_sqlite(copy, create=False)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"{path} cannot be used as a store: {explain_failure(str(path), error)}. {RESTORE}") from error
