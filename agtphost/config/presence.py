"""What a configuration says of its domain: the facts of the bootstrap document (core v08 section 6.1)."""

from __future__ import annotations

import re
from typing import Any

from agtphost.config.sections import Config
from agtphost.vocabulary import times, uris
from agtphost.vocabulary.uris import Form, UriError

_TCP = re.compile(r"tcp6?:(?:port=)?(?P<port>[0-9]{1,5})(?::.*)?", re.ASCII)


class NoPresence(ValueError):
    """The configuration does not say what a bootstrap document has to; the message names the key."""


def bootstrap_facts(config: Config) -> dict[str, Any]:
    """
    The members of :class:`agtphost.http.wellknown.Namespace`.

    :raises NoPresence: where the domain or the port is not told.
    """
    given = config.wellknown
    domain = given.domain or config.manifest.domain or config.host.server_id
    if not _is_domain(domain):
        raise NoPresence(f"no domain is told: {domain[:64]!r} is none; set [wellknown] domain")
    return {
        "domain": domain,
        "host": config.manifest.domain or domain,
        "port": given.port or _port(config),
        "dns_anchor": given.dns_anchor or None,
        "log_anchor": given.log_anchor,
        "issuer": given.issuer,
        "updated_at": times.stamp(config.file.stat().st_mtime),
    }


def public_authority(config: Config) -> tuple[str, int]:
    """What the host is called, and the port that clients reach: 0 where the configuration tells none."""
    given = config.wellknown
    try:
        port = given.port or _port(config)
    except NoPresence:
        port = 0
    return config.manifest.domain or given.domain or config.host.server_id, port


GATEWAY = "gateway"
"""What the gateway is called among ``apis``."""


def http_apis(config: Config) -> list[dict[str, str]]:
    """
    The entries of the manifest's ``apis``: the operator's, and the gateway (AGTP-API section 8.6).

    A gateway on loopback is told of where the host itself is there: for readers elsewhere it is no address.
    """
    entries = [entry.document() for entry in config.api]
    given = config.gateway
    base = given.url or (given.base if config.listen.loopback else None)
    if given.listen is None or base is None or any(entry["name"] == GATEWAY for entry in entries):
        return entries
    entry = {
        "name": GATEWAY,
        "description": "Every endpoint and tool of this host, for clients of HTTP.",
        "base_url": base,
    }
    if given.openapi:
        entry["openapi_url"] = f"{base}/.well-known/openapi.json"
        entry["documentation_url"] = f"{base}/.well-known/openapi"
    return [*entries, entry]


def _port(config: Config) -> int:
    port = config.listen.port
    if config.listen.endpoint is not None:
        match = _TCP.fullmatch(config.listen.endpoint)
        port = 0 if match is None else int(match["port"])
    if not port:
        raise NoPresence("the port is not told by [listen]; set [wellknown] port")
    return port


def _is_domain(name: str) -> bool:
    try:
        return uris.parse(f"agtp://{name}").form is Form.DOMAIN
    except UriError:
        return False
