"""Map paths of the registry over HTTP to AGTP requests, by HAIDIP; without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import parse_qsl

from agtphost.vocabulary.paths import PathError, decode

CARDS = "/cards"
"""The path of cards in AGTP, where ``/agents`` belongs to addressing."""

SERVERS = "/mcp-servers"
"""The path in AGTP of hosted MCP servers, in the form of the MCP registry."""

CARD = "/.well-known/agent-card.json"
"""The path of the card of one agent: HAIDIP-002."""

DOCUMENT = "/openapi.json"

LONGEST_TARGET = 2048
"""Octets of a segment: an id has 256 characters, each of which may take twelve octets."""

MOST_FIELDS = 32
"""Fields of a query string."""

_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+", re.ASCII)

_FILTERS = ("capability", "tag", "language", "provider", "authentication", "state", "kind")


class InvalidRegistryRequest(Exception):
    """
    A request that cannot be translated to AGTP.

    :param field: the wrong member or query field; may be empty.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRoute:
    """The AGTP request of one HTTP method at one path."""

    operation: str
    """Its name here, and its ``operationId`` in the OpenAPI document."""

    method: str
    """The method in AGTP."""

    path: str
    """The path in AGTP, percent-encoded."""

    id: str = ""
    """The id that the path names, decoded."""

    action: str = ""
    """The operation of the card that the path names, decoded."""

    known: Sequence[str] = ()
    """Query fields that are read; all others are ignored."""

    takes: str = ""
    """
    The body it takes: ``object``, ``either`` (an object or an array), ``maybe`` (an object or nothing), or empty for
    none.
    """

    created: bool = False
    """Whether success may be 201."""

    idempotent: bool = False


def routes_of(path: str) -> Mapping[str, RegistryRoute] | None:
    """
    Return the routes of a path below the registry's own, by HTTP method.

    :param path: as it was sent; begins with a slash, or is empty.
    :return: None if there is nothing at this path.
    """
    found = _FIXED_ROUTES.get(path.rstrip("/") if path != "/" else path)
    if found is not None:
        return found
    if path.startswith("/v0.1/servers/"):
        return _servers(path.removeprefix("/v0.1/servers/").split("/"))
    if not path.startswith("/agents/"):
        return None
    first, *further = path.removeprefix("/agents/").split("/")
    id = _decode_segment(first)
    if id is None or len(further) > 1:
        return None
    at = f"{CARDS}/{first}"
    if not further:
        return {
            "GET": RegistryRoute(
                operation="getAgent", method="QUERY", path=at, id=id, known=("version",), idempotent=True
            ),
            "PUT": RegistryRoute(
                operation="updateAgent", method="REGISTER", path=CARDS, id=id, takes="object", created=True
            ),
            "DELETE": RegistryRoute(operation="withdrawAgent", method="WITHDRAW", path=at, id=id, known=("successor",)),
        }
    if further[0] == "heartbeat":
        beat = RegistryRoute(operation="renewAgent", method="RENEW", path=at, id=id, takes="maybe", idempotent=True)
        return {"POST": beat}
    action = _decode_segment(further[0])
    if action is None:
        return None
    if further[0] == "invoke":
        return {"POST": RegistryRoute(operation="invokeAgent", method="EXECUTE", path=at, id=id, takes="either")}
    named = RegistryRoute(operation="invokeOperation", method="EXECUTE", path=at, id=id, action=action, takes="either")
    return {"POST": named}


def _servers(segments: Sequence[str]) -> Mapping[str, RegistryRoute] | None:
    """Return the routes of ``NAME/versions`` and ``NAME/versions/VERSION``, as in the registry of MCP."""
    if len(segments) not in (2, 3) or segments[1] != "versions" or None in map(_decode_segment, segments):
        return None
    if len(segments) == 2:
        listed = RegistryRoute(
            operation="listServerVersions", method="QUERY", path=f"{SERVERS}/{segments[0]}", idempotent=True
        )
        return {"GET": listed}
    at = f"{SERVERS}/{segments[0]}/{segments[2]}"
    return {"GET": RegistryRoute(operation="getServerVersion", method="QUERY", path=at, idempotent=True)}


def _decode_segment(segment: str) -> str | None:
    """Return the decoded segment, or None if no path of AGTP may have it."""
    if len(segment) > LONGEST_TARGET or _SEGMENT.fullmatch(segment) is None:
        return None
    try:
        text = decode(segment)
    except PathError:
        return None
    return None if text in (".", "..") else text


def read_query(route: RegistryRoute, query: bytes) -> dict[str, object]:
    """
    Return the parameters in a query string.

    :raises InvalidRegistryRequest: it cannot be read, or a number is invalid.
    """
    if not query or not route.known:
        return {}
    try:
        fields = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidRegistryRequest("The query string cannot be read.") from None
    asked: dict[str, object] = {}
    for name, value in fields:
        if name not in route.known:
            continue
        if name == "capability":
            asked["capabilities"] = [*asked.get("capabilities", []), *value.split(",")]  # type: ignore[misc]
            continue
        if name in asked:
            raise InvalidRegistryRequest(f"The query has {name} twice; send it once.", name)
        number = name == "limit" or (name == "version" and route.id)
        asked[name] = _read_number(name, value) if number else value
    return asked


def _read_number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < 1:
        raise InvalidRegistryRequest(f"{name} is not a positive whole number.", name)
    return int(value)


_LIST_ROUTE = RegistryRoute(
    operation="listAgents",
    method="QUERY",
    path=CARDS,
    known=(*_FILTERS, "limit", "cursor"),
    idempotent=True,
)
_FIXED_ROUTES: Mapping[str, Mapping[str, RegistryRoute]] = MappingProxyType(
    {
        "/agents": {
            "GET": _LIST_ROUTE,
            "POST": RegistryRoute(
                operation="registerAgent", method="REGISTER", path=CARDS, takes="object", created=True
            ),
        },
        "/agents/public": {
            "GET": RegistryRoute(
                operation="listPublicAgents", method="QUERY", path=CARDS, known=_LIST_ROUTE.known, idempotent=True
            )
        },
        "/agents/search": {
            "POST": RegistryRoute(operation="searchAgents", method="FIND", path=CARDS, takes="object", idempotent=True)
        },
        "/v0.1/servers": {
            "GET": RegistryRoute(
                operation="listServers",
                method="QUERY",
                path=SERVERS,
                known=("limit", "cursor", "updated_since", "search", "version"),
                idempotent=True,
            )
        },
    }
)
