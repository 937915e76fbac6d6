"""
``agtp client``: MCP clients on this machine that reach a host by the bridge.

- :mod:`.commands`: the group: connect, disconnect, ls
- :mod:`.agents`: an agent of least rights for each of them: issued, admitted, retired
- :mod:`.entries`: the entry in a client's own file, changed with a backup and nothing else touched
"""
