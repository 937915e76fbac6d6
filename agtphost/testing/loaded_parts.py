"""Load and check the parts of a host in memory; only named files are read, and none is written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from OpenSSL import SSL

from agtphost.config import Config
from agtphost.config.loader import read_tree
from agtphost.errors import ConfigurationError
from agtphost.host.bindings import ExtraEndpoints
from agtphost.host.host_loader import LoadedHost, ProblemsByPart, catalogs_of, combine
from agtphost.host.plugins import Factory
from agtphost.identity.authorities import Mandates
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import SigningKey
from agtphost.identity.revocation import RevokedLinks
from agtphost.protocols.tls import PreparedTLS, ServerTLS
from agtphost.testing.declarations import Declarations
from agtphost.vocabulary import lru
from agtphost.vocabulary.catalog_set import CatalogSet

SERVER_ID = "host.test"

NOWHERE = Path("/nonexistent/agtphost")
"""The directory in which ``host.toml`` would be."""

UNREAD = (("tls", "certificate"), ("tls", "key"), ("tls", "client_ca"), ("audit", "key"))
"""Keys whose files are not read for a host in memory."""


def config_of(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """
    Return a configuration.

    :param settings: the tables of ``host.toml``, over the defaults of a production host.
    :raises agtphost.errors.ConfigurationError: the settings are not valid; the error lists every problem.
    """
    asked = repr((settings, environ))
    known = _CONFIGS.get(asked)
    if known is None:
        host = {"server_id": SERVER_ID, "profile": "production", **settings.get("host", {})}
        known = read_tree({**settings, "host": host}, NOWHERE / "host.toml", environ, apart_from=UNREAD)
        if any(mark in asked for mark in ("'/", "file:", " at 0x")):
            return known  # It depends on files, which may change, or on an object that its text does not tell.
    return lru.keep(_CONFIGS, asked, known, MOST_CONFIGS)


_CONFIGS: OrderedDict[str, Config] = OrderedDict()
"""Configurations by settings: many hosts have the same, and none changes one."""

MOST_CONFIGS = 200

_CATALOGS: dict[str, CatalogSet] = {}
"""Catalogs of this package by settings; most hosts use one, so it is read only once."""


def _catalogs(config: Config, parts: ProblemsByPart) -> CatalogSet:
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
    features: Mapping[str, Callable[[], Any]],
) -> LoadedHost:
    """
    Load and check everything.

    :param key: signs records and the manifest.
    :param plugins: factories of plugins that need not be installed, by name.
    :param features: factories of features that need not be installed, by the names of their tables.
    :raises agtphost.errors.ConfigurationError: something is not valid; the error lists every problem.
    """
    parts = ProblemsByPart()
    loaded = combine(
        config,
        _catalogs(config, parts),
        environ,
        parts,
        directory=directory,
        identity=lambda: (key, _tls(config)),
        given=ExtraEndpoints(
            declared=declarations.load_declared, find=declarations.find, plugins=plugins, features=features
        ),
        volatile=True,
    )
    if loaded is None:
        raise ConfigurationError([problem for part in parts.values() for problem in part])
    return loaded


@cache
def _context() -> SSL.Context:
    """Return the TLS context that all hosts in memory share: none of them has a connection, and it takes 0.6 ms."""
    return SSL.Context(SSL.TLS_SERVER_METHOD)


def _tls(config: Config) -> ServerTLS:
    """Return a TLS setup without client certificates and revocation lists, which a test may replace."""
    prepared = PreparedTLS(
        context=_context(),
        revoked=RevokedLinks.from_lists(()),
        mandates=Mandates(),
        fingerprint=sha256(config.host.server_id.encode()).hexdigest(),
    )
    return ServerTLS(config.tls.model_copy(update={"client_auth": "none"}), prepared)
