"""URLs of PostgreSQL databases, as libpq reads them: ``postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE``."""

from __future__ import annotations

import ipaddress
from urllib.parse import parse_qs, unquote, urlsplit

from agtphost.vocabulary.addresses import is_loopback

SCHEMES = ("postgresql", "postgres")


def is_postgresql(url: str) -> bool:
    """Return whether a URL is of a PostgreSQL database."""
    return url.partition("://")[0] in SCHEMES


def has_password(url: str) -> bool:
    """Return whether a URL has a password, before its host or among its options."""
    user = urlsplit(url).netloc.rpartition("@")[0]
    return ":" in user or any(_option(url, name) for name in ("password", "sslpassword"))


def name_of(url: str) -> str:
    """Return a URL without its password and options, for messages."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    hosts = hosts or ",".join(_option(url, "host"))
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}"


def on_this_machine(url: str) -> bool:
    """Return whether every host of a URL is a UNIX socket or a loopback address."""
    named = urlsplit(url).netloc.rpartition("@")[2]
    hosts = _option(url, "hostaddr") or _option(url, "host") or named.split(",")
    return all(map(_is_local, hosts))


def sslmode(url: str) -> str:
    """Return the option ``sslmode`` of a URL; empty without one."""
    return "".join(_option(url, "sslmode")[:1])


def _option(url: str, name: str) -> list[str]:
    """Return the values of an option of a URL; several are separated by commas."""
    values = parse_qs(urlsplit(url).query, keep_blank_values=True).get(name, [])
    return [part for value in values for part in value.split(",")]


def _is_local(host: str) -> bool:
    if host.startswith("["):
        bare = host[1:].partition("]")[0]
    else:
        bare = unquote(host) if host.count(":") > 1 else unquote(host.partition(":")[0])
    if not bare or bare.startswith(("/", "@")) or bare == "localhost":
        return True
    try:
        return is_loopback(ipaddress.ip_address(bare))
    except ValueError:
        return False
