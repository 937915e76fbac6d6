"""The host's own store, read by commands on its machine: also while the host runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agtphost.cli.failures import Unverified, WrongInput
from agtphost.stores import DamagedRecord, RecordReader, StoreError
from agtphost.stores.connection import connect


@contextmanager
def open_records(path: Path) -> Iterator[RecordReader]:
    """
    The reading side of a database file.

    :raises WrongInput: if there is no store to read.
    :raises Unverified: if a record in it is not what was signed.
    """
    if not path.is_file():
        raise WrongInput(f"there is no store at {path}", "Start the host once.")
    reader = RecordReader(str(path), connect)
    try:
        yield reader
    except DamagedRecord as error:
        raise Unverified(f"the store is damaged: {error}", "Restore it from a backup.") from None
    except (StoreError, sqlite3.Error) as error:
        raise WrongInput(f"the store {path} cannot be read: {error}") from None
    finally:
        reader.close()
