"""
The gates: each asks one question of a request, and refuses it or lets it pass.

:mod:`agtphost.dispatch.gate_order` has their order.

- :mod:`.identity`: who is calling, and whom; :mod:`.reinstatement`: suspended callers that wait for their reinstatement
- :mod:`.method`: reserved headers, alias, catalog, path grammar, the operator's policy
- :mod:`.endpoint`: contract presentation, endpoint, the input's schema
- :mod:`.authority`: callers without a name, Authority-Scope, required scopes and assurance
- :mod:`.authorization_token`: tokens of AUTHORIZE: what another agent authorized the caller to do
- :mod:`.idempotency`: a key is used once; and whether a record can be kept at all
- :mod:`.approval`: what a person approves, call by call
- :mod:`.action`: the action of EXECUTE, and of a QUERY with a modality
- :mod:`.session`: sessions and tasks that were stopped
- :mod:`.governance`: governance tokens: a governance platform's verdict on one action of one agent
- :mod:`.plugin`: gates of the operator's own packages, which only refuse
- :mod:`.body`: the gates that read a request's body: what it says, and what the legacy verbs add to it
- :mod:`.discovery`: the gate in front of the built-ins that read, where the operator has closed anonymous
  discovery
- :mod:`.purchase`: counterparty verification of PURCHASE, before any handler
- :mod:`.principal`: the acting principal: on whose behalf the agent calls
- :mod:`.procedure`: what every RUN is held to
- :mod:`.limits`: how often one caller may ask: 429 beyond it
"""
