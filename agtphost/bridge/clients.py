"""What the bridge remembers of each MCP client: its Session-ID at the host, and the log level it asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agtphost.client.requests import new_session_id

Context = ServerRequestContext[Any, Any]

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
VERSION = "io.modelcontextprotocol/protocolVersion"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

TASKS = "io.modelcontextprotocol/tasks"
"""The tasks extension of 2026-07-28."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels, least first (RFC 5424)."""

DEFAULT_LEVEL = "info"
"""For clients of the handshake era that never said."""

_STATE = "agtphost.bridge"
_CONNECTIONS_OWN = frozenset({"progressToken", VERSION, "io.modelcontextprotocol/clientInfo"})
"""Members of ``_meta`` that concern the client's connection to the bridge alone."""


@dataclass(kw_only=True)
class Client:
    """One client's conversation."""

    session_id: str = field(default_factory=new_session_id)
    level: str | None = None
    """The least log level wanted; None: whatever comes."""

    watched: set[str] = field(default_factory=set)
    """Resources subscribed to."""


def is_modern(context: Context) -> bool:
    """Whether the request is of 2026-07-28 or later: no handshake, no requests to the client."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(context: Context) -> Connection:
    """The client's connection; the SDK hands handlers no public way to it yet, and keeps per-client state there."""
    return context.session._connection


class Clients:
    """
    Finds the client of a request.

    Clients that shook hands have a session each. Requests of 2026-07-28 are on
    their own, so they share one.
    """

    def __init__(self) -> None:
        self._stateless = Client()

    def of(self, context: Context) -> Client:
        """The client that made a request."""
        if is_modern(context):
            return self._stateless
        found: Client = connection_of(context).state.setdefault(_STATE, Client())
        return found


def forwarded_meta(context: Context, client: Client) -> dict[str, Any]:
    """
    The ``_meta`` for the host: the client's, without what concerns its connection.

    A client that shook hands said once what it can do and which log messages
    it wants; here every request says so, and which revision it speaks: a server that speaks several asks in the manner
    of that one.
    """
    params: Mapping[str, Any] = context.params or {}
    given = params.get("_meta")
    meta = {name: value for name, value in (given or {}).items() if name not in _CONNECTIONS_OWN}
    if not is_modern(context):
        declared = context.session.client_capabilities
        known = {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)
        meta[VERSION] = context.protocol_version
        meta[LOG_LEVEL] = client.level or DEFAULT_LEVEL
        meta[CAPABILITIES] = {name: known[name] for name in ("sampling", "elicitation", "roots") if name in known}
    return meta


def wants_log(context: Context, client: Client, level: str) -> bool:
    """Whether a log message of that level is for the client: its own request's word, or its connection's."""
    least = client.level or DEFAULT_LEVEL
    if is_modern(context):
        least = (context.params or {}).get("_meta", {}).get(LOG_LEVEL)
    return least in LEVELS and level in LEVELS and LEVELS.index(level) >= LEVELS.index(least)


def require_tasks(context: Context) -> None:
    """
    Let through a request of the tasks extension.

    :raises MCPError: -32601 before 2026-07-28; -32021 if the client does not declare the extension; -32020 if
        the ``Mcp-Name`` of its HTTP request is not the task (SEP-2663).
    """
    if not is_modern(context):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
    params: Mapping[str, Any] = context.params or {}
    declared = (params.get("_meta") or {}).get(CAPABILITIES) or {}
    if TASKS not in (declared.get("extensions") or {}):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs the extension {TASKS}.", needed)
    if context.request is not None:
        named = context.request.headers.getlist("mcp-name")
        if len(named) != 1 or decode_header_value(named[0].strip()) != params.get("taskId"):
            raise MCPError(types.HEADER_MISMATCH, "Mcp-Name is not the task of the request.")
