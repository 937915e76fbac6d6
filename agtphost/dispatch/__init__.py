"""
The one way in and the one way out.

- :mod:`.exchange`: one request's progress, what is proven so far
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
- :mod:`.decision`: what the gates would decide about a hypothetical call
- :mod:`.masking`: an input with its secret members masked, for people and records
- :mod:`.resumption`: calls in a caller's name after the call that ordered them has ended
- :mod:`.following`: changes in the transaction of a call's record besides those of the call
- :mod:`.failed_calls`: calls that failed and may be made again
- :mod:`.generated_code`: the mark of generated code that was not reviewed
- :mod:`.encoding`: long work in steps, with turns of the reactor in between: large results become text in slices
- :mod:`.computing`: where the computations of handlers run
- :mod:`.large_bodies`: large bodies take turns
- :mod:`.turns`: whose turn a call takes
- :mod:`.invocation`: calls that a handler makes to other endpoints: through the dispatcher, as the same caller
- :mod:`.handler_view`: what a handler sees of an exchange: a caller that is believed, or none
- :mod:`.merchants`: what a buyer has to have verified: the Merchant Manifest
- :mod:`.ruling`: the line of the file that decided about a call, for those who may change it
- :mod:`.purchase`: what is proven of one PURCHASE on its way to the handler, and goes into its record
- :mod:`.outcome`: the outcome of a call, before it is sealed
- :mod:`.quotes`: carts and the quotes given for them: what a PURCHASE can be bound to
- :mod:`.refusals`: which refusals, and which reads by unknown callers, get their own record, and which are summed up
- :mod:`.store_refusals`: what is answered where the store took nothing
- :mod:`.answers`: what a handler's answer may be, and what becomes of the others
- :mod:`.running`: calls that wait for something, by agent: those of a stopped agent end with it
- :mod:`.scope_dimensions`: bounds on a call beyond its scopes: what it costs, and what the operator's own scope
  dimensions allow
- :mod:`.sessions`: sessions and tasks: which there are, and which are stopped
- :mod:`.single_use`: what is good for one call: its use is durable before the handler of that call runs
- :mod:`.release`: lets one call pass that a person approved, and uses the approval up
- :mod:`.spending`: what one request from outside may cost: the calls it makes inside this host, and what it stores
- :mod:`.standing`: the agents that a call requires to be in service, and the refusal when one of them is stopped
- :mod:`.tracing`: the interface that gives calls their spans
- :mod:`.under_way`: how much goes on by one dispatcher, for the one that takes its place
- :mod:`.used_tokens`: the hops of delegations: which tokens were used, and what follows from which
- :mod:`.violations`: what the record of a refusal says of who asked and what was missing
- :mod:`.waiting`: waits for handlers: no longer than they may take, and not for callers who are gone
- :mod:`.gates`: the gates
"""
