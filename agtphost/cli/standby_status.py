"""The state of a standby on this machine, from its files and the lease of its store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agtphost.cli.failures import CommandError
from agtphost.cli.host_config import find_config, load_usable_config
from agtphost.cli.options import HERE
from agtphost.stores import StoreError
from agtphost.stores.lease import holder_here
from agtphost.stores.settings import locate_store

if TYPE_CHECKING:
    from agtphost.cli.options import Connection

STANDBY = "standby"


def standby_fields(where: Connection) -> dict[str, Any]:
    """Return the fields of the configured host if it runs and another one has the lease; none otherwise."""
    path = find_config(where) if where.host_uri == HERE and where.profile is None else None
    if path is None:
        return {}
    try:
        config = load_usable_config(path, ("store",), ("cluster",), ("host", "state_dir"))
        store = locate_store(config.store)
        me = holder_here(config.cluster.name, config.host.state_dir, config.cluster.takeover_after)
        lease = store.lease(me, config.host.server_id)
        if lease is None or store.lock(config.host.state_dir).holder() is None:
            return {}
        try:
            seen = lease.look()
        finally:
            lease.give_up()
    except (CommandError, StoreError):
        return {}
    holder = None if seen.is_over else seen.holder
    # The name may come from the environment, which a command need not share with the host.
    if holder is not None and holder.place == me.place:
        return {}
    return {
        "state": STANDBY,
        "ready": False,
        "server_id": config.host.server_id,
        "name": me.name,
        "serving": None if holder is None else holder.name or holder.place,
        "serving_at": None if holder is None else holder.place,
        "since": None if holder is None else holder.since or None,
        "takeover_after": None if holder is None else holder.takeover_after,
        "term": seen.term,
        "store": store.name,
    }


def rows_of_standby(seen: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the lines for people."""
    yield "state", seen["state"]
    yield "host", f"{seen['server_id']}, as {seen['name']}"
    since = f", since {seen['since']}" if seen["since"] else ""
    yield "serves", f"{seen['serving']}, at {seen['serving_at']}{since}" if seen["serving"] else "no host"
    yield "term", seen["term"]
    yield "store", seen["store"]
