"""
A black-box examination of an AGTP server, over the wire.

:mod:`~agtphost.conformance.cases` holds what is looked at, one case for one
observation; :mod:`~agtphost.conformance.target` learns what the server offers;
:mod:`~agtphost.conformance.running` runs the cases, and
:mod:`~agtphost.conformance.reporting` says what came of them. Nothing here
knows which server it is talking to.
"""
