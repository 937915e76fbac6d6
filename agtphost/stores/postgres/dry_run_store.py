"""A store as a host would find it, for looking whether it could start: nothing is written."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.stores.lease import Holder
from agtphost.stores.postgres.connection import Address
from agtphost.stores.postgres.lease import PostgresLease
from agtphost.stores.postgres.writing import PostgresStore
from agtphost.stores.rows import CheckpointRow


class RehearsedPostgresStore(PostgresStore):
    """
    Reads from a database as a start would; the tiles and checkpoint that a start adds stay in memory.

    Other hosts may hold the store.
    """

    def __init__(self, address: Address, server_id: str = "") -> None:
        super().__init__(
            address, PostgresLease(address, Holder(name="", machine="", directory=""), server_id), server_id
        )
        self._tiles: dict[tuple[int, int], bytes] = {}
        self._issued: CheckpointRow | None = None

    def _take(self) -> None:
        self._transactions.session.command(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

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

    def close(self) -> None:
        self._transactions.session.close()
