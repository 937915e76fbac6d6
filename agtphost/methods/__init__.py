"""
The protocol's own methods, each a binding like any endpoint: core v08 section 7.2.

- :mod:`.discovery`: DISCOVER and its built-in documents
- :mod:`.description`: DESCRIBE, Identity Documents and the namespace
- :mod:`.inspection`: INSPECT
- :mod:`.execution`: EXECUTE and the payloads it carries
- :mod:`.lifecycle`: ACTIVATE, DEACTIVATE, REINSTATE, REVOKE, DEPRECATE
- :mod:`.parameters`: reading a method's parameters
"""
