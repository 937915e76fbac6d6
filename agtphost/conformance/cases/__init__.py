"""Every case, by area, in the order of a run."""

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
