"""
What a host tells whoever watches over it, in numbers: Prometheus metrics, health and readiness.

- :mod:`.counting`: counts what the ledger seals, with a bound on every label
- :mod:`.vitals`: what is asked of the host's parts when somebody looks, and what keeps it from being ready
- :mod:`.exposition`: both as Prometheus reads them, by the official library
- :mod:`.resource`: ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP

There is no state of the process in it: two hosts in one process, as in tests, count apart.
"""
