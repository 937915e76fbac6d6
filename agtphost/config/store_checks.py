"""What no key of ``[store]`` tells alone: which keys are for which kind of store."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import ConfigFault
from agtphost.config.sections import Config
from agtphost.vocabulary import database_url


def store_faults(config: Config) -> Iterator[ConfigFault]:
    """Check which keys go together."""
    store = config.store
    yield from _database(config)
    refused = ("url", "password", "require_synchronous_standby", "free_space_reserve")
    for key in refused if store.plugin is not None else ("settings",):
        if key in store.model_fields_set:
            message = (
                "cannot be combined with plugin"
                if store.plugin is not None
                else "is for a plugin, but plugin is not set"
            )
            yield ConfigFault(
                location=("store", key), message=message, hint="remove it", concerns=(("store", "plugin"),)
            )


def _database(config: Config) -> Iterator[ConfigFault]:
    """Check the keys that are for one kind of store alone."""
    store = config.store
    if store.plugin is not None:
        return
    database = database_url.is_postgresql(store.url)
    own = ("password", "require_synchronous_standby")
    for key in ("free_space_floor", "free_space_reserve") if database else own:
        if key in store.model_fields_set:
            if database:
                message = "has no effect with PostgreSQL: the database alone knows its disk"
            else:
                message = "is for PostgreSQL, and url names a SQLite file"
            yield ConfigFault(location=("store", key), message=message, hint="remove it", concerns=(("store", "url"),))
