"""
What upstreams over HTTP have in common, whatever protocol they speak.

:mod:`.exchange` asks and reads; :mod:`.upkeep` keeps one upstream known, and
:mod:`.links` remembers which of an upstream's tasks belong
to which caller.
"""
