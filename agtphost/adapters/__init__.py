"""
Adapters that carry the payloads of other agent frameworks on EXECUTE: core v08 section 8.

- :mod:`.a2a`: A2A agents behind AGTP
- :mod:`.acp`: servers of the Agent Communication Protocol (IBM/BeeAI) behind AGTP
- :mod:`.actions`: what the actions of A2A agents and ACP servers have in common
- :mod:`.web_adapter`: what carries actions to both
- :mod:`.callers`: who makes a call: whose share of an upstream it takes, and whose its tasks are
- :mod:`.mcp`: MCP servers behind AGTP
- :mod:`.operators`: payload adapters of the operator's own packages
- :mod:`.precedence`: AGTP's header fields win over what a payload says
"""
