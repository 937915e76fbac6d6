"""
A black-box examination of an AGTP server, over the wire.

:mod:`~agtphost.conformance.cases` holds what is looked at, one case for one
observation; :mod:`~agtphost.conformance.target` learns what the server offers;
:mod:`~agtphost.conformance.running` runs the cases, and
:mod:`~agtphost.conformance.reporting` says what came of them. Nothing here
knows which server it is talking to.

What arrives is taken apart, and its records, signatures and digests are checked, without the host's code, by
:mod:`.link`, :mod:`.records` and :mod:`.signatures`. Five things are shared with it: the rules for manifests
(``contract.manifest_validation``, which what makes manifests does not use), how a manifest's parts are joined
(``contract.manifest_parts``), the reading of JSON Schemas (``contract.schemas``), by which inputs are made, the members
that a Genesis must have (``identity.genesis``), and the method catalog. An error in these may pass on both sides.

- :mod:`.access`: what the operator of a run supplies
- :mod:`.asking`: requests as octets
- :mod:`.case`: what a case is, and how the modules of cases are written
- :mod:`.expectations`: what cases say of answers
- :mod:`.link`: raw octets over TLS, with the standard library's blocking sockets
- :mod:`.patterns`: texts that match a pattern, for the plain patterns that endpoint schemas use
- :mod:`.records`: Attribution-Records, taken apart without the code that makes them
- :mod:`.signatures`: canonical forms, digests and signatures, made anew with ``json`` and the ``cryptography``
  library alone
- :mod:`.samples`: inputs made from a declared schema: such as it admits, and such as it must refuse
- :mod:`.surface`: endpoints and tools of a target, as it declares them, and how they are called
- :mod:`.verdict`: how a case ends that does not pass, and what cases need
"""
