"""Methods and paths of the host itself; endpoints must not be declared there (AGTP-API section 5.9)."""

from __future__ import annotations

DISCOVERY = ("/", "/agents", "/genesis", "/methods", "/tools", "/apis", "/patterns", "/contracts")
"""The reserved DISCOVER paths that this host serves."""

FETCHED = ("/agents", "/agents/{name}", "/agents/{name}/status")
"""
Documents about single agents: FETCH answers as DESCRIBE does, and so does GET, an alias of FETCH (AGTP-API section
9.2). If the operator has a ``FETCH /`` or a ``FETCH /status``, the last two paths lead there.
"""

LIFECYCLE = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")
"""The lifecycle methods of core v08 sections 7.2.14 to 7.2.18, each on ``/``."""

NEGOTIATION = (
    ("PROPOSE", "/"),
    ("QUERY", "/proposals"),
    ("QUERY", "/proposals/{proposal_id}"),
    ("CONFIRM", "/proposals/{proposal_id}"),
)
"""Proposals and their outcomes (core v08 sections 7.2.7 and 7.5)."""

OPEN = (("QUERY", "/"), ("SUMMARIZE", "/"), ("PLAN", "/"), ("QUOTE", "/"))
"""Methods that the host answers only if the operator has no endpoint there."""

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
"""Escalations, suspended sessions, and notifications (core v08 sections 7.2.10 to 7.2.13)."""

FRONTED = (("QUERY", "/a2a-tasks"), ("QUERY", "/a2a-tasks/{task_id}"), ("SUSPEND", "/a2a-tasks/{task_id}"))
"""Tasks of A2A clients: bound where ``[a2a.front]`` listens."""

WORKFLOWS = (("QUERY", "/workflows"), ("QUERY", "/monitors"))
"""Each agent's own workflows and monitors: bound if CHAIN or MONITOR is on."""

DELEGATING = (("DELEGATE", "/"), ("QUERY", "/delegations"))
"""Delegation, and its continuing tasks (core v08 section 7.2.9)."""

WITNESSING = (("CONFIRM", "/checkpoints"), ("QUERY", "/checkpoints"))
"""The logs of other hosts: bound where ``[[witness.logs]]`` names any."""

PAGE = (
    ("AUTHORIZE", "/page"),
    ("QUERY", "/page"),
    ("QUERY", "/page/feed"),
    ("SUSPEND", "/page/calls/{response_id}"),
    ("RESUME", "/page/upstreams/{upstream}"),
    ("REVOKE", "/page/sessions"),
)
"""The operators' page: bound where ``[admin]`` listens."""

CONFIGURATION = (("ACTIVATE", "/configuration"),)
"""Reloads of the host's configuration."""

VERIFYING = (("CONFIRM", "/verifications"), ("QUERY", "/verifications"))
"""Statements that the evidence was verified: ``agtp audit verify --record`` sends them."""

GRANTS = (("AUTHORIZE", "/grants"), ("REVOKE", "/grants"), ("QUERY", "/grants"))
"""Grants of agents: :mod:`agtphost.contract.rights`."""

REGISTRY = (
    ("QUERY", "/cards"),
    ("QUERY", "/cards/{id}"),
    ("FIND", "/cards"),
    ("REGISTER", "/cards"),
    ("RENEW", "/cards/{id}"),
    ("WITHDRAW", "/cards/{id}"),
    ("APPROVE", "/cards/{id}"),
)
"""Cards of agents: bound if the configuration has ``[registry]``."""

SERVERS = (
    ("QUERY", "/mcp-servers"),
    ("QUERY", "/mcp-servers/{name}"),
    ("QUERY", "/mcp-servers/{name}/{version}"),
)
"""Hosted MCP servers in the format of the MCP registry: bound if the configuration has ``[registry]``."""

NAMING = frozenset({("EXECUTE", "/mcp"), ("EXECUTE", "/a2a"), ("EXECUTE", "/acp"), ("QUERY", "/mcp-servers")})
"""
Paths whose next segment is the name of an upstream, which may equal a method: ``fetch`` is a well-known MCP server.

The segment is a parameter of the host's own templates, which are exempt (AGTP-API section 5.1).
"""

LISTS = frozenset(
    {
        *(("DISCOVER", path) for path in DISCOVERY),
        *((method, "/agents") for method in ("DESCRIBE", "QUERY", "FETCH")),
        *(("QUERY", "/cards"), ("QUERY", "/mcp-servers")),
    }
)
"""Reads of the host's own that list what it offers."""

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
"""All reserved methods and paths."""
