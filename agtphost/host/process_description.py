"""Describe this process for the other hosts of its store: its program, and digests of its files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from twisted.internet.threads import deferToThreadPool

from agtphost import __version__
from agtphost.cluster.process_reports import ProcessReporter
from agtphost.config import Config
from agtphost.config.loader import MAX_OCTETS
from agtphost.host.host_loader import LoadedHost
from agtphost.host.reload_candidate import is_key_in_force
from agtphost.host.reload_plan import CONFIGURATION, SIGNING_KEY, inventory
from agtphost.identity.provisioning import HOSTED
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import UNTAKEN, HostProcess
from agtphost.vocabulary import tomltext

OWN: Final = frozenset({"agents' files"})
"""Kinds of files in which hosts differ: an agent that is admitted while they run has files at one of them."""

ISSUED: Final = "issued agents"
"""The kind of agents that a development host issues itself: hosts that issue each their own have different ones."""

DIGITS: Final = 16
"""Hexadecimal digits of a digest."""


def build_reporter(reactor: Any, lease: ILease, loaded: Callable[[], LoadedHost], state: str) -> ProcessReporter:
    """
    Return the service that reports this process.

    :param loaded: returns the configuration in force.
    :param state: ``serving`` or ``standby``.
    """
    process = uuid.uuid4().hex

    def describe() -> HostProcess:
        host = loaded()
        return HostProcess(
            id=process,
            name=lease.me.name,
            place=lease.me.place,
            version=__version__,
            state=state,
            settings=digest_settings(host),
        )

    return ProcessReporter(reactor, lease, describe, partial(deferToThreadPool, reactor, reactor.getThreadPool()))


def digest_settings(loaded: LoadedHost) -> dict[str, str]:
    """Return a digest of each kind of file that hosts with one store have alike."""
    config = loaded.config
    kinds = {kind: files for kind, files in inventory(config, loaded.tls).items() if files and kind not in OWN}
    digests = {
        kind: _digest_configuration(config.file) if kind == CONFIGURATION else _digest_files(config, files)
        for kind, files in kinds.items()
    }
    if issued := sorted((config.host.state_dir / HOSTED).glob("*/genesis.json")):
        digests[ISSUED] = _digest_files(config, issued)
    if loaded.untaken is not None:
        digests.update(dict.fromkeys(loaded.untaken.kinds & {*digests}, UNTAKEN))
    if SIGNING_KEY in digests and not is_key_in_force(config, loaded.key):
        # A standby that has not read its key again cannot take over.
        digests[SIGNING_KEY] = "not read"
    return digests


def _digest_configuration(file: Path) -> str:
    """Return the digest of a ``host.toml`` without the keys in which hosts differ."""
    try:
        tables = tomltext.read(file, MAX_OCTETS).tree
    except tomltext.TomlError:
        return "unreadable"
    for table, key in (("cluster", "name"), ("host", "state_dir")):
        if isinstance(tables.get(table), dict):
            tables[table].pop(key, None)
    return _shorten(json.dumps(tables, sort_keys=True, default=str).encode())


def _digest_files(config: Config, files: Iterable[Path]) -> str:
    lines = []
    for path in sorted(files):
        inside = next((top for top in (config.host.state_dir, config.folder) if path.is_relative_to(top)), None)
        shown = path.name if inside is None else path.relative_to(inside).as_posix()
        try:
            lines.append(f"{sha256(path.read_bytes()).hexdigest()}  {shown}\n")
        except OSError:
            lines.append(f"unreadable  {shown}\n")
    return _shorten("".join(sorted(lines)).encode())


def _shorten(octets: bytes) -> str:
    return sha256(octets).hexdigest()[:DIGITS]
