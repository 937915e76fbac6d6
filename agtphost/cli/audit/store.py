"""The host's own store, read by commands on its machine: also while the host runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agtphost.cli.failures import Unverified, WrongInput
from agtphost.stores import DamagedRecord, RecordReader, StoreError
from agtphost.stores.connection import connect

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.iagtp import IPluggableStore, IRecordReader


def source_of(config: Config) -> str:
    """What the store is called in messages."""
    return str(config.store.path) if config.store.plugin is None else f"the store of the plugin {config.store.plugin}"


def may_have_store(config: Config) -> bool:
    """Whether there may be a store: not before the first start, where a file says so."""
    return config.store.plugin is not None or config.store.path.is_file()


def plugged(config: Config) -> IPluggableStore | None:
    """
    The store of a plugin; None where ``[store]`` names none.

    :raises WrongInput: the plugin cannot be used.
    """
    if config.store.plugin is None:
        return None
    from agtphost.host.plugins import Unusable, make
    from agtphost.iagtp import IPluggableStore

    try:
        store: IPluggableStore = make(config.store.plugin, config.store.settings, IPluggableStore)
    except Unusable as error:
        raise WrongInput(str(error), error.hint) from None
    return store


@contextmanager
def open_records(config: Config) -> Iterator[IRecordReader]:
    """
    The reading side of a host's store.

    :raises WrongInput: if there is no store to read.
    :raises Unverified: if a record in it is not what was signed.
    """
    if not may_have_store(config):
        raise WrongInput(f"there is no store at {config.store.path}", "Start the host once.")
    store = plugged(config)
    try:
        reader = RecordReader(str(config.store.path), connect) if store is None else store.reader()
        try:
            yield reader
        finally:
            reader.close()
    except DamagedRecord as error:
        raise Unverified(f"the store is damaged: {error}", "Restore it from a backup.") from None
    except (StoreError, sqlite3.Error) as error:
        raise WrongInput(f"{source_of(config)} cannot be read: {error}") from None
