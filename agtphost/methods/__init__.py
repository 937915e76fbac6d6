"""
The protocol's own methods, each a binding like any endpoint: core v08 section 7.2.

- :mod:`.discovery`: DISCOVER and its built-in documents
- :mod:`.description`: DESCRIBE, Identity Documents and the namespace
- :mod:`.inspection`: INSPECT
- :mod:`.execution`: EXECUTE and the payloads it carries
- :mod:`.lifecycle`: ACTIVATE, DEACTIVATE, REINSTATE, REVOKE, DEPRECATE
- :mod:`.cognitive`, :mod:`.summary`, :mod:`.planning`: QUERY, SUMMARIZE, PLAN, from :mod:`.documents` and what
  can be called
- :mod:`.escalation`, :mod:`.confirmation`, :mod:`.notification`: ESCALATE, CONFIRM, NOTIFY
- :mod:`.suspension`, :mod:`.sessions`: SUSPEND and RESUME, and the gate that keeps still what was stopped
- :mod:`.parameters`: reading a method's parameters
"""
