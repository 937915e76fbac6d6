"""
Where a store is: what host and commands ask about it before it is opened, for every kind of store.

Code outside this package knows no path of a store. It asks a :class:`StoreLocation`, and a kind of store that has no
file answers None, or with nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agtphost.stores.moves import describe_move
from agtphost.stores.rows import StoreError
from agtphost.stores.state_lock import NAME, StateLock
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.stores.copying import StoreTables, WriteTable
    from agtphost.stores.interfaces import IChainStore, ILease, IRecordReader
    from agtphost.stores.lease import Holder, ProcessSighting
    from agtphost.stores.moves import StoreMove
    from agtphost.stores.prefix_lookup import RecordPreview

Progress = Callable[[int, int], object]
"""Takes how many pages are copied, and how many there are."""


class StoreLocation:
    """
    A store that has no file on this machine, such as that of a plugin.

    :param name: the store in messages.
    """

    backup_hint = "it has its own means of backup"
    """How the store is backed up, where :meth:`copy` cannot."""

    has_numbers = False
    """Whether the numbers of what hosts publish are in the store, and not in the state directory alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def file(self) -> Path | None:
        """The file that holds the store."""
        return None

    @property
    def reserve(self) -> Path | None:
        """The file that reserves space for the store on its disk."""
        return None

    @property
    def disk(self) -> Path | None:
        """The directory of this machine on whose disk the store grows."""
        return None

    def lock(self, state_dir: Path) -> StateLock:
        """Return the lock of a state directory and of the store, not yet acquired."""
        return StateLock(state_dir, self.file)

    @contextmanager
    def lock_stopped(self, state_dir: Path) -> Iterator[None]:
        """
        Keep the host of a state directory, and that of the directory where the store lies, from starting.

        :param state_dir: without it, nothing is locked there.
        :raises StoreError: one of them runs.
        """
        folders = [state_dir.resolve()]
        if self.file is not None and (beside := self.file.resolve().parent) not in folders and (beside / NAME).exists():
            folders.append(beside)
        with ExitStack() as locks:
            for folder in folders:
                if folder.is_dir():
                    lock = self.lock(folder)
                    lock.acquire()
                    locks.callback(lock.release)
            yield

    def may_exist(self) -> bool:
        """Return whether a store may be there; only a file shows that it is not."""
        return True

    def owns(self, path: Path) -> bool:
        """Return whether a file of the state directory belongs to the store."""
        return False

    def files(self) -> Sequence[Path]:
        """Return the files of the store that exist."""
        return ()

    def traces(self) -> Sequence[Path]:
        """Return files that show that there was a store, even if it is missing now."""
        return ()

    def free_space(self) -> int | None:
        """
        Return the octets that are free where the store grows; None where this machine does not tell.

        :raises OSError: the disk does not answer.
        """
        return None

    def size(self) -> int:
        """Return the octets of the store's file; 0 without one."""
        return 0

    def warnings(self) -> Iterator[str]:
        """Yield what is unsafe about the way to the store, for the operator."""
        yield from ()

    def find_risks(self) -> Sequence[str]:
        """
        Ask the store's server what is unsafe about it, for the operator.

        :raises StoreError: it cannot be reached.
        """
        return ()

    def find_takeover_risks(self) -> Sequence[str]:
        """
        Ask the store's server what could keep this host from taking over, for the operator; part of the above.

        :raises StoreError: it cannot be reached.
        """
        return ()

    def lease(self, me: Holder, server_id: str) -> ILease | None:
        """
        Return the lease of the store, not yet taken; None where the lock of the state directory does its work.

        :param me: the host that may take it.
        :param server_id: the host whose store it must be; empty for any.
        :raises StoreError: the library of the store's kind is missing.
        """
        return None

    def open_store(
        self, *, create: bool, holder: str = "", server_id: str = "", lease: ILease | None = None
    ) -> IChainStore:
        """
        Open the store for writing.

        :param create: whether a missing file is made. A store in a database is never made here.
        :param holder: who opens it, such as the state directory of a host on this machine.
        :param server_id: the host whose store it must be; empty for any.
        :param lease: what :meth:`lease` returned; by default one that is taken now, for ``holder``.
        :raises StoreError: it is missing, not a store, another host's, of a later version, or cannot be written.
        """
        raise StoreError(f"{self.name} is opened by its plugin")

    def open_reader(self, *, lenient: bool = False) -> IRecordReader:
        """
        Open the store for reading, whether a host has it open or not.

        :param lenient: whether a damaged store is opened too; then its reads report the damage.
        :raises StoreError: it is missing, not a store, or of another version than this program reads.
        """
        raise StoreError(f"{self.name} is read by its plugin; use the means that the plugin has for this")

    def rehearse(self, *, create: bool, folder: Path, server_id: str = "") -> IChainStore:
        """
        Open the store as a host would at its start, without changing it.

        :param create: as for :meth:`open_store`, and ``server_id`` too.
        :param folder: an empty directory for a copy.
        :raises StoreError: as :meth:`open_store`.
        """
        raise StoreError(f"{self.name} is opened by its plugin")

    def create(self, server_id: str) -> None:
        """
        Make an empty store in a database; a store in a file is made when its host is set up.

        :param server_id: the host that its records will be of.
        :raises StoreError: there is a store already, or it cannot be made.
        """
        raise StoreError(f"{self.name} is made when the host is set up; `agtp store init` is for a database")

    def upgrade(self) -> tuple[int, int] | None:
        """
        Bring a store to the schema version of this program; None where the host does that at its start.

        :return: the version before, and the one now.
        :raises StoreError: it is missing, of a later version, or in use by a host that could not use it any more.
        """
        return None

    def describe(self) -> Mapping[str, Any]:
        """
        Return who holds the store, and other fields that its kind alone has.

        :raises StoreError: it cannot be read.
        """
        return {}

    def identify(self) -> str:
        """
        Return what is the same for two ways to one store in a database, and no two stores have; empty without a store.

        :raises StoreError: it cannot be reached.
        """
        return ""

    def processes(self) -> Sequence[ProcessSighting]:
        """
        Return the processes that run on a store which several hosts share; none of any other store.

        :raises StoreError: it cannot be read.
        """
        return ()

    def copy(self, target: Path, progress: Progress) -> int:
        """
        Copy the store into a file, as of one moment, and return the schema version.

        :raises StoreError: it cannot be copied.
        """
        raise StoreError(f"{self.name} cannot be copied into a file: {self.backup_hint}")

    @property
    def url(self) -> str:
        """The URL by which ``[store] url`` names the store, without a password."""
        raise StoreError(f"{self.name} has no URL")

    def find_move(self) -> StoreMove | None:
        """
        Return the mark of a store that was copied to another place; None without a mark, or without a store.

        :raises StoreError: it cannot be read.
        """
        return None

    def change_move(self, seen: StoreMove, move: StoreMove | None) -> bool:
        """
        Replace the mark of a store, or remove it; return whether it had the one that was seen.

        :raises StoreError: it cannot be written.
        """
        return False

    def await_creation(self) -> bool:
        """
        Return whether there is a store, after a wait for a command that makes one in this moment.

        :raises StoreError: it cannot be reached.
        """
        return self.may_exist()

    def read_tables(
        self, *, moves: bool = False, resumed: StoreMove | None = None
    ) -> AbstractContextManager[StoreTables]:
        """
        Return a context in which the rows of all tables are read, as of one moment.

        :param moves: whether the store can be marked as copied at the end.
        :param resumed: its mark, if it has one.
        :raises StoreError: the store cannot be read, a host on another machine writes to it, or it has another mark.
        """
        raise StoreError(f"{self.name} is read by its plugin; use the means that the plugin has for this")

    def write_tables(self, server_id: str, mark: StoreMove | None = None) -> AbstractContextManager[WriteTable]:
        """
        Return a context in which a new store is made of rows; an error in it leaves nothing.

        :param server_id: the host that the records are of.
        :param mark: keeps hosts from the new store until it is removed.
        :raises StoreError: there is a store already, or it cannot be made.
        """
        raise StoreError(f"{self.name} is written by its plugin; use the means that the plugin has for this")

    def find_records(self, beginning: str, most: int) -> Sequence[RecordPreview]:
        """
        Return the newest records whose Audit-IDs begin so, unverified.

        :param beginning: hexadecimal digits.
        :raises StoreError: the store cannot be read.
        """
        raise StoreError(f"{self.name} cannot be searched for the beginning of an Audit-ID; give all 64 digits")


