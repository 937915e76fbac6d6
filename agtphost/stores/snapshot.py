"""A copy of a database that is in use, as it is at one moment: by SQLite's own online backup."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agtphost.stores import upgrade
from agtphost.stores.connection import connect, explain_failure, open_reader
from agtphost.stores.rows import StoreError

PAGES = 2_048
"""Pages copied in one step: 8 MiB."""

Progress = Callable[[int, int], object]
"""Takes pages that are copied, and all there are."""


def take(source: Path, target: Path, on_progress: Progress = lambda done, pages: None) -> int:
    """
    Copy a store into a single file. Writers are not blocked; commits from now on are left out.

    :param target: made for its owner alone; it must not exist.
    :return: the schema version.
    :raises StoreError: the source is not a store, or cannot be copied.
    """
    if not source.is_file():
        raise StoreError(f"{source} does not exist; name the file of a store")
    # Held until the copy is closed: closing a descriptor of a file takes SQLite's locks on it away.
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    def flush_step(_status: int, left: int, pages: int) -> None:
        os.fsync(descriptor)  # As in agtphost.vocabulary.regular_files: a commit of the host would wait for all of it.
        on_progress(pages - left, pages)

    try:
        with closing(open_reader(connect, str(source))) as reader, closing(sqlite3.connect(target)) as copy:
            assert isinstance(reader, sqlite3.Connection)
            version = upgrade.version_of(reader, str(source))
            # One moment for all steps: without it each commit of the host would begin the copy anew.
            reader.execute("BEGIN")
            reader.execute("SELECT max(number) FROM record").fetchone()
            reader.backup(copy, pages=PAGES, progress=flush_step)
            reader.execute("ROLLBACK")
            # The copy is one file without a write-ahead log; opening it as a store adds one.
            copy.execute("PRAGMA journal_mode=DELETE").fetchone()
        os.fsync(descriptor)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{source} cannot be copied: {explain_failure(str(source), error)}") from error
    finally:
        os.close(descriptor)
    return version
