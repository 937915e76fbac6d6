"""
Negotiate the protocol version with a server, and add to requests what each version needs.

Two eras (adapters section 1.1): the handshake era, to 2025-11-25, begins with ``initialize``; the stateless era, from
2026-07-28, with ``server/discover``, and every request carries its version and the client's capabilities in ``_meta``.
``auto`` tries ``server/discover`` first: only a positive answer makes a server stateless.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.links import HeaderPairs
from agtphost.upstream.failures import ErrorAnswer, NotApproved, UpstreamRefused, UpstreamTimeout

STATELESS = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the handshake era, newest first."""

UNSUPPORTED_VERSION = -32022
PROBE_TIMEOUT = 5.0
"""Seconds a server has to answer ``server/discover``; older ones may ignore unknown methods."""

PROBES = 2
"""Times that ``server/discover`` is sent to a server that refuses the version although it supports it."""

META = "io.modelcontextprotocol/"
"""Prefix of ``_meta`` keys that belong to the protocol: a caller's are never forwarded (core v08 section 8.3)."""

_META_VERSION = META + "protocolVersion"
_META_CLIENT = META + "clientInfo"
_META_CAPABILITIES = META + "clientCapabilities"
_META_SERVER = META + "serverInfo"

_META_LEVEL = META + "logLevel"

_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

Capabilities = Mapping[str, Any]

ANSWERABLE: Capabilities = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
"""What callers can be asked: each travels as ``input_required`` (design decision 11)."""

NOTHING: Capabilities = {}


class NegotiationFailed(NotApproved):
    """The error that the server and this host share no version, or that its negotiation answer is invalid."""


@dataclass(frozen=True, kw_only=True)
class Negotiated:
    """The terms that were negotiated with one server."""

    version: str
    capabilities: Mapping[str, Any]
    server: Mapping[str, Any] = field(default_factory=dict)
    """The server's name and version, as the server gives them."""

    instructions: str = ""

    @property
    def stateless(self) -> bool:
        """Whether requests carry their own terms."""
        return self.version == STATELESS

    @property
    def era(self) -> str:
        """The era of the server: ``stateless`` or ``handshake``."""
        return "stateless" if self.stateless else "handshake"

    def lists_change(self, kind: str = "tools", feature: str = "listChanged") -> bool:
        """Return whether the server announces changes of its tools, its resources or its prompts."""
        offered = self.capabilities.get(kind)
        return type(offered) is dict and offered.get(feature) is True


def envelope(client: Mapping[str, str], capabilities: Capabilities = NOTHING, level: str = "") -> dict[str, Any]:
    """
    Return the ``_meta`` members that every stateless request carries.

    :param capabilities: what may be asked of this request's caller.
    :param level: the least level of log messages wanted; empty for none.
    """
    members = {_META_VERSION: STATELESS, _META_CLIENT: dict(client), _META_CAPABILITIES: dict(capabilities)}
    return {**members, _META_LEVEL: level} if level else members


def mirror_headers(method: str, params: Mapping[str, Any]) -> HeaderPairs:
    """Return the HTTP headers that repeat method and name of a stateless request."""
    headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)]
    key = _NAMED.get(method)
    if key is not None:
        headers.append(("Mcp-Name", header_value(str(params.get(key, "")))))
    return headers


_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


def header_value(text: str) -> str:
    """Return ``text`` as an HTTP field value: unchanged where possible, else in the ``=?base64?...?=`` form."""
    if text == "" or (_PLAIN.fullmatch(text) and not (text.startswith("=?base64?") and text.endswith("?="))):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8')).decode('ascii')}?="


