"""
Every case, by area, in the order of a run.

- :mod:`.audit`: Attribution-Records and their chains
- :mod:`.catalog`: methods
- :mod:`.cognition`: methods of the floor for queries, plans, delegation and negotiation
- :mod:`.discovery`: DISCOVER and its built-in documents
- :mod:`.documents`: agents by name, and their documents
- :mod:`.endpoint`: endpoints and their schemas
- :mod:`.framing`: shared checks with raw bytes
- :mod:`.headers`: fields of requests and responses
- :mod:`.identity`: callers, agents, Genesis and Identity Documents
- :mod:`.inspect`: INSPECT
- :mod:`.lifecycle`: lifecycle methods
- :mod:`.manifest`: the server manifest
- :mod:`.manifest_rules`: the rules of ``agtp manifest validate``, each as a case
- :mod:`.path`: paths
- :mod:`.policy`: the method policy, as the manifest publishes it
- :mod:`.quic`: what only a run over QUIC shows
- :mod:`.status`: the meaning of statuses
- :mod:`.tls`: the transport
- :mod:`.tour`: one answer of every kind that a target gives without side effects
- :mod:`.wire_fields`: field lines
- :mod:`.wire_flow`: connections over time
- :mod:`.wire_framing`: Content-Length, bodies and line ends
- :mod:`.wire_lines`: the request line
"""

from __future__ import annotations

from agtphost.conformance.case import Case
from agtphost.conformance.cases import (
    audit,
    catalog,
    cognition,
    discovery,
    documents,
    endpoint,
    headers,
    identity,
    inspect,
    lifecycle,
    manifest,
    manifest_rules,
    path,
    policy,
    quic,
    status,
    tls,
    wire_fields,
    wire_flow,
    wire_framing,
    wire_lines,
)

MODULES = (
    tls,
    wire_lines,
    wire_fields,
    wire_framing,
    wire_flow,
    quic,
    headers,
    status,
    catalog,
    path,
    discovery,
    manifest,
    manifest_rules,
    policy,
    endpoint,
    identity,
    documents,
    cognition,
    audit,
    inspect,
    lifecycle,
)


def every_case() -> tuple[Case, ...]:
    """Return all cases, in order."""
    return tuple(case for module in MODULES for case in module.CASES)
