"""
A disk whose power can be cut: an SQLite VFS that knows what was never synced.

Writes go to real files, and into a journal per file until that file is
synced. A cut at any moment yields what a disk could hold then: everything
synced, and of the rest any beginning, the last write perhaps torn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from agtphost.stores.connection import Connection

SECTOR = 512

_names = count()


class Journal:
    """One file: its octets at the last sync, and what was written since."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, octets), or (length, None) for a truncation."""

    def sync(self) -> None:
        self.synced = self._with(self.pending)
        self.pending = []

    def after_a_cut(self, chance: random.Random) -> bytes:
        """What is left: a random beginning of the unsynced writes, the last of them perhaps torn."""
        kept = self.pending[: chance.randint(0, len(self.pending))]
        if kept and chance.random() < 0.5:
            offset, octets = kept[-1]
            if octets is not None:
                kept[-1] = (offset, octets[: chance.randrange(0, len(octets) + 1, SECTOR)])
        return bytes(self._with(kept))

    def _with(self, writes: list[tuple[int, bytes | None]]) -> bytearray:
        image = bytearray(self.synced)
        for offset, octets in writes:
            if octets is None:
                del image[offset:]
            else:
                image.extend(bytes(max(0, offset - len(image))))
                image[offset : offset + len(octets)] = octets
        return image


class Disk(apsw.VFS):
    """
    :param on_write: called before each write and each sync: the moments at which power may fail.
    """

    def __init__(self, on_write: Callable[[], None] = lambda: None) -> None:
        self.name = f"cut{next(_names)}"
        super().__init__(self.name, "")
        self.journals: dict[str, Journal] = {}
        self.on_write = on_write
        self.files: list[_File] = []

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return _File(self, name, flags, self.journals.setdefault(Path(path).name, Journal()))

    def xDelete(self, name: str, sync_directory: bool) -> None:
        self.journals.pop(Path(name).name, None)
        super().xDelete(name, sync_directory)

    def connect(self, uri: str) -> Connection:
        """Open a database on this disk, which has no shared memory: the log's index stays in the process."""
        connection = apsw.Connection(
            uri,
            vfs=self.name,
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI,
        )
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        return connection

    def cut(self, folder: Path, chance: random.Random) -> None:
        """Write into ``folder`` what the disk would hold if power failed now."""
        for name, journal in self.journals.items():
            octets = journal.after_a_cut(chance)
            if octets or not name.endswith("-wal"):
                (folder / name).write_bytes(octets)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int], journal: Journal) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._journal = journal

    def xWrite(self, octets: bytes, offset: int) -> None:
        self._disk.on_write()
        self._journal.pending.append((offset, bytes(octets)))
        super().xWrite(octets, offset)

    def xTruncate(self, length: int) -> None:
        self._journal.pending.append((length, None))
        super().xTruncate(length)

    def xSync(self, flags: int) -> None:
        self._disk.on_write()
        self._journal.sync()
        super().xSync(flags)
