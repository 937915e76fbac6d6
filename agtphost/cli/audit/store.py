"""Read the host's own store from commands on its machine, also while the host runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agtphost.cli.failures import Unverified, WrongInput
from agtphost.stores import DamagedRecord, StoreError
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.iagtp import IPluggableStore, IRecordReader


def source_of(config: Config) -> str:
    """Return the name of the store for messages."""
    return locate_store(config.store).name


def may_have_store(config: Config) -> bool:
    """Return whether a store may exist; a file store exists after the host's first start."""
    return locate_store(config.store).may_exist()


def load_plugin_store(config: Config) -> IPluggableStore | None:
    """
    Return the store of a plugin, or None if ``[store]`` names no plugin.

    :raises WrongInput: the plugin cannot be used.
    """
    if config.store.plugin is None:
        return None
    from agtphost.host.plugins import UnusablePlugin, make_plugin
    from agtphost.iagtp import IPluggableStore

    try:
        store: IPluggableStore = make_plugin(config.store.plugin, config.store.settings, IPluggableStore)
    except UnusablePlugin as error:
        raise WrongInput(str(error), error.hint) from None
    return store


@contextmanager
def open_records(config: Config) -> Iterator[IRecordReader]:
    """
    Open a host's store for reading.

    :raises WrongInput: the store does not exist or cannot be read.
    :raises Unverified: a record in it differs from what was signed.
    """
    if not may_have_store(config):
        raise WrongInput(f"the store {source_of(config)} does not exist", "Start the host once.")
    store = load_plugin_store(config)
    try:
        reader = locate_store(config.store).open_reader(lenient=True) if store is None else store.reader()
        try:
            yield reader
        finally:
            reader.close()
    except DamagedRecord as error:
        raise Unverified(f"the store is damaged: {error}", "Restore it from a backup.") from None
    except (StoreError, sqlite3.Error) as error:
        raise WrongInput(f"{source_of(config)} cannot be read: {explain(error)}") from error