async def negotiate(
    peer: JsonRpcPeer,
    client: Mapping[str, str],
    protocol: str,
    seconds: float,
    *,
    probe: bool = True,
    capabilities: Capabilities = NOTHING,
) -> Negotiated:
    """
    Negotiate the version.

    :param client: ``name`` and ``version`` of this host.
    :param protocol: ``auto`` or the required version.
    :param seconds: how long each request may take.
    :param probe: False skips ``server/discover`` under ``auto``, for a server that ended because of it before.
    :param capabilities: what a server of the handshake era may ask of this host while the link lasts.
    :raises NegotiationFailed: the two have no version in common.
    :raises agtphost.upstream.failures.UpstreamFailure: the server went away or did not answer.
    """
    if protocol == STATELESS:
        terms = await _discover(peer, client, seconds)
        if terms is None:
            raise NegotiationFailed(f"the server does not speak {STATELESS}")
        return terms
    if protocol != "auto" or not probe:
        return await _initialize(peer, client, protocol, seconds, capabilities)
    terms = await _probe(peer, client, min(PROBE_TIMEOUT, seconds))
    if terms is not None:
        return terms
    try:
        return await _initialize(peer, client, protocol, seconds, capabilities)
    except ErrorAnswer as error:
        # The answer to the probe came too late, but the probe made the connection stateless, as the server now reports.
        if error.code != UNSUPPORTED_VERSION:
            raise
        terms = await _discover(peer, client, seconds)
        if terms is None:
            raise
        return terms


async def _probe(peer: JsonRpcPeer, client: Mapping[str, str], seconds: float) -> Negotiated | None:
    """Return the terms of a stateless server; None for every answer that is not positive."""
    for _ in range(PROBES):
        try:
            return await _discover(peer, client, seconds)
        except ErrorAnswer as error:
            if error.code != UNSUPPORTED_VERSION or not _speaks_stateless(error.error.get("data")):
                return None
        except (UpstreamTimeout, UpstreamRefused):
            return None
    return None


async def _discover(peer: JsonRpcPeer, client: Mapping[str, str], seconds: float) -> Negotiated | None:
    params = {"_meta": envelope(client, ANSWERABLE)}
    result = await peer.request("server/discover", params, seconds, mirror_headers("server/discover", params))
    if type(result) is not dict or type(result.get("supportedVersions")) is not list:
        return None
    if STATELESS not in result["supportedVersions"]:
        return None
    peer.link.set_version(STATELESS)
    meta = _mapping(result.get("_meta"))
    return Negotiated(
        version=STATELESS,
        capabilities=_mapping(result.get("capabilities")),
        server=_mapping(meta.get(_META_SERVER)),
        instructions=_text(result.get("instructions")),
    )


def _speaks_stateless(data: object) -> bool:
    """
    Return whether a server that refused the version lists it as supported, so that it can be asked again.

    :raises NegotiationFailed: it speaks no version that this host does.
    """
    supported = data.get("supported") if isinstance(data, dict) else None
    if not isinstance(supported, list):
        return False
    if STATELESS in supported:
        return True
    if not any(version in HANDSHAKE for version in supported):
        shown = ", ".join(str(version)[:32] for version in supported[:8])
        raise NegotiationFailed(f"the server speaks only {shown}")
    return False


async def _initialize(
    peer: JsonRpcPeer, client: Mapping[str, str], protocol: str, seconds: float, capabilities: Capabilities
) -> Negotiated:
    wanted = HANDSHAKE[0] if protocol == "auto" else protocol
    params = {"protocolVersion": wanted, "capabilities": dict(capabilities), "clientInfo": dict(client)}
    result = await peer.request("initialize", params, seconds)
    version = result.get("protocolVersion") if type(result) is dict else None
    if version not in HANDSHAKE or (protocol != "auto" and version != protocol):
        raise NegotiationFailed(f"the server answered initialize with version {str(version)[:32]!r}")
    peer.link.set_version(version)
    peer.notify("notifications/initialized")
    return Negotiated(
        version=version,
        capabilities=_mapping(result.get("capabilities")),
        server=_mapping(result.get("serverInfo")),
        instructions=_text(result.get("instructions")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
