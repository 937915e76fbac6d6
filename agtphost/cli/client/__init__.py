"""
``agtp client``: MCP clients on this machine that reach a host, by the bridge or by its front.

- :mod:`.commands`: the group: connect, disconnect, ls
- :mod:`.agents`: an agent of least rights for each of them: issued, admitted, retired
- :mod:`.fronts`: the host's own MCP front in such a file, which needs no bridge and no agent of the client's own
- :mod:`.opening`: the line of ``host.toml`` that opens an MCP server to clients with a token
- :mod:`.entries`: the entry in a client's own file, changed with a backup and nothing else touched
"""
