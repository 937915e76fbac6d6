"""
The protocol's own methods, each a binding like any endpoint: core v08 section 7.2.

- :mod:`.execution`: EXECUTE and the payloads it carries
- :mod:`.grants`: grants: what operators let agents call; :mod:`.rights`: all rights of an agent;
  :mod:`.scope_restatement`: statements of its issuer about its scopes
- :mod:`.lifecycle`: ACTIVATE, DEACTIVATE, REINSTATE, REVOKE, DEPRECATE
- :mod:`.continuation`: Continuation-Tokens of lists
- :mod:`.domains`: telling the host of a domain: DEACTIVATE and REINSTATE with ``org_domain``
- :mod:`.merchant`: QUOTE: the estimated cost of a call, or the price of a cart;
  :mod:`.purchase`: its bindings, and the gate before PURCHASE
- :mod:`.overrides`: built-ins that the operator answers himself: ``[policies.builtins]``
- :mod:`.proposal`: PROPOSE, and what becomes of proposals
- :mod:`.reload`: ACTIVATE on ``/configuration``: change without a restart
- :mod:`.verification`: statements of verified evidence: ``CONFIRM /verifications`` and ``QUERY /verifications``
- :mod:`.checkpoint_methods`: witnessing the logs of other hosts: ``CONFIRM /checkpoints`` and ``QUERY /checkpoints``
- :mod:`.floor`: builds the methods of the two packages :mod:`.cognitive` and :mod:`.oversight`
- :mod:`.cognitive`: QUERY, SUMMARIZE and PLAN
- :mod:`.delegation`: DELEGATE
- :mod:`.discovery`: DISCOVER and DESCRIBE
- :mod:`.inspection`: INSPECT
- :mod:`.standard`: the fifty standard methods
- :mod:`.oversight`: ESCALATE, CONFIRM, NOTIFY, SUSPEND and RESUME
"""
