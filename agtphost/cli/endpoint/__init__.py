"""
``agtp endpoint``: write endpoints.

- :mod:`.commands`: the command
- :mod:`.module_edit`: add the function to a module that exists
- :mod:`.scaffold`: the files that ``agtp endpoint new`` writes: a declaration, a function and a test
"""
