"""
What upstreams over HTTP have in common, whatever protocol they speak.

:mod:`.exchange` asks one and reads; :mod:`.service` keeps it known; :mod:`.ownership` remembers which of its tasks
belong to which caller, and :mod:`.cancellation` ends them with their callers.
"""
