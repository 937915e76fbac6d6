"""
Describe the front to OAuth clients: its metadata (RFC 9728), and the challenge that names them.

MCP's section on authorization demands both of a server that is a protected resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agtphost.vocabulary import jsontext

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""The prefix of a resource's path that gives the path of its metadata."""


def find_resource(path: str) -> str | None:
    """
    Return the path of the resource whose metadata are at a path; empty for that of the host.

    :return: None where the path has no metadata.
    """
    found = path.removeprefix(WELL_KNOWN)
    return found if found != path and found[:1] in ("", "/") else None


def document(resource: str, issuers: Sequence[str]) -> bytes:
    """
    Return the metadata document.

    :param resource: the URL of the endpoint.
    :param issuers: identity providers whose tokens are accepted; none: only the operator's tokens are.
    """
    found: dict[str, Any] = {"resource": resource, "bearer_methods_supported": ["header"], "resource_name": "AGTP host"}
    if issuers:
        found["authorization_servers"] = list(issuers)
    return jsontext.encode(found)


def challenge(home: str, path: str, shown: bool) -> str:
    """
    Return the value of ``WWW-Authenticate``.

    :param home: the front's address, without a path.
    :param path: the path of the endpoint.
    :param shown: whether the client sent an invalid proof.
    """
    wrong = 'error="invalid_token", ' if shown else ""
    return f'Bearer {wrong}resource_metadata="{home}{WELL_KNOWN}{path}"'
