"""
``agtp registry``: find, call and register agents.

- :mod:`.commands`: the group and its commands
- :mod:`.native`: the registry of a host, over AGTP
- :mod:`.foreign`: any registry that follows HAIDIP, over HTTP, and agents that are called directly
- :mod:`.card_output`: print cards and entries for people
"""
