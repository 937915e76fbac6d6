"""
Witness the logs of other hosts, and have them witness this one's.

- :mod:`.feature`: what the host takes, for ``[witness]`` and ``[audit] witnesses``; the methods of a witness
- :mod:`.witnesses`: the witnesses of this host's log, asked over AGTP
"""
