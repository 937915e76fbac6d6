"""
Every case, by area, in the order of a run.

- :mod:`.audit`: Attribution-Records and their chains
- :mod:`.catalog`: methods
- :mod:`.cognition`: methods of the floor that think, plan, hand over and negotiate
- :mod:`.discovery`: DISCOVER and its built-in documents
- :mod:`.documents`: agents under their names, and what is returned for them
- :mod:`.endpoint`: endpoints and their schemas
- :mod:`.framing`: what several wire modules do with raw octets
- :mod:`.headers`: fields of requests and responses
- :mod:`.identity`: callers, agents, Genesis and Identity Documents
- :mod:`.inspect`: INSPECT
- :mod:`.lifecycle`: lifecycle methods
- :mod:`.manifest`: the server manifest
- :mod:`.manifest_rules`: the rules that ``agtp manifest validate`` holds manifests to, each as a case
- :mod:`.path`: paths
- :mod:`.policy`: the method policy, as the manifest publishes it
- :mod:`.status`: which status says what
- :mod:`.tls`: the transport
- :mod:`.tour`: one answer of every kind that a target can be made to give without harm
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
    """All cases, in order."""
    return tuple(case for module in MODULES for case in module.CASES)
