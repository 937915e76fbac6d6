"""
Stamp every file that a start reads, so that a later change of one is noticed.

These are the files that a reload compares (:mod:`agtphost.host.reload_plan`), and all others that ``host.toml`` names.
A running host reads the latter once for each value that names them; a host on standby has not used them yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agtphost.config import Config
from agtphost.errors import Problem
from agtphost.host.reload_plan import Inventory, inventory
from agtphost.protocols import ServerTLS
from agtphost.vocabulary.regular_files import stamps

NAMED = "other files that host.toml names"
"""The kind of secrets, certificates of upstreams, and everything else that a reload compares by its value."""

WRITTEN = (("audit", "witness"), ("quic", "qlog"))
"""Files that a host names and writes."""


@dataclass(frozen=True, kw_only=True)
class UntakenChange:
    """A change of files that a host did not take when it took over, because it could not have served with them."""

    kinds: frozenset[str]
    """The kinds of the files."""

    keys: tuple[str, ...] = ()
    """Keys of ``host.toml`` that stay as they were, while the rest was taken; none: nothing was taken."""

    problems: tuple[Problem, ...]

    def describe(self) -> str:
        """Return what was not taken, why, and what to do, in one line."""
        first, *others = map(str, self.problems)
        why = f"{first} (and {len(others)} more in the log)" if others else first
        what, cure = ", ".join(self.keys or sorted(self.kinds)), "correct it, and restart this host"
        if not self.keys:
            cure = "this host serves what it read before: correct it, and then run `agtp reload`"
        return f"changed, and not taken when this host took over: {what}: {why}; {cure}"


def describe_untaken(
    untaken: UntakenChange | None, left_out: Collection[str], emptied: Collection[str] = ()
) -> list[str]:
    """
    Return a line for each thing that was not taken when a host took over.

    :param left_out: labels of agents that were not admitted; see :mod:`agtphost.host.reserved_labels`.
    :param emptied: keys that lost what named such agents, and wait for a restart.
    """
    lines = [] if untaken is None else [untaken.describe()]
    if left_out:
        lines.append(
            f"not taken when this host took over: {', '.join(sorted(left_out))}, with what names it in host.toml: the "
            "label is reserved for an agent that ended; issue it under another label, or remove its files, and then "
            "run `agtp reload`"
        )
    if emptied:
        lines.append(
            f"not taken when this host took over: what named a left-out agent in {', '.join(sorted(emptied))}: name "
            "another one, and restart this host, as a reload does not take it"
        )
    return lines


def stamp_files(config: Config, tls: ServerTLS | None) -> Inventory:
    """
    Return every file that a start reads by its kind, with a stamp; callable in any thread.

    :param tls: None before it was read: its files have no stamp then.
    """
    found = inventory(config, tls)
    known = {path for files in found.values() for path in files} | set(config.tls.files)
    named = set(_find_named(config)).union(config.files) - known
    return {**found, NAMED: stamps(sorted(path for path in named if not path.is_dir()))}


def as_read(files: Inventory, config: Config) -> Inventory:
    """Return stamps with those that files had before the configuration was read from them."""
    return {
        kind: {path: config.files.get(path, stamp) for path, stamp in found.items()} for kind, found in files.items()
    }


def find_changes(present: Inventory, before: Inventory) -> set[str]:
    """Return the kinds of files that have changed."""
    return {kind for kind in present if present[kind] != before.get(kind)}


def _find_named(config: Config) -> Iterator[Path]:
    """Yield the files that values of a configuration name."""
    for name in type(config).model_fields:
        if name != "file":
            yield from _paths(getattr(config, name), (name,), config.folder)


def _paths(value: Any, location: tuple[str, ...], folder: Path) -> Iterator[Path]:
    if location in WRITTEN:
        return
    if isinstance(value, Path):
        yield value
    elif isinstance(value, str) and value.startswith("file:"):
        yield folder / value.removeprefix("file:")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _paths(getattr(value, name), (*location, name), folder)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _paths(each, (*location, str(name)), folder)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _paths(each, location, folder)
