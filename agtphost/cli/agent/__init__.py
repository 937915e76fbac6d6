"""
``agtp agent``: the agents of a host.

- :mod:`.commands`: the group and its own commands: the agents of a host, and their lifecycle
- :mod:`.granting`: ``agtp agent grant``, ``ungrant`` and ``grants``: what a host lets its agents call
- :mod:`.kept_grants`: grants as they lie with a host
- :mod:`.listing`: ``agtp agent ls`` of the agents that lie with a host
- :mod:`.renewal`: ``agtp agent renew``: an agent's certificate, issued again
- :mod:`.admitting`: having a running host take up an agent that was issued beside it
- :mod:`.issue`: ``agtp agent new``: issuing an agent with the keys that lie with a host
"""
