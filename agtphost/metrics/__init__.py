"""
Publish metrics of a host: Prometheus metrics, health and readiness.

- :mod:`.call_counts`: counts of what the ledger seals, with a bound on every label
- :mod:`.exposition`: both in the format of Prometheus, by the official library
- :mod:`.feature`: what the host takes, where the section is there
- :mod:`.resource`: ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP

No state belongs to the process: two hosts in one process, as in tests, count separately.
"""
