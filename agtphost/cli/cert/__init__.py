"""
``agtp cert``: issue, show and revoke certificates.

- :mod:`.commands`: the group, and commands for certificates of servers, registrars and agents
- :mod:`.revoke`: ``agtp cert revoke`` and ``agtp cert crl``: the revocation list of an authority
"""
