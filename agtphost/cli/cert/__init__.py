"""
``agtp cert``: issue, list, show, renew and revoke certificates.

- :mod:`.commands`: the group, and commands for certificates of servers, registrars and agents
- :mod:`.listing`: ``agtp cert list``: all certificates of a deployment, with the days that are left
- :mod:`.renew`: ``agtp cert renew``: the host's own certificates, issued again
- :mod:`.revoke`: ``agtp cert revoke`` and ``agtp cert crl``: the revocation list of an authority
"""
