"""Methods and paths that the host itself is bound to; no endpoint may be declared there (AGTP-API section 5.9)."""

from __future__ import annotations

DISCOVERY = ("/", "/agents", "/genesis", "/methods", "/tools", "/apis", "/patterns", "/contracts")
"""The reserved DISCOVER paths that this host serves."""

FETCHED = ("/agents", "/agents/{name}", "/agents/{name}/status")
"""
The documents about agents, one by one: FETCH answers what DESCRIBE does, and so does GET, which is FETCH by its alias
(AGTP-API section 9.2). Where the operator has a ``FETCH /`` or a ``FETCH /status``, that is what the last two reach.
"""

LIFECYCLE = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")
"""The lifecycle methods of core v08 sections 7.2.14 to 7.2.18, each on ``/``."""

NEGOTIATION = (
    ("PROPOSE", "/"),
    ("QUERY", "/proposals"),
    ("QUERY", "/proposals/{proposal_id}"),
    ("CONFIRM", "/proposals/{proposal_id}"),
)
"""Proposals and what becomes of them (core v08 sections 7.2.7 and 7.5)."""

OPEN = (("QUERY", "/"), ("SUMMARIZE", "/"), ("PLAN", "/"), ("QUOTE", "/"))
"""Methods that the host answers only where no endpoint of the operator's is declared there."""

MECHANICS = (
    ("ESCALATE", "/"),
    ("QUERY", "/escalations"),
    ("QUERY", "/approvals"),
    ("CONFIRM", "/"),
    ("SUSPEND", "/"),
    ("RESUME", "/"),
    ("NOTIFY", "/"),
    ("QUERY", "/notifications"),
)
"""Escalations, sessions that stand still, and notifications (core v08 sections 7.2.10 to 7.2.13)."""

FRONTED = (("QUERY", "/a2a-tasks"), ("QUERY", "/a2a-tasks/{task_id}"), ("SUSPEND", "/a2a-tasks/{task_id}"))
"""Tasks of A2A clients: bound where ``[a2a.front]`` listens."""

WORKFLOWS = (("QUERY", "/workflows"), ("QUERY", "/monitors"))
"""What CHAIN and MONITOR began and what became of it, each agent's own: bound where these are on."""

DELEGATING = (("DELEGATE", "/"), ("QUERY", "/delegations"))
"""Delegation, and the tasks that go on after it (core v08 section 7.2.9)."""

WITNESSING = (("CONFIRM", "/checkpoints"), ("QUERY", "/checkpoints"))
"""The logs of other hosts: bound where ``[witness] logs`` names any."""

PAGE = (
    ("AUTHORIZE", "/page"),
    ("QUERY", "/page"),
    ("QUERY", "/page/feed"),
    ("SUSPEND", "/page/calls/{response_id}"),
    ("RESUME", "/page/upstreams/{upstream}"),
)
"""The operators' page: bound where ``[admin]`` listens."""

CONFIGURATION = (("ACTIVATE", "/configuration"),)
"""The host's configuration, taken while it runs."""

VERIFYING = (("CONFIRM", "/verifications"), ("QUERY", "/verifications"))
"""That somebody has verified the evidence: what ``agtp audit verify --record`` states."""

GRANTS = (("AUTHORIZE", "/grants"), ("REVOKE", "/grants"), ("QUERY", "/grants"))
"""What the host lets agents do: :mod:`agtphost.contract.rights`."""

REGISTRY = (
    ("QUERY", "/cards"),
    ("QUERY", "/cards/{id}"),
    ("FIND", "/cards"),
    ("REGISTER", "/cards"),
    ("RENEW", "/cards/{id}"),
    ("WITHDRAW", "/cards/{id}"),
    ("APPROVE", "/cards/{id}"),
)
"""Cards of agents: bound where there is ``[registry]``."""

SERVERS = (
    ("QUERY", "/mcp-servers"),
    ("QUERY", "/mcp-servers/{name}"),
    ("QUERY", "/mcp-servers/{name}/{version}"),
)
"""Hosted MCP servers as the registry of MCP has servers: likewise."""

NAMING = frozenset({("EXECUTE", "/mcp"), ("EXECUTE", "/a2a"), ("EXECUTE", "/acp"), ("QUERY", "/mcp-servers")})
"""
Where the next segment is the name of an upstream, which may be that of a method: ``fetch`` is a well-known MCP server.

It stands for a parameter of the host's own templates, and these are exempt (AGTP-API section 5.1).
"""

RESERVED = (
    *(("DISCOVER", path) for path in DISCOVERY),
    *(("DESCRIBE", path) for path in ("/", "/agents", "/agents/{name}", "/agents/{name}/status")),
    ("QUERY", "/agents"),
    *(("FETCH", path) for path in FETCHED),
    ("INSPECT", "/"),
    ("EXECUTE", "/"),
    ("EXECUTE", "/mcp/{server}"),
    ("EXECUTE", "/a2a/{server}"),
    ("EXECUTE", "/acp/{server}"),
    *DELEGATING,
    *WORKFLOWS,
    *((method, "/") for method in LIFECYCLE),
    *NEGOTIATION,
    *MECHANICS,
    *WITNESSING,
    *FRONTED,
    *PAGE,
    *VERIFYING,
    *GRANTS,
    *CONFIGURATION,
    *REGISTRY,
    ("EXECUTE", "/cards/{id}"),
    *SERVERS,
)
"""All of them, as the endpoint rules take them."""
