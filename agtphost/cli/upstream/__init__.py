"""
``agtp upstream``: the MCP servers, A2A agents and ACP agents behind a host.

- :mod:`.commands`: the group, and commands about the upstreams of a running host
"""
