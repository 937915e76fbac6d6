"""
HTTP beside AGTP.

- :mod:`.wellknown`: the bootstrap document of ``/.well-known/agtp``, as a value
- :mod:`.sidecar`: the small HTTPS server that serves it
"""
