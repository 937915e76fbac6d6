"""
Where records are kept.

- :mod:`.interfaces`: what a store provides, by who needs it; :mod:`.table_interfaces`: its rows as they are stored;
  :mod:`.rows`: what goes in and out
- :mod:`.sqlite`: the writing side (:class:`~agtphost.iagtp.IChainStore`)
- :mod:`.sql_reader`: the reading side of an SQL database, paged and re-hashed; :mod:`.record_reader`: that of SQLite
- :mod:`.row_shapes`: what each column can hold; :mod:`.table_rows`: rows as they are stored, to be compared
- :mod:`.schema_check`: whether tables, keys and indexes are those of ``schema/``, and no trigger was added
- :mod:`.keyed_digests`: what is signed of a keyed request
- :mod:`.state_rows`: rows of the host's state, and the records that sign it, as they are
- :mod:`.database_check`: which records of a damaged file can be read
- :mod:`.record_search`: records across all chains, newest first; :mod:`.record_look`: one look for them in an SQL
  database; :mod:`.record_summary`: counts by time and by facet; :mod:`.record_rows`: a record as a row of such a
  database
- :mod:`.record_blocks`: facets and times of records in blocks, by which records are counted; :mod:`.block_writer`:
  their writing side; :mod:`.record_hashes`: hashes of sessions, tasks and paths in blocks; :mod:`.known_facets`: the
  facets that a reader has read
- :mod:`.record_index`: the columns that a record is found by
- :mod:`.facet_rows`: what many records have in common, each combination once; :mod:`.record_indexing`: indexes the
  records of an earlier version
- :mod:`.records`: the reading side off the reactor; :mod:`.record_store`: its interface
- :mod:`.connection`, :mod:`.upgrade`, ``schema/``: how the database is opened and made
- :mod:`.location`: where a store is, and what can be asked of it before it is opened; :mod:`.settings`: the location
  of a configuration's store
- :mod:`.postgres`: both sides in a PostgreSQL database; :mod:`.lease`: which of several hosts may write to it
- :mod:`.state_lock`: one host per state directory and store
- :mod:`.memory`: a store without a disk
- :mod:`.ballast`: a file that takes space on the store's disk, to be given back piece by piece when the disk is full
- :mod:`.wal_checkpoint`: checkpoints the write-ahead log in a thread, so that no commit waits for it
- :mod:`.snapshot`: a copy of a database that is in use, as it is at one moment
- :mod:`.copying`: all rows of a store, to move it from one kind of database to another; :mod:`.moves`: the mark of
  the store that was copied, and :mod:`.sqlite_move` in a file
- :mod:`.prefix_lookup`: finds identifiers by their first characters, for commands and for shell completion
- :mod:`.dry_run_store`: a store as a host would find it, for looking whether it could start: nothing is written
"""

from __future__ import annotations

from pathlib import Path

from agtphost.stores import upgrade
from agtphost.stores.connection import Connect, connect, explain_failure
from agtphost.stores.connection import open_reader as open_read_only
from agtphost.stores.memory import MemoryStore
from agtphost.stores.record_reader import RecordReader
from agtphost.stores.record_search import LatestRecords, Search
from agtphost.stores.records import OffReactorRecords
from agtphost.stores.rows import DamagedRecord, Selection, StoreError
from agtphost.stores.sqlite import SQLiteStore, open_sqlite

__all__ = [
    "DamagedRecord",
    "LatestRecords",
    "MemoryStore",
    "OffReactorRecords",
    "RecordReader",
    "SQLiteStore",
    "Search",
    "Selection",
    "StoreError",
    "open_reader",
    "open_store",
]


def open_store(url: str, *, create: bool, opener: Connect = connect) -> SQLiteStore:
    """
    Open the SQLite store of a URL; :func:`agtphost.stores.settings.locate_store` knows every kind.

    :param url: ``sqlite:`` and the path of the database file.
    :param create: whether a missing file is made.
    :param opener: what opens connections; another driver in the crash tests.
    :raises StoreError: see :func:`agtphost.stores.sqlite.open_sqlite`.
    """
    return open_sqlite(_path(url), create=create, opener=opener)


def open_reader(url: str, *, opener: Connect = connect) -> RecordReader:
    """
    Read a SQLite store without writing to it, whether a host has it open or not.

    :raises StoreError: it is missing, not a store, or of another version than this program reads.
    """
    path = _path(url)
    if not path.exists():
        raise StoreError(f"{path} does not exist; name the file of a store")
    try:
        connection = open_read_only(opener, str(path))
        try:
            upgrade.require_latest(connection, str(path))
        finally:
            connection.close()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"{path} cannot be read as a store: {explain_failure(str(path), error)}") from error
    return RecordReader(str(path), opener)


def _path(url: str) -> Path:
    scheme, _, path = url.partition(":")
    if scheme != "sqlite" or not path:
        raise StoreError(f"{url!r} names no file; write sqlite:PATH")
    return Path(path)
