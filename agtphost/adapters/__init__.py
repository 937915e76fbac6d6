"""
Carry the payloads of other agent frameworks on EXECUTE: core v08 section 8.

- :mod:`.a2a`: A2A agents behind AGTP
- :mod:`.acp`: servers of the Agent Communication Protocol (IBM/BeeAI) behind AGTP
- :mod:`.upstream_actions`: the common part of the actions of A2A agents and ACP servers
- :mod:`.web_adapter`: the common part of the adapters of both
- :mod:`.callers`: the caller of a call: whose share of an upstream it takes, and whose tasks it has
- :mod:`.mcp`: MCP servers behind AGTP
- :mod:`.operator_adapter`: payload adapters of the operator's own packages
- :mod:`.precedence`: AGTP's header fields take precedence over payloads
"""
