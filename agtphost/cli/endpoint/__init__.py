"""
``agtp endpoint``: write endpoints.

- :mod:`.commands`: the command
- :mod:`.scaffold`: the files that ``agtp endpoint new`` writes: a declaration, a function and a test
"""
