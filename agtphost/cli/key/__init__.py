"""
``agtp key``: create, show and rotate signing keys.

- :mod:`.commands`: the group, and commands for Ed25519 signing keys
- :mod:`.rotate`: ``agtp key rotate`` and ``agtp key history``: replace a host's signing key, and list former ones
"""
