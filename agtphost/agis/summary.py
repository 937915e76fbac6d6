"""
``/.well-known/agis.json``: a one-page summary of a service (AGIS v01 section 12.2).

It has the draft's members, with values that are true for this host. Unknown values are null, such as the service's
domain. Data classes are listed by name only: their sensitivity is for known callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

AGIS_VERSION = "1.0"

PROTOCOLS = ("request", "negotiate", "confirm", "query")
"""The values of ``interaction_protocols``."""


def agis_summary(
    *,
    service: str,
    root: str,
    domain: str | None,
    namespace: str,
    related: Sequence[str],
    endpoints: Sequence[tuple[str, str, bool]],
    tools: bool,
    tools_list: str | None,
    negotiable: bool,
    confirms: bool,
    data_classes: Sequence[str],
    anonymous: bool,
    version: str,
) -> dict[str, Any]:
    """
    Return the summary of a service.

    :param root: the ``agtp://`` URI of the host, which describes itself there.
    :param domain: the service's domain; None if it is unknown.
    :param related: addresses of related services.
    :param endpoints: method, capability and whether it only reads, of each of the operator's endpoints.
    :param tools: whether hosted tools can be called as well.
    :param tools_list: the URL at which an MCP client lists the tools; None if there is none; then the member is absent.
    :param negotiable: whether endpoints can be negotiated.
    :param confirms: whether people approve calls.
    :param anonymous: whether callers without a name may read the host's descriptions.
    """
    methods = {method for method, _, _ in endpoints} | ({"EXECUTE"} if tools else set())
    on = {
        "request": bool(methods),
        "negotiate": negotiable,
        "confirm": confirms,
        "query": any(reads for _, _, reads in endpoints),
    }
    summary = {
        "agis": AGIS_VERSION,
        "service": service,
        "agtp": root,
        "agis_document": root,
        "methods": sorted(methods),
        "domain": domain,
        "namespace": namespace,
        "negotiable": negotiable,
        "capability_summary": sorted({capability for _, capability, _ in endpoints}),
        "data_classes": list(data_classes),
        "pre_auth_discovery": anonymous,
        "version": version,
        "interaction_protocols": [name for name in PROTOCOLS if on[name]],
        "related_services": list(related),
    }
    return summary if tools_list is None else {**summary, "mcp_tools_list": tools_list}
