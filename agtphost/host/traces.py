"""
What shows that a host has had a store, where the store itself and its witness file say nothing.

An emptied database beside a witness file that was removed looks like the
first start of a new host. Everything here is made by a host that has started,
after its witness file was: by it a host that lost its evidence is told from a
new one. Where nothing of it remains, nobody on this machine can tell; a
witness that somebody else runs can.
"""

from __future__ import annotations

from pathlib import Path

from agtphost.config import Config
from agtphost.host.publication import HISTORY
from agtphost.identity.key_history import DIRECTORY


def traces(config: Config) -> tuple[Path, ...]:
    """The files of an earlier life, if any."""
    state, store, witness = config.host.state_dir, config.store.path, config.audit.witness
    found = [state / HISTORY, store.with_name(f"{store.name}.reserve")]
    for folder, pattern in (
        (state / DIRECTORY, "*"),
        (store.parent, f"{store.name}.*Z"),
        (witness.parent, f"{witness.name}.*Z*"),
    ):
        found += sorted(folder.glob(pattern))[:3]
    return tuple(path for path in found if path.exists())
