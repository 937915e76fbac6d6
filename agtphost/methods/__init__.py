"""
The protocol's own methods, each a binding like any endpoint: core v08 section 7.2.

- :mod:`.discovery`: DISCOVER and its built-in documents
- :mod:`.description`: DESCRIBE, Identity Documents and the namespace
- :mod:`.inspection`: INSPECT
- :mod:`.execution`: EXECUTE and the payloads it carries
- :mod:`.lifecycle`: ACTIVATE, DEACTIVATE, REINSTATE, REVOKE, DEPRECATE
- :mod:`.cognitive`, :mod:`.summary`, :mod:`.planning`: QUERY, SUMMARIZE, PLAN, from :mod:`.documents` and what
  can be called
- :mod:`.escalation`, :mod:`.confirmation`, :mod:`.notification`: ESCALATE, CONFIRM, NOTIFY
- :mod:`.suspension`, :mod:`.sessions`: SUSPEND and RESUME, and the gate that keeps still what was stopped
- :mod:`.parameters`: reading a method's parameters
- :mod:`.asynchronous_tasks`: delegated tasks that go on after their DELEGATE was answered 202
- :mod:`.candidates`: candidate search: DISCOVER with ``criteria``
- :mod:`.continuation`: Continuation-Tokens of lists
- :mod:`.decisions`: INSPECT ``target=decision``: whether an agent may make a call, and which gate says so
- :mod:`.definitions`: ``INSPECT target=endpoint``: the definition of one endpoint, as the manifest has it, in a
  document of its own
- :mod:`.delegated_hop`: one hop of a delegation while it is decided on: who hands what to whom, and how it is refused
- :mod:`.delegated_task`: what a DELEGATE asks for, read from its parameters
- :mod:`.delegated_work`: doing a delegated task: here, call by call through the dispatcher, or on the host of the
  delegatee
- :mod:`.delegation`: DELEGATE: a task handed to another agent with part of the caller's authority
- :mod:`.delegation_tokens`: whether a hop is backed by signatures: its token, and the chain of tokens behind it
- :mod:`.domains`: telling the host of a domain: DEACTIVATE and REINSTATE with ``org_domain``
- :mod:`.filters`: the ``filter`` of a candidate search: what a candidate has to be, besides meeting the criteria
- :mod:`.governance`: governance tokens: a governance platform's verdict on one action of one agent
- :mod:`.hops`: the hops of delegations: which tokens were used, and what follows from which
- :mod:`.merchant`: QUOTE: what a call would cost, and what a cart comes to
- :mod:`.namespace`: the signed Agent Namespace Document
- :mod:`.overrides`: built-ins that the operator answers himself: ``[policies.builtins]``
- :mod:`.proofs`: INSPECT of the tree over all records: checkpoints and proofs
- :mod:`.proposal`: PROPOSE, and what becomes of proposals
- :mod:`.publishing`: documents about agents in the form that was asked for, signed
- :mod:`.relevance`: how well a text answers a question, by the words both have: plain, offline, and the same every
  time
- :mod:`.sharing`: the operator's inbox is everybody's, and nobody's alone: shares by the sender's owner
- :mod:`.status_document`: the status document of an agent
- :mod:`.upstreams`: ``INSPECT target=upstreams``: what the host's upstreams are up to, for operators
- :mod:`.visibility`: what is shown of the hosted agents, and to whom: the one rule of every list and document
- :mod:`.witnessing`: witnessing the logs of other hosts: ``CONFIRM /checkpoints`` and ``QUERY /checkpoints``
- :mod:`.zones`: which hosted agents a caller may be shown
"""
