"""
MCP servers behind AGTP: adapters section 1.1.

From the wire upwards: :mod:`.framing` cuts octets into messages, with :mod:`.long_lines` for those beyond their bound;
:mod:`.stdio` (with :mod:`.launcher` running a child in an :mod:`.environment`, and :mod:`.input_watch`) and
:mod:`.streamable_http` (with :mod:`.http_body`, :mod:`.parameter_headers` and :mod:`.token_source`) are the links,
:mod:`.links` is their seam and :mod:`.transports` opens one; :mod:`.jsonrpc` is the peer; :mod:`.versions` agrees on a
version; :mod:`.session` speaks it.

A server: :mod:`.server` (the service), :mod:`.snapshot`, :mod:`.requests` (what its callers need of
it), :mod:`.instances` and :mod:`.sharing` (whose process a call goes to). What it has: :mod:`.tools` judges
definitions, :mod:`.semantics` describes them, :mod:`.catalogue` and :mod:`.resources` keep lists, :mod:`.unmatched`
finds rules that fit nothing; :mod:`.approval` lets operators approve what changed.

A call: :mod:`.adapter` is what EXECUTE asks, :mod:`.operations` and :mod:`.small_actions` its other actions,
:mod:`.bindings`, :mod:`.listing`, :mod:`.resource_lists`, :mod:`.subscribers` and :mod:`.listening` what they come to,
:mod:`.precedence` what is said where a payload differs from the header. :mod:`.calls` tracks them,
:mod:`.call_context` is one, :mod:`.attendance` and :mod:`.elicitation` have those whose servers ask,
:mod:`.request_states` those that wait for input, :mod:`.notifications` what is told meanwhile.
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
