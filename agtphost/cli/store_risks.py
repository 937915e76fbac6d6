"""What is unsafe about the database of the configured host, for ``agtp status``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agtphost.cli.failures import CommandError
from agtphost.cli.host_config import find_config, load_config
from agtphost.cli.options import HERE
from agtphost.stores import StoreError
from agtphost.stores.settings import locate_store

if TYPE_CHECKING:
    from agtphost.cli.options import Connection


def store_risks(where: Connection) -> Sequence[str]:
    """Return what the server of the configured host's store says; nothing where another host is asked."""
    path = find_config(where) if where.host_uri == HERE and where.profile is None else None
    if path is None:
        return ()
    try:
        return locate_store(load_config(path).store).find_risks()
    except (CommandError, StoreError):
        return ()
