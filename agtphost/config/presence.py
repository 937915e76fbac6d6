"""What a configuration says of its domain: the facts of the bootstrap document (core v08 section 6.1)."""

from __future__ import annotations

import re
from typing import Any

from agtphost.config.http import find_base_url
from agtphost.config.sections import Config
from agtphost.vocabulary import times, uris
from agtphost.vocabulary.own_address import OwnAddress
from agtphost.vocabulary.uris import DEFAULT_PORT, SCHEME, Form, UriError

_TCP = re.compile(r"tcp6?:(?:port=)?(?P<port>[0-9]{1,5})(?::.*)?", re.ASCII)


class NoPresence(ValueError):
    """The configuration does not say what a bootstrap document has to; the message names the key."""


def bootstrap_facts(config: Config) -> dict[str, Any]:
    """
    Return the members of :class:`agtphost.http.bootstrap_document.DomainFacts`.

    :raises NoPresence: where the domain or the port is not configured.
    """
    given = config.wellknown
    domain = given.domain or config.manifest.domain or config.host.server_id
    if not _is_domain(domain):
        raise NoPresence(f"the domain is unknown: {domain[:64]!r} is not one; set [wellknown] domain")
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
    """Return the host's name, and the port that clients reach: 0 where the configuration has none."""
    given = config.wellknown
    try:
        port = given.port or _port(config)
    except NoPresence:
        port = 0
    return config.manifest.domain or given.domain or config.host.server_id, port


def own_address(config: Config) -> OwnAddress:
    """Return the names and the port that the host's own ``agtp:`` URIs have."""
    name, port = public_authority(config)
    return OwnAddress.of((name, config.host.server_id, config.wellknown.domain, config.manifest.domain), port)


def root_of(config: Config) -> str:
    """Return the ``agtp://`` URI at which the host describes itself."""
    name, port = public_authority(config)
    return f"{SCHEME}://{name}" + (f":{port}" if port not in (0, DEFAULT_PORT) else "")


def namespace_of(config: Config) -> str:
    """Return the namespace that distinguishes the verbs of this host from those of others."""
    return config.agis.namespace or config.host.server_id


GATEWAY, REGISTRY = "gateway", "registry"
"""What these are called among ``apis``."""


def http_apis(config: Config) -> list[dict[str, str]]:
    """
    Return the entries of the manifest's ``apis``: the operator's, the gateway and the registry (AGTP-API section 8.6).

    Entries on loopback are only listed where the host itself is there: readers elsewhere cannot reach them.
    """
    entries = [entry.document() for entry in config.api]
    named = {entry.get("name") for entry in entries}
    gateway, registry = config.gateway, config.registry
    base = gateway.url or (gateway.base if config.listen.loopback else None)
    if gateway.listen is not None and base is not None and GATEWAY not in named:
        entry = {
            "name": GATEWAY,
            "description": "Every endpoint and tool of this host, for clients of HTTP.",
            "base_url": base,
        }
        if gateway.openapi:
            entry["openapi_url"] = f"{base}/.well-known/openapi.json"
            entry["documentation_url"] = f"{base}/.well-known/openapi"
        entries.append(entry)
    found = registry.base if registry is not None and (registry.url or config.listen.loopback) else None
    if found is not None and REGISTRY not in named:
        described = "Cards of the agents here: found, read and called by them, for clients of HTTP."
        told = {"name": REGISTRY, "description": described, "base_url": found}
        entries.append({**told, "openapi_url": f"{found}/openapi.json"})
    return entries


def mcp_front_url(config: Config) -> str | None:
    """
    Return the URL at which MCP clients reach the front, which lists the tools there; None where it is not published.
    """
    front = config.mcp.front
    base = front.url or (find_base_url(front.listen, None) if config.listen.loopback else None)
    return None if front.listen is None or base is None else f"{base}{front.path}"


def _port(config: Config) -> int:
    port = config.listen.port
    if config.listen.endpoint is not None:
        match = _TCP.fullmatch(config.listen.endpoint)
        port = 0 if match is None else int(match["port"])
    if not port:
        raise NoPresence("[listen] does not have the port; set [wellknown] port")
    return port


def _is_domain(name: str) -> bool:
    try:
        return uris.parse(f"agtp://{name}").form is Form.DOMAIN
    except UriError:
        return False
