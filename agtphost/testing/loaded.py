"""What a host in memory is built from, checked as everywhere: no file is read but what is named, and none written."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from OpenSSL import SSL

from agtphost.config import Config
from agtphost.config.reading import read_tree
from agtphost.errors import ConfigurationError
from agtphost.host.bindings import Given
from agtphost.host.loaded import Loaded, Parts, catalogs_of, combine
from agtphost.host.plugins import Factory
from agtphost.identity.authorities import Mandates
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import SigningKey
from agtphost.identity.revocation import RevokedLinks
from agtphost.protocols.tls import PreparedTLS, ServerTLS
from agtphost.testing.declarations import Declarations
from agtphost.vocabulary.catalog_set import CatalogSet

SERVER_ID = "host.test"

NOWHERE = Path("/nonexistent/agtphost")
"""Where ``host.toml`` would lie."""

UNREAD = (("tls", "certificate"), ("tls", "key"), ("tls", "client_ca"), ("audit", "key"))
"""Keys whose files no host in memory reads."""


def config_of(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """
    A configuration.

    :param settings: the tables of ``host.toml``; a production host's where they say nothing.
    :raises agtphost.errors.ConfigurationError: with everything that is wrong.
    """
    host = {"server_id": SERVER_ID, "profile": "production", **settings.get("host", {})}
    return read_tree({**settings, "host": host}, NOWHERE / "host.toml", environ, apart_from=UNREAD)


_CATALOGS: dict[str, CatalogSet] = {}
"""The catalog of this package, which most hosts have: read once."""


def _catalogs(config: Config, parts: Parts) -> CatalogSet:
    asked = repr((config.catalog, config.policies.methods.profiles))
    known = _CATALOGS.get(asked)
    if known is not None and config.catalog.path is None:
        return known
    found = catalogs_of(config, parts["catalog"])
    if config.catalog.path is None and not parts["catalog"]:
        _CATALOGS[asked] = found
    return found


def loaded_of(
    config: Config,
    environ: Mapping[str, str],
    directory: AgentDirectory,
    declarations: Declarations,
    key: SigningKey | None,
    plugins: Mapping[str, Factory],
) -> Loaded:
    """
    Read and check everything.

    :param key: signs records and the manifest.
    :param plugins: factories of plugins that need not be installed, by name.
    :raises agtphost.errors.ConfigurationError: with everything that is wrong.
    """
    parts = Parts()
    loaded = combine(
        config,
        _catalogs(config, parts),
        environ,
        parts,
        directory=directory,
        identity=lambda: (key, _tls(config)),
        given=Given(declared=declarations.declared, find=declarations.find, plugins=plugins),
        volatile=True,
    )
    if loaded is None:
        raise ConfigurationError([problem for part in parts.values() for problem in part])
    return loaded


def _tls(config: Config) -> ServerTLS:
    """Nobody connects by TLS, and nobody is revoked by a list, unless a test has its own adopted."""
    prepared = PreparedTLS(
        context=SSL.Context(SSL.TLS_SERVER_METHOD),
        revoked=RevokedLinks.from_lists(()),
        mandates=Mandates(),
        fingerprint=sha256(config.host.server_id.encode()).hexdigest(),
    )
    return ServerTLS(config.tls.model_copy(update={"client_auth": "none"}), prepared)
