"""
Where a host on this machine is reached, and where its files lie.

Reading a ``host.toml`` takes more time than most calls. The result is stored in the user's cache directory, under a
digest of everything that it depends on: the text and path of the file, and variables of the environment. The last
reading without a fault is stored without the text, for commands that have to reach the host while the file has one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agtphost import __version__
from agtphost.client.cache_files import cache_folder, read_cached, write_cached

if TYPE_CHECKING:
    from agtphost.config import Config

INPUTS = ("AGTPHOST_STATE_DIR", "CREDENTIALS_DIRECTORY", "HOME")
"""Variables of the environment that paths of a ``host.toml`` depend on."""

_LARGEST_FILE = 4_194_304
"""Octets of a ``host.toml``, as :mod:`agtphost.config` takes it."""


@dataclass(frozen=True, kw_only=True)
class LocalHost:
    """The parts of a configuration that a caller on the same machine needs."""

    address: str
    """``[listen] address``."""

    port: int
    quic_port: int
    """``[quic] port``: 0 where it is that of TLS."""

    endpoint: str | None
    state_dir: Path
    client_ca: Path
    """``[tls] client_ca``: the authority of the host's certificate."""

    known_agents: Path
    """``[identity] known_agents``: the directory with the certificates of agents."""

    signing_key: Path
    """``[audit] key``."""

    shares_store: bool
    """Whether its store is in a database, so that another host can take over from it."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the host of a configuration."""
        # Here the configuration has imported it; commands that recall the host do without.
        from agtphost.vocabulary.database_url import is_postgresql

        return cls(
            address=config.listen.address,
            port=config.listen.port,
            quic_port=config.quic.port,
            endpoint=config.listen.endpoint,
            state_dir=config.host.state_dir,
            client_ca=config.tls.client_ca,
            known_agents=config.identity.known_agents,
            signing_key=config.audit.key,
            shares_store=config.store.plugin is None and is_postgresql(config.store.url),
        )


def recall(path: Path, environ: Mapping[str, str] = os.environ) -> LocalHost | None:
    """Return the host of a ``host.toml`` that was read before without a fault; None if it must be read."""
    found = _recall(_file_for(path, environ))
    if found is not None and found != recall_last(path, environ):
        _write(_file_for_last(path, environ), found)  # The file has a text again that it had before.
    return found


def recall_last(path: Path, environ: Mapping[str, str] = os.environ) -> LocalHost | None:
    """Return the host of a ``host.toml`` as it was when it was last read without a fault."""
    return _recall(_file_for_last(path, environ))


def remember(path: Path, host: LocalHost, environ: Mapping[str, str] = os.environ) -> None:
    """Store the host of a ``host.toml`` without fault; does nothing without a cache directory."""
    for kept in (_file_for(path, environ), _file_for_last(path, environ)):
        _write(kept, host)


def _write(kept: Path | None, host: LocalHost) -> None:
    if kept is not None:
        write_cached(kept, json.dumps(asdict(host), default=str))


def _recall(kept: Path | None) -> LocalHost | None:
    # A file of another user could choose the host and the authority that commands trust; `read_cached` takes none.
    found = None if kept is None else read_cached(kept)
    try:
        return None if found is None else _host_of(found)
    except (ValueError, TypeError, KeyError):
        return None


def _file_for(path: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the file that keeps what is read of ``path``; None where there is none, or ``path`` cannot be read."""
    folder = cache_folder("hosts", environ)
    if folder is None:
        return None
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError):
        return None
    return folder / _file_name(path, environ, text)


def _file_for_last(path: Path, environ: Mapping[str, str]) -> Path | None:
    """
    Return the file that keeps the last reading of ``path`` that had no fault; None where there is none.

    A link that leads elsewhere since, and a directory in the place of another, may be of another host: they have no
    reading yet.
    """
    folder = cache_folder("last-hosts", environ)
    try:
        actual = path.resolve()
        place = f"{actual}\0{actual.parent.stat().st_ino}"
    except (OSError, RuntimeError, ValueError):
        return None
    return None if folder is None else folder / _file_name(path, environ, os.fsencode(place))


def _file_name(path: Path, environ: Mapping[str, str], text: bytes) -> str:
    names = (__version__, str(path.absolute()), *(f"{name}={environ.get(name)}" for name in INPUTS))
    digest = sha256(os.fsencode("\0".join(names)) + b"\0\0" + text).hexdigest()
    return f"{digest}.json"


def _host_of(found: Any) -> LocalHost:
    """Return a kept host. :raises KeyError: a member is absent. :raises TypeError: one has another type."""
    port, quic_port = found["port"], found["quic_port"]
    endpoint, shares_store = found["endpoint"], found["shares_store"]
    if type(port) is not int or type(quic_port) is not int:
        raise TypeError
    if not isinstance(endpoint, str | None) or not isinstance(shares_store, bool):
        raise TypeError
    about: dict[str, Any] = {each.name: Path(found[each.name]) for each in fields(LocalHost) if each.type == "Path"}
    about |= {"port": port, "quic_port": quic_port, "endpoint": endpoint, "shares_store": shares_store}
    return LocalHost(address=str(found["address"]), **about)
