"""
``agtp upstream``: the MCP servers, A2A agents and ACP agents behind a host.

- :mod:`.commands`: the group, and commands about the upstreams of a running host
- :mod:`.edit`: add an upstream to ``host.toml``, or remove one
- :mod:`.sections`: upstreams as sections of ``host.toml``
- :mod:`.access`: which agents may call the tools of an upstream
"""
