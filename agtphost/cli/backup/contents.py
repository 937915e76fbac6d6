"""The files of a host: its configuration, the files that this names, and its state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agtphost.stores.settings import locate_store

if TYPE_CHECKING:
    from agtphost.config import Config

SECRET = b"PRIVATE KEY-----"
"""Text that every PEM file of a private key has."""

EXCLUDED = ("host.lock",)
"""Files of the state directory that are useless to another process."""


def places(config: Config) -> Mapping[str, str]:
    """Return the places of state and store below the directory of host.toml; those from elsewhere go to ``state``."""
    folder, state, store = map(normalize, (config.file.parent, config.host.state_dir, _store_file(config)))
    inside = state.is_relative_to(folder)
    there = str(state.relative_to(folder)) if inside else "state"
    if store.is_relative_to(state):
        database = f"{there}/{store.relative_to(state)}"
    else:
        database = str(store.relative_to(folder)) if store.is_relative_to(folder) else f"{there}/{store.name}"
    return {"state": there, "store": database}


def files(config: Config) -> Iterator[tuple[str, Path]]:
    """
    Yield every file but the store and its witness file, with its name below the directory of the restored host.toml.

    Files of upstream servers, and files elsewhere on the machine, are not part of a host.
    """
    folder, state = normalize(config.file.parent), normalize(config.host.state_dir)
    found: dict[Path, None] = {normalize(config.file): None}
    roots = set(map(normalize, config.endpoints.python_path))
    for path in _paths(config):
        if not path.is_relative_to(folder) or path.is_relative_to(state) or path == folder:
            continue
        if path.is_file():
            found[path] = None
        elif path.is_dir() and path not in roots:
            found.update(dict.fromkeys(_files_below(path, "*")))
    for root in roots:
        if root.is_relative_to(folder) and root.is_dir():
            found.update(dict.fromkeys(each for each in _files_below(root, "*.py") if not each.is_relative_to(state)))
    for path in found:
        yield str(path.relative_to(folder)), path
    store, witness = locate_store(config.store), normalize(config.audit.witness)
    for path in _files_below(state, "*") if state.is_dir() else ():
        if path.name not in EXCLUDED and not store.owns(path) and path != witness:
            yield f"{places(config)['state']}/{path.relative_to(state)}", path


def _store_file(config: Config) -> Path:
    """Return the file of the store; `agtp backup` refuses a store that has none."""
    file = locate_store(config.store).file
    assert file is not None
    return file


def directories(config: Config) -> list[str]:
    """Return directories that a host needs even if empty, by their names below that of the restored host.toml."""
    folder, state = normalize(config.file.parent), normalize(config.host.state_dir)
    below = state.rglob("*") if state.is_dir() else ()
    found = {f"{places(config)['state']}/{path.relative_to(state)}" for path in below if path.is_dir()}
    for path in _paths(config):
        if path.is_dir() and path.is_relative_to(folder) and not path.is_relative_to(state) and path != folder:
            found.add(str(path.relative_to(folder)))
    return sorted(found)


def normalize(path: Path) -> Path:
    """Return a path without ``..``, so that a sibling of a directory does not seem to be inside it."""
    return Path(os.path.normpath(path))


def is_secret(octets: bytes) -> bool:
    """Return whether a file is a private key."""
    return SECRET in octets


def _files_below(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a directory, except those that are hidden or generated."""
    for path in sorted(folder.rglob(pattern)):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(
            part.startswith(".") or part in ("__pycache__", "node_modules") for part in parts
        ):
            yield path


def _paths(value: Any) -> Iterator[Path]:
    """Yield every path that a configuration names."""
    if isinstance(value, Path):
        yield normalize(value)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _paths(getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _paths(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _paths(each)
