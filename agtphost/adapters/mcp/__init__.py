"""
MCP servers behind AGTP: adapters section 1.1.

From the wire upwards: :mod:`.stdio` (with :mod:`.launcher` running a child, :mod:`.long_lines` for what is beyond its
bound, :mod:`.input_watch` and :mod:`.gathering`) and :mod:`.streamable_http` (with :mod:`.token_source`) are the links,
:mod:`.links` is their seam; :mod:`.jsonrpc` is the peer; :mod:`.versions` agrees on a version; :mod:`.session` speaks
it.

A server: :mod:`.server` (the service), :mod:`.snapshot`, :mod:`.requests` (what its callers need of it) and
:mod:`.instances` (whose process a call goes to). What it has: :mod:`.tools` judges definitions, :mod:`.catalogue` and
:mod:`.resources` keep lists, :mod:`.approval` lets operators approve what changed.

A call: :mod:`.adapter` is what EXECUTE asks, :mod:`.operations` its other actions, :mod:`.bindings`, :mod:`.lists`,
:mod:`.tasks`, :mod:`.subscribers` and :mod:`.listening` what they come to, :mod:`.bare_names` what stands in for names
that say no server. :mod:`.calls` tracks them, :mod:`.tracing` gives their requests spans,
:mod:`.attendance` and :mod:`.elicitation` have those whose servers ask, :mod:`.roots` has what they are told of
directories, :mod:`.request_states` those that wait for
input, :mod:`.notifications` what is told meanwhile.
"""

from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.snapshot import ServerSnapshot
from agtphost.upstream.supervision import State

__all__ = [
    "McpAdapter",
    "McpServer",
    "ServerSnapshot",
    "State",
]
