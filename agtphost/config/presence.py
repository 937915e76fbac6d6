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
