"""The state of a stopped host, from its files."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from agtphost.cli.failures import CommandError
from agtphost.cli.host_config import find_config, load_usable_config
from agtphost.stores import Search, StoreError
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.cli.options import Connection
    from agtphost.config import Config


def offline_fields(where: Connection) -> dict[str, Any]:
    """Return the fields that the configured host's files show, or none without such a host; change nothing."""
    path = find_config(where)
    if path is None:
        return {}
    try:
        config = load_usable_config(path, ("store",), ("host", "state_dir"))
    except CommandError as error:
        return {"note": error.message}
    holder = locate_store(config.store).lock(config.host.state_dir).holder()
    held = {} if holder is None else {"held_by": f"a host{holder} uses this state, but does not answer".strip()}
    return {"config": str(path), **held, **_store_fields(config)}


def _store_fields(config: Config) -> dict[str, Any]:
    """Return the fields from the store."""
    if config.store.plugin is not None:
        return {"store": f"of the plugin {config.store.plugin}"}
    store = locate_store(config.store)
    found: dict[str, Any] = {"store": store.name}
    try:
        if (free := store.free_space()) is not None:
            found["free_octets"] = free
        reader = store.open_reader()
    except (StoreError, OSError) as error:
        return {**found, "store": explain(error)}
    try:
        described = store.describe()
        found |= {name: described[name] for name in ("serving", "moved_to") if described.get(name)}
        newest = reader.latest(None, 1, Search()).records
        checkpoint = reader.checkpoint()
    except (StoreError, sqlite3.Error) as error:
        return {**found, "store": f"{store.name} cannot be read: {explain(error)}"}
    finally:
        reader.close()
    found["records"] = newest[0][0] if newest else 0
    if checkpoint is not None:
        found["checkpoint"] = checkpoint.size
    if newest:
        found["newest_record"] = _issued_at(newest[0][1])
    return found


def _issued_at(record: Any) -> str | None:
    """Return when a record was signed."""
    from agtphost.identity import envelope

    moment = envelope.parse_unverified(record.format, record.signed).get("issued_at")
    return moment if isinstance(moment, str) else None
