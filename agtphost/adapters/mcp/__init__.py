"""
MCP servers behind AGTP: adapters section 1.1.

From the wire upwards: :mod:`.framing` cuts octets into messages; :mod:`.stdio`
and :mod:`.streamable_http` are the links (:mod:`.links` is their seam, with
:mod:`.launcher` running a child); :mod:`.jsonrpc` is the peer; :mod:`.eras`
agrees on a version; :mod:`.dialogue` speaks it; :mod:`.tools` judges
definitions and :mod:`.catalogue` keeps them; :mod:`.supervision` has the
states; :mod:`.server` is the service; :mod:`.bindings` and :mod:`.listing` are
what the gates see; :mod:`.adapter` is what EXECUTE asks.
"""

from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.settings import McpServerSettings, ToolOverride
from agtphost.adapters.mcp.snapshot import ServerSnapshot
from agtphost.adapters.mcp.tools import ToolPins
from agtphost.upstream.supervision import State

__all__ = [
    "McpAdapter",
    "McpServer",
    "McpServerSettings",
    "ServerSnapshot",
    "State",
    "ToolOverride",
    "ToolPins",
]
