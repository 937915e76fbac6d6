"""Names that this host adds to members of MCP messages, and that both sides of an EXECUTE have to know."""

from __future__ import annotations

ROOTS = "agtp/roots"
"""The host's own request for a caller's roots among ``inputRequests``, and its answer among ``inputResponses``."""
