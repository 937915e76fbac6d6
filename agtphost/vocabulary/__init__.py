"""
The words of the protocol: data and grammar, importing nothing.

- :mod:`.status`: the status registry
- :mod:`.catalog`: the method catalog (``methods.json``)
- :mod:`.paths`: the path grammar
- :mod:`.identifiers`: Agent-ID, Audit-ID, Response-ID and the opaque ids
- :mod:`.uris`: the six ``agtp://`` URI forms
- :mod:`.scopes`: Authority-Scope tokens and what covers what
- :mod:`.media_types`: the registered media types
- :mod:`.jsontext`: the one strict JSON decoder
"""
