"""
``agtp backup`` and ``agtp restore``: all that makes a host, in one file, and back.

- :mod:`.commands`: ``agtp backup``
- :mod:`.contents`: which files make a host, and which of them are secret
- :mod:`.archive`: the file: what is in it, with digests, and a signed list at its end
- :mod:`.checking`: whether the store of a copy is whole
- :mod:`.restoring`: ``agtp restore``
"""
