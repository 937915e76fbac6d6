"""
Run an MCP server for an AGTP host: ``agtp mcp-bridge``.

An MCP client connects to MCP's server side (:mod:`agtphost.mcp`), which the host's own front has too, over stdio
(:mod:`.stdio`) or Streamable HTTP on loopback (:mod:`.http`), in either protocol era. Each of its requests becomes one
of AGTP, made by :mod:`.host_link` as the one agent whose certificate the bridge has, and each answer comes back with
the Audit-ID of its record. Nothing is authorized here: the host authorizes and records each request.

- :mod:`.client_config`: entries for the configuration of an MCP client
- :mod:`.peer_user`: the user of this machine that a loopback connection belongs to
- :mod:`.traces`: the bridge's spans, and the trace that it is started in, by the variables of OpenTelemetry
"""
