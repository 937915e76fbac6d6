"""
``agtp client``: connect MCP clients on this machine to a host, by the bridge or by the host's MCP front.

- :mod:`.commands`: the group: connect, disconnect, ls
- :mod:`.agents`: a least-privilege agent for each client: issue, admit, retire
- :mod:`.fronts`: entries for the host's MCP front, which need neither bridge nor agent
- :mod:`.token_access`: add the line to ``host.toml`` that opens an MCP server to clients with a token
- :mod:`.entries`: read and change the host's entry in a client's file, with a backup
"""
