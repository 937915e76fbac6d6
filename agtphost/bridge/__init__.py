"""
An AGTP host as an MCP server: what ``agtp mcp-bridge`` runs.

An MCP client speaks to MCP's server side (:mod:`agtphost.mcp`), which the host's own front has too, over stdio
(:mod:`.stdio`) or Streamable HTTP on loopback (:mod:`.http`), in either protocol era. Each of its requests becomes one
of AGTP, made by :mod:`.host_link` as the one agent whose certificate the bridge has, and each answer comes back with
the Audit-ID of its record. Nothing is decided here: who may do what is decided, and recorded, at the host.

- :mod:`.client_config`: what to paste into the configuration of an MCP client
- :mod:`.peer_user`: which user of this machine a loopback connection belongs to
- :mod:`.traces`: its own spans, and the trace that it is started in, as the variables of OpenTelemetry say
"""
