"""
``/.well-known/agis.json``: what a service offers, on one page, for who looks it up (AGIS v01 section 12.2).

The members that the draft has, each true of this host. What nobody has said is null, such as the trade that a
service is in. Of data classes there are the names alone: how sensitive they are is for those who are known.
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
    The document.

    :param root: the ``agtp://`` URI of the host, at which it describes itself.
    :param domain: the trade it is in; None where nobody has said.
    :param related: addresses of services that belong to it.
    :param endpoints: method, capability and whether it only reads, of each endpoint of the operator's.
    :param tools: whether hosted tools are called as well.
    :param tools_list: the URL at which an MCP client lists the tools; None where there is none, and no member says so.
    :param negotiable: whether endpoints can be negotiated.
    :param confirms: whether people approve calls.
    :param anonymous: whether callers without a name may read what the host says of itself.
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
