"""
A black-box test of an AGTP server over the wire.

:mod:`~agtphost.conformance.cases` holds the cases, with one case for one observation.
:mod:`~agtphost.conformance.target` learns what the server offers, :mod:`~agtphost.conformance.runner` runs the
cases, and :mod:`~agtphost.conformance.reports` reports their results. No module here knows which server it tests.

Answers are parsed, and their records, signatures and digests are verified, without the host's code, by
:mod:`.link`, :mod:`.records`, :mod:`.genesis`, :mod:`.manifest_parts` and :mod:`.signatures`. Two parts are shared with
the host: the rules for manifests (``contract.manifest_validation``, which the code that makes manifests does not use),
and the method catalog. An error in these may pass on both sides.

- :mod:`.access`: what the operator of a run supplies
- :mod:`.request_bytes`: requests as bytes
- :mod:`.case`: what a case is, and how the modules of cases are written
- :mod:`.expectations`: assertions about answers
- :mod:`.dialing`: new links to a target, over TLS or QUIC
- :mod:`.genesis`: the form of an Agent Genesis; :mod:`.manifest_parts`: the parts of a large manifest
- :mod:`.link`: what a link is; raw bytes over TLS, with the standard library's blocking sockets
- :mod:`.quic`: raw bytes over QUIC
- :mod:`.patterns`: texts that match a pattern, for the plain patterns that endpoint schemas use
- :mod:`.records`: Attribution-Records, parsed without the code that makes them
- :mod:`.signatures`: canonical forms, digests and signatures, computed only with ``json`` and ``cryptography``
- :mod:`.samples`: valid and invalid inputs made from a declared schema
- :mod:`.surface`: the declared endpoints and tools of a target, and how to call them
- :mod:`.verdict`: exceptions of cases that do not pass, and the needs of cases
"""
