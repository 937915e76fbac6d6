"""Revisions of MCP, and the methods and names that each has."""

from __future__ import annotations

MODERN = "2026-07-28"
"""The revision where each request is independent: no handshake, no session, no requests to the client."""

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that begin with ``initialize``, oldest first."""

RESUMABLE = "2025-11-25"
"""Since then a stream begins with an event that has only an id, so that it can be resumed from its start."""

UNNAMED = "2025-03-26"
"""The revision of an HTTP request that names none."""

BATCHES = "2025-03-26"
"""The only revision with batches, which its servers must accept."""

META = "io.modelcontextprotocol/"
VERSION = f"{META}protocolVersion"
CAPABILITIES = f"{META}clientCapabilities"
CLIENT_INFO = f"{META}clientInfo"
SERVER_INFO = f"{META}serverInfo"
LOG_LEVEL = f"{META}logLevel"
SUBSCRIPTION = f"{META}subscriptionId"
"""Members of ``_meta``."""

TASKS = f"{META}tasks"
"""The tasks extension of 2026-07-28."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels, least first (RFC 5424)."""

DEFAULT_LEVEL = "info"
"""The level for clients of the handshake era that set none."""

_BOTH = (
    *("tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"),
    *("prompts/list", "prompts/get", "completion/complete"),
)
METHODS_OF_MODERN = frozenset(
    (*_BOTH, "server/discover", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel")
)
METHODS_OF_HANDSHAKE = frozenset(
    (*_BOTH, "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
)


def is_since(revision: str, least: str) -> bool:
    """Return whether a revision of the handshake era is that one, or a later one."""
    return revision in HANDSHAKE and HANDSHAKE.index(revision) >= HANDSHAKE.index(least)
