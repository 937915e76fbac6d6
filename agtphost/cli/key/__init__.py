"""
``agtp key``: signing keys.

- :mod:`.commands`: the group and its own commands: Ed25519 signing keys
- :mod:`.rotate`: ``agtp key rotate`` and ``agtp key history``: another signing key for a host, and those before
  it
"""
