"""Revisions of MCP, and what each has of methods and of names."""

from __future__ import annotations

MODERN = "2026-07-28"
"""Each request is on its own: no handshake, no session, no requests to the client."""

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Begun by ``initialize``, oldest first."""

RESUMABLE = "2025-11-25"
"""Since then a stream begins with an event that has an id and nothing else, so that it can be resumed at once."""

UNSAID = "2025-03-26"
"""The revision of an HTTP request that names none."""

BATCHES = "2025-03-26"
"""The one whose clients may send several messages as one, and whose servers have to take them."""

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
"""For clients of the handshake era that never said."""

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
    """Whether a revision of the handshake era is that one, or a later one."""
    return revision in HANDSHAKE and HANDSHAKE.index(revision) >= HANDSHAKE.index(least)
