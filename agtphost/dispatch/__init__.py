"""
The one way in and the one way out.

- :mod:`.exchange`: one request's progress, what is proven so far
- :mod:`.call_view`: what an operator's gate sees of a call
- :mod:`.authority`: effective scopes, and the one function that decides who may call what
- :mod:`.granted`: what another agent authorized a caller to do
- :mod:`.rights`: which grants are in force, and of whom
- :mod:`.order`: the gates' order, as data
- :mod:`.passage`: how a request passes them, and which need not look again at the next one of its connection
- :mod:`.sealing`: outcome to record to response, with attestation evidence where there is any
- :mod:`.dispatcher`: runs all of it
- :mod:`.addressing`: what a path under ``/agents/`` may and may not address
- :mod:`.approvals`: calls that a person approves: which wait, and which may pass, once
- :mod:`.approved_calls`: what an approval is bound to, and what of it a person is shown
- :mod:`.decision_records`: the signed decision behind an approval, without which it releases nothing
- :mod:`.decision`: what the gates would say of a call that nobody makes
- :mod:`.masking`: an input without what its names say is secret, as people and records have it
- :mod:`.resumption`: calls in a caller's name when the call that ordered them is over
- :mod:`.following`: what becomes true with the record of a call besides what the call changes
- :mod:`.failed_calls`: calls that failed and may be made again
- :mod:`.generated_code`: the mark of code that nobody has looked at
- :mod:`.encoding`: long work in steps, with turns of the reactor in between: large results become text in slices
- :mod:`.computing`: where the computations of handlers run
- :mod:`.large_bodies`: large bodies take turns
- :mod:`.turns`: whose turn a call takes
- :mod:`.invocation`: calls that a handler makes to other endpoints: through the dispatcher, as the same caller
- :mod:`.handler_view`: what a handler sees of an exchange: a caller that is believed, or none
- :mod:`.merchants`: what a buyer has to have verified: the Merchant Manifest
- :mod:`.ruling`: which line of which file a call was decided by, for those who may change it
- :mod:`.purchase`: what is proven of one PURCHASE on its way to the handler, and goes into its record
- :mod:`.outcome`: what came of a call, before it is sealed
- :mod:`.quotes`: carts and the quotes given for them: what a PURCHASE can be bound to
- :mod:`.refusals`: which refusals and which reads of strangers get a record of their own, and which are summed up
- :mod:`.store_refusals`: what is answered where the store took nothing
- :mod:`.answers`: what a handler's answer may be, and what becomes of the others
- :mod:`.running`: calls that wait for something, by agent: those of a stopped agent end with it
- :mod:`.scope_dimensions`: bounds on a call beyond its scopes: what it costs, and what the operator's own scope
  dimensions allow
- :mod:`.sessions`: sessions and tasks: which there are, and which are stopped
- :mod:`.single_use`: what is good for one call: its use is durable before the handler of that call runs
- :mod:`.release`: what lets one call pass that a person approved, and uses the approval up
- :mod:`.spending`: what one request from outside may cost: the calls it makes inside this host, and what it stores
- :mod:`.standing`: who has to be in service for a call to succeed, and what it comes to where one of them is not any
  more
- :mod:`.tracing`: who gives calls their spans
- :mod:`.under_way`: how much goes on by one dispatcher, for the one that takes its place
- :mod:`.used_tokens`: the hops of delegations: which tokens were used, and what follows from which
- :mod:`.violations`: what the record of a refusal says of who asked and what was missing
- :mod:`.waiting`: waits for handlers: no longer than they may take, and not for callers who are gone
- :mod:`.gates`: the gates
"""
