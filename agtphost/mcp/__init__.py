"""
The server side of MCP: a host as an MCP server, for a bridge over AGTP and for a front of the host itself.

Each request of an MCP client becomes a request of AGTP in the name of one agent, and each answer comes back with the
Audit-ID of its record. Nothing is decided here: who may do what is decided, and recorded, at the host. Both protocol
eras are spoken.

- :mod:`.revisions`: the revisions of MCP, and what each has
- :mod:`.messages`: JSON-RPC messages, and what the host says no with, as errors of theirs
- :mod:`.inbound`: the envelope of 2026-07-28, and the header fields that repeat what a body says
- :mod:`.parameters`: the parameters that each method takes
- :mod:`.context`: one request, and what is known of its client
- :mod:`.link`: the way to the host; :mod:`.in_process`: to this very one
- :mod:`.server`: which methods there are, for the clients of one caller
- :mod:`.relay`: each MCP request as one of AGTP, and its answer back
- :mod:`.elicitation`: rounds of input: how a server behind the host asks the person, or the model, at the client
- :mod:`.notices`: calls that wait for a person: what clients are told meanwhile
- :mod:`.changes`: changes at the host, told to every client of a caller that wants to know
- :mod:`.subscriptions`: who is told of changes, in either era
- :mod:`.tasks`: which client began which task
- :mod:`.connection`: one client that keeps a conversation
- :mod:`.journal`: what was said on streams, for clients whose connection breaks
- :mod:`.stream`: one answer of HTTP that comes message by message
- :mod:`.streamable`: Streamable HTTP without sessions; :mod:`.sessions`: with them
- :mod:`.front`: the multi-tenant front: who calls, and what each caller has open
- :mod:`.protected_resource`: what an OAuth client is told of the front
"""
