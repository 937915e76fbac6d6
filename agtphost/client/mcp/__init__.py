"""
A host's tools, resources and prompts, as MCP clients see them.

:func:`governed_session` is a session for agent frameworks: it has the methods of ``mcp.ClientSession``.

- :mod:`.session`: :class:`GovernedSession`; needs ``agtphost[mcp]``, which :mod:`.official_sdk` imports
- :mod:`.view`, :mod:`.names`, :mod:`.addresses`: names of tools and prompts, and whose each resource is, where several
  servers are behind the host
- :mod:`.endpoints`: the host's own endpoints, as tools
- :mod:`.held_calls`: tools whose calls a person approves, and calls that wait for that
- :mod:`.refusals`: what the host says no with
- :mod:`.tool_search`: two tools in place of hundreds
- :mod:`.requests`: each operation as one EXECUTE; :mod:`.host_sessions`: sessions in place of those that have ended
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agtphost.client.mcp.session import GovernedSession, governed_session

__all__ = ["GovernedSession", "governed_session"]


def __getattr__(name: str) -> Any:
    """Import the session when asked for: the bridge shares the rest, and needs no asyncio client."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agtphost.client.mcp import session

    return getattr(session, name)