class SQLiteLocation(StoreLocation):
    """
    A store in a SQLite file.

    :param path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    @property
    def file(self) -> Path:
        return self._path

    @property
    def reserve(self) -> Path:
        return self._path.with_name(f"{self._path.name}.reserve")

    @property
    def disk(self) -> Path:
        return self._path.parent

    def may_exist(self) -> bool:
        return self._path.is_file()

    def owns(self, path: Path) -> bool:
        return path.name.startswith(self._path.name)

    def files(self) -> Sequence[Path]:
        every = (self._path.with_name(f"{self._path.name}{end}") for end in ("", "-wal", "-shm"))
        return [path for path in every if path.exists()]

    def traces(self) -> Sequence[Path]:
        found = [self.reserve, *sorted(self._path.parent.glob(f"{self._path.name}.*Z"))[:3]]
        return [path for path in found if path.exists()]

    def free_space(self) -> int:
        # Before the first start its directory is not there yet.
        return shutil.disk_usage(next(each for each in self._path.absolute().parents if each.is_dir())).free

    def size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def open_store(
        self, *, create: bool, holder: str = "", server_id: str = "", lease: ILease | None = None
    ) -> IChainStore:
        from agtphost.stores.sqlite import open_sqlite

        return open_sqlite(self._path, create=create)

    def open_reader(self, *, lenient: bool = False) -> IRecordReader:
        from agtphost.stores import RecordReader, open_reader
        from agtphost.stores.connection import connect

        return RecordReader(str(self._path), connect) if lenient else open_reader(f"sqlite:{self._path}")

    def rehearse(self, *, create: bool, folder: Path, server_id: str = "") -> IChainStore:
        from agtphost.stores.dry_run_store import rehearse_store

        return rehearse_store(self._path, create=create, aside=folder)

    @property
    def url(self) -> str:
        return f"sqlite:{self._path.absolute()}"

    def upgrade(self) -> tuple[int, int] | None:
        if self.find_move() is None:
            return None
        from agtphost.stores.copying import upgrade_moved

        return upgrade_moved(self._path)

    def describe(self) -> Mapping[str, Any]:
        return describe_move(self.find_move())

    def find_move(self) -> StoreMove | None:
        from agtphost.stores.copying import find_sqlite_move

        return find_sqlite_move(self._path)

    def change_move(self, seen: StoreMove, move: StoreMove | None) -> bool:
        from agtphost.stores.copying import change_sqlite_move

        return change_sqlite_move(self._path, seen, move)

    def read_tables(
        self, *, moves: bool = False, resumed: StoreMove | None = None
    ) -> AbstractContextManager[StoreTables]:
        from agtphost.stores.copying import read_sqlite

        return read_sqlite(self._path, moves=moves, resumed=resumed)

    def write_tables(self, server_id: str, mark: StoreMove | None = None) -> AbstractContextManager[WriteTable]:
        from agtphost.stores.copying import write_sqlite

        return write_sqlite(self._path, mark)

    def copy(self, target: Path, progress: Progress) -> int:
        from agtphost.stores import snapshot

        return snapshot.take(self._path, target, progress)

    def find_records(self, beginning: str, most: int) -> Sequence[RecordPreview]:
        from agtphost.stores.prefix_lookup import records

        try:
            return records(self._path, beginning, most)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be read: {explain(error)}") from error
