"""
``agtp registry``: what agents there are, and calling them.

- :mod:`.commands`: the commands
- :mod:`.native`: the registry of a host, over AGTP
- :mod:`.foreign`: any registry after HAIDIP, over HTTP; and agents called directly
- :mod:`.printing`: cards and entries for people
"""
