"""
Serve MCP: a host as an MCP server, for a bridge over AGTP and for a front of the host itself.

Each request of an MCP client becomes a request of AGTP in the name of one agent, and each answer comes back with the
Audit-ID of its record. Nothing is authorized here: the host authorizes and records each request. Both protocol eras are
supported.

- :mod:`.revisions`: the revisions of MCP, and what each has
- :mod:`.messages`: JSON-RPC messages, and the host's refusals as JSON-RPC errors
- :mod:`.request_checks`: the envelope of 2026-07-28, and the header fields that repeat parts of a body
- :mod:`.parameters`: the parameters that each method takes
- :mod:`.context`: one request, with its client's conversation
- :mod:`.link`: the link to the host; :mod:`.in_process`: the link to this process
- :mod:`.server`: the methods, for the clients of one caller
- :mod:`.relay`: each MCP request as one of AGTP, and its answer back
- :mod:`.relayed_result`: long results in the octets that the server behind the host wrote
- :mod:`.elicitation`: rounds of input: how a server behind the host asks the person, or the model, at the client
- :mod:`.held_notices`: progress messages while a call waits for approval
- :mod:`.changes`: changes at the host, announced to every client of a caller
- :mod:`.subscriptions`: the clients' subscriptions to changes, in both eras
- :mod:`.connection`: one client with a lasting conversation
- :mod:`.journal`: messages of streams, for clients whose connection breaks
- :mod:`.stream`: one HTTP answer that is sent message by message
- :mod:`.streamable_http`: Streamable HTTP without sessions; :mod:`.sessions`: with them
- :mod:`.feature`: what the host takes, for ``[mcp.front]``
- :mod:`.front`: the multi-tenant front: the callers, and what each caller has open
- :mod:`.protected_resource`: the front's metadata for OAuth clients
"""
