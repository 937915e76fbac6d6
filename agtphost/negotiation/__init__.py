"""
Runtime negotiation: AGTP-API section 10.

``negotiator`` is the only object that the rest of the host uses. ``proposal`` parses what an agent proposes,
``evaluation`` judges it, ``synthesis`` and ``graph`` find what can answer it, ``contract`` and ``contracts`` are the
results, ``rcns`` is the gate for unregistered requests, ``rounds`` counts turns, ``reviews`` holds proposals for an
operator, and ``termination`` ends contracts.

- :mod:`.failed_attempts`: failed attempts, for ``RCNS-Attempt-Id`` and INSPECT
- :mod:`.schema_cache`: a cache of compiled schemas of proposals and contracts
- :mod:`.data_classes`: the data that may be negotiated, as the operator declares it
- :mod:`.durations`: requested durations: ISO 8601 (``PT24H``) and the drafts' own short form (``24h``, ``7d``)
- :mod:`.fields`: which fields of one schema can feed which fields of another
- :mod:`.patterns`: what this host would synthesize: DISCOVER /patterns
- :mod:`.call_ceiling`: a fixed ceiling of requests per minute and agent
- :mod:`.settings`: the operator's settings of negotiation
- :mod:`.contract_cleanup`: ends contracts whose connection is closed
- :mod:`.process_state`: state in memory that outlives a configuration
"""
