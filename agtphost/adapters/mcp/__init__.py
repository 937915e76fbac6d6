"""
Host MCP servers behind AGTP: adapters section 1.1.

Transport: :mod:`.stdio` and :mod:`.streamable_http` are the two links, :mod:`.links` is their interface to
:mod:`.jsonrpc`, the JSON-RPC peer. :mod:`.launcher` runs a child process, :mod:`.long_lines` skips lines over the size
limit, :mod:`.input_watch` and :mod:`.read_batching` decide when pipes are read, :mod:`.token_source` keeps an OAuth
token. :mod:`.versions` negotiates the protocol version; :mod:`.session` sends requests of that version.

A server: :mod:`.server` is the service, :mod:`.snapshot` its state for operators, :mod:`.requests` its interface for
callers, and :mod:`.instances` picks the process or session for a call. :mod:`.tools` checks definitions,
:mod:`.catalogue` and :mod:`.resources` keep lists, :mod:`.approval` lets operators approve changed definitions.

A call: :mod:`.adapter` resolves what EXECUTE names, :mod:`.operations` the actions besides tool calls.
:mod:`.bindings`, :mod:`.lists`, :mod:`.tasks`, :mod:`.subscribers` and :mod:`.listen_handler` have the handlers;
:mod:`.bare_names` handles names without a server. :mod:`.call_tracker` tracks calls in flight, :mod:`.tracing` gives
requests spans, :mod:`.interactive_calls` and :mod:`.elicitation` relay questions of servers to callers, :mod:`.roots`
answers ``roots/list``, :mod:`.request_states` keeps calls that wait for input, :mod:`.notifications` streams events.
"""

from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.snapshot import ServerSnapshot
from agtphost.upstream.supervision import UpstreamState

__all__ = [
    "McpAdapter",
    "McpServer",
    "ServerSnapshot",
    "UpstreamState",
]
