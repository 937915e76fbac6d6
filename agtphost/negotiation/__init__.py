"""
Runtime negotiation: AGTP-API section 10.

``negotiator`` is the one object that the rest of the host knows. Behind it:
``proposal`` reads what an agent proposes, ``evaluation`` judges it,
``synthesis`` and ``graph`` find what can answer it, ``contract`` and
``contracts`` are what came of it, ``rcns`` is the gate for requests that
nobody registered an answer for, ``rounds`` counts, ``pending`` waits for an
operator, and ``termination`` ends contracts.

- :mod:`.failed_attempts`: failed attempts, for whoever wants to know why: ``RCNS-Attempt-Id`` and INSPECT
- :mod:`.compiling`: the schemas of proposals and contracts, compiled while others wait for the reactor
- :mod:`.data_classes`: which data may be negotiated: what the operator declares
- :mod:`.durations`: requested durations: ISO 8601 (``PT24H``) and the drafts' own short form (``24h``, ``7d``)
- :mod:`.fields`: which fields of one schema can feed which fields of another
- :mod:`.patterns`: what this host would synthesize: DISCOVER /patterns
- :mod:`.rate`: how often one agent may ask: a fixed ceiling in any minute
- :mod:`.settings`: what the operator decides about negotiation
- :mod:`.lasting`: what is nowhere but in memory, and outlives the configuration that contracts are made by
"""
