"""
``agtp catalog``: show, compare, check and pin method catalogs.

- :mod:`.commands`: the group, and commands that show, check and compare catalogs
- :mod:`.pins`: ``agtp catalog fetch`` and ``pin``: fetch and pin the one approved catalog
"""
