"""
``agtp agent``: the agents of a host.

- :mod:`.commands`: the group and its own commands: the agents of a host
- :mod:`.issue`: ``agtp agent new``: issuing an agent with the keys that lie with a host
- :mod:`.lifecycle`: ``agtp agent activate`` and so on: the lifecycle methods
- :mod:`.retained`: ``agtp agent retained``: what is kept of agents that were revoked or deprecated
"""
