"""
The one way in and the one way out.

- :mod:`.exchange`: one request's progress, what is proven so far
- :mod:`.bodies`: request bodies, JSON and YAML, and their envelope
- :mod:`.authority`: effective scopes, and the one function that decides who may call what
- :mod:`.identity_gates`, :mod:`.contract_gates`: the gates
- :mod:`.order`: their order, as data
- :mod:`.sealing`: outcome to record to response
- :mod:`.dispatcher`: runs all of it
"""
