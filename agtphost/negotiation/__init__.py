"""
Runtime negotiation: AGTP-API section 10.

``negotiator`` is the one object that the rest of the host knows. Behind it:
``proposal`` reads what an agent proposes, ``evaluation`` judges it,
``synthesis`` and ``graph`` find what can answer it, ``contract`` and
``contracts`` are what came of it, ``rcns`` is the gate for requests that
nobody registered an answer for, ``turns`` counts, ``pending`` waits for an
operator, and ``sweep`` ends contracts.
"""
