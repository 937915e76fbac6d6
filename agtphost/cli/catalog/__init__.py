"""
``agtp catalog``: method catalogs.

- :mod:`.commands`: the group and its own commands: a method catalog's content, changes, soundness and approval
- :mod:`.pins`: ``agtp catalog fetch`` and ``pin``: which catalog is approved, and no other
"""
