"""
What upstreams over HTTP have in common, whatever protocol they speak.

:mod:`.settings` is what the operator says of one; :mod:`.exchange` asks and reads; :mod:`.service` keeps it known;
:mod:`.ownership` remembers which of its tasks belong to which caller, and :mod:`.cancellation` ends them with their
callers.
"""
