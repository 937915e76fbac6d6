"""
An AGTP host as an MCP server: what ``agtp mcp-bridge`` runs.

An MCP client speaks to :mod:`.mcp_server`, the official SDK's server, over
stdio (:mod:`.stdio`) or Streamable HTTP on loopback (:mod:`.http`), in either
protocol era. Each of its requests becomes one EXECUTE to the host, made by
:mod:`.host_link` as the one agent whose certificate the bridge has, and each
answer comes back with the Audit-ID of its record. Nothing is decided here:
who may do what is decided, and recorded, at the host.
Names, addresses, endpoints as tools and the words of refusals are those of :mod:`agtphost.client.mcp`.

This package runs on asyncio, with the Twisted client on the same loop, and
needs the extra ``agtphost[bridge]``.

- :mod:`.approvals`: calls that wait for a person: what clients are told meanwhile
- :mod:`.changes`: changes at the host, told to every client that wants to know
- :mod:`.clients`: what the bridge remembers of each MCP client: its Session-ID at the host, and the log level it
  asked for
- :mod:`.connections`: the connections of the bridge's HTTP port: uvicorn's protocol, admitted, timed and drained of
  what it may keep
- :mod:`.events`: what was said on streams, for clients whose connection breaks: resumption of Streamable HTTP, up to
  2025-11-25
- :mod:`.failures`: what the host says no with, as MCP errors
- :mod:`.client_config`: what to paste into the configuration of an MCP client
- :mod:`.relay`: each MCP request as one EXECUTE, and its answer back
- :mod:`.elicitation`: rounds of input: how a server behind the host asks the person, or the model, at the client
- :mod:`.subscriptions`: who is told of changes: clients that shook hands by notifications, later ones on their
  ``subscriptions/listen``
- :mod:`.traces`: its own spans, and the trace that it is started in, as the variables of OpenTelemetry say
"""
