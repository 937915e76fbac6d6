"""
An AGTP host as an MCP server: what ``agtp mcp-bridge`` runs.

An MCP client speaks to :mod:`.mcp_server`, the official SDK's server, over
stdio (:mod:`.stdio`) or Streamable HTTP on loopback (:mod:`.http`), in either
protocol era. Each of its requests becomes one EXECUTE to the host, made by
:mod:`.host_link` as the one agent whose certificate the bridge has, and each
answer comes back with the Audit-ID of its record. Nothing is decided here:
who may do what is decided, and recorded, at the host.

This package runs on asyncio, with the Twisted client on the same loop, and
needs the extra ``agtphost[bridge]``.
"""
