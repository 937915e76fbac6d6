"""
``agtp agent``: the agents of a host.

- :mod:`.commands`: the group and its own commands: the agents of a host, and their lifecycle
- :mod:`.issue`: ``agtp agent new``: issuing an agent with the keys that lie with a host
"""
