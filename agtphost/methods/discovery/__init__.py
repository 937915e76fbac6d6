"""
DISCOVER and DESCRIBE: what a host offers, and to whom it shows it.

- :mod:`.discover`: DISCOVER and its built-in documents
- :mod:`.description`: DESCRIBE, Identity Documents and the namespace
- :mod:`.agis`: what one caller may call, as an AGIS document: ``format=agis`` of DISCOVER and DESCRIBE;
  :mod:`.agis_service`: this host in these documents, and what keeps endpoints out of them
- :mod:`.candidates`: candidate search: DISCOVER with ``criteria``
- :mod:`.filters`: the ``filter`` of a candidate search: what a candidate has to be, besides meeting the criteria
- :mod:`.document_cache`: documents written for a caller, kept for everybody of the same authority
- :mod:`.namespace`: the signed Agent Namespace Document
- :mod:`.openapi`: what one caller may call, for clients of HTTP: ``DISCOVER /methods`` with ``format=openapi``
- :mod:`.publication`: documents about agents in the form that was asked for, signed
- :mod:`.status_document`: the status document of an agent
- :mod:`.visibility`: what is shown of the hosted agents, and to whom: the one rule of every list and document
- :mod:`.zones`: which hosted agents a caller may be shown
"""
