"""
What an OAuth client is told of the front: its metadata (RFC 9728), and the challenge that names them.

MCP's section on authorization asks both of a server that is a protected resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agtphost.vocabulary import jsontext

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""What is put before the path of a resource, for where its metadata are."""


def described(path: str) -> str | None:
    """The path of the resource whose metadata are at a path; empty for that of the host.

    :return: None where there are none of any.
    """
    found = path.removeprefix(WELL_KNOWN)
    return found if found != path and found[:1] in ("", "/") else None


def document(resource: str, issuers: Sequence[str]) -> bytes:
    """
    The metadata.

    :param resource: the URL of the endpoint.
    :param issuers: whose tokens are accepted; none: those of the operator alone.
    """
    found: dict[str, Any] = {"resource": resource, "bearer_methods_supported": ["header"], "resource_name": "AGTP host"}
    if issuers:
        found["authorization_servers"] = list(issuers)
    return jsontext.encode(found)


def challenge(home: str, path: str, shown: bool) -> str:
    """
    ``WWW-Authenticate``.

    :param home: the front's address, without a path.
    :param path: of the endpoint.
    :param shown: whether the client has shown something that does not count.
    """
    wrong = 'error="invalid_token", ' if shown else ""
    return f'Bearer {wrong}resource_metadata="{home}{WELL_KNOWN}{path}"'
