"""
``agtp cert``: certificates.

- :mod:`.commands`: the group and its own commands: certificates of servers, registrars and agents
- :mod:`.revoke`: ``agtp cert revoke`` and ``agtp cert crl``: the revocation list of an authority
"""
