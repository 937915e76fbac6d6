"""The MCP front of a host in memory."""

from __future__ import annotations

from agtphost.mcp.feature import McpFront
from agtphost.testing import MemoryHost


def front_of(host: MemoryHost) -> McpFront:
    """What the feature of ``[mcp.front]`` made for a host."""
    made = host.core.features.contributions["mcp",].carried
    assert isinstance(made, McpFront)
    return made
