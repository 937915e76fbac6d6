"""
``agtp endpoint``.

- :mod:`.commands`: the command
- :mod:`.scaffold`: what ``agtp endpoint new`` writes: a declaration, a function, and a test that passes
"""
