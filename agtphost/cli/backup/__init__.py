"""
``agtp backup`` and ``agtp restore``: save a whole host to one file, and restore it.

- :mod:`.commands`: ``agtp backup``
- :mod:`.contents`: which files belong to a host, and which of them are secret
- :mod:`.archive`: the format of the file: entries with digests, and a signed list at its end
- :mod:`.store_check`: verify the store of a copy
- :mod:`.restore`: ``agtp restore``
"""
