"""
``agtp agent``: the agents of a host.

- :mod:`.commands`: the group, and commands for the agents of a host and their lifecycle
- :mod:`.allow`: ``agtp agent allow``: give an agent rights
- :mod:`.restatement`: issue an agent's document and certificate again with other scopes
- :mod:`.rights`: ``agtp agent rights``: what an agent may do, and why
- :mod:`.grants`: ``agtp agent limit``, ``grant``, ``ungrant`` and ``grants``: the most that agents may call
- :mod:`.rights_requests`: requests about rights, and their answers
- :mod:`.unasked_scopes`: question scopes that nothing of a host asks for
- :mod:`.stored_grants`: grants stored with a host
- :mod:`.agent_list`: ``agtp agent ls`` for agents stored with a host
- :mod:`.renewal`: ``agtp agent renew``: issue an agent's certificate again
- :mod:`.admission`: make a running host admit an agent that was issued while it runs
- :mod:`.issue`: ``agtp agent new``: issue an agent with the keys of a host
"""
