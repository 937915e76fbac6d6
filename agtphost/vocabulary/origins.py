"""Origins of URLs in one spelling: scheme, host and port, by which rules for places are found."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from agtphost.vocabulary.uris import DEFAULT_PORT

_PORTS = {"https": 443, "http": 80, "agtp": DEFAULT_PORT}


def origin_of(url: str) -> str:
    """
    Return scheme, host and port of a URL in their one spelling, or an empty text where a URL has none.

    Letters are lower case, the port of the scheme and the dot at the end of a name are left out, and an IPv6 address
    is written in its shortest form. A URL with user information has no origin: rules for a place must not be found by
    a text that another parser reads as another place.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if not host or parts.username is not None or parts.password is not None:
        return ""
    if ":" in host:
        try:
            host = f"[{ipaddress.IPv6Address(host)}]"
        except ValueError:
            return ""
    else:
        host = host.removesuffix(".")
    return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS.get(parts.scheme)) else f":{port}")
