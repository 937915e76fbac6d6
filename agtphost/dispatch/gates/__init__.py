"""
The gates: each asks one question of a request, and refuses it or lets it pass.

:mod:`agtphost.dispatch.order` has their order.

- :mod:`.identity`: who is calling, and whom
- :mod:`.endpoint`: method, path, endpoint, authority, input, idempotency, store
- :mod:`.plugin`: gates of the operator's own packages, which only refuse
- :mod:`.body`: the gates that read a request's body: what it says, and what the legacy verbs add to it
- :mod:`.discovery`: the gate in front of the built-ins that read, where the operator has closed anonymous
  discovery
- :mod:`.purchase`: counterparty verification of PURCHASE, before any handler
- :mod:`.principal`: the acting principal: on whose behalf the agent calls
- :mod:`.limits`: how often one caller may ask: 429 beyond it
"""
