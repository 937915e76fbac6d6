"""
Every standard method over TLS, on one real host: see :mod:`.hosted`.

A family of methods has its module here. They run on one worker, in any order, so that each keeps to names of its own.
"""
