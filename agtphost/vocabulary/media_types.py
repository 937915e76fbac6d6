"""Media types: core v08 sections 5.7 and 11.4; the carried ones are ours (vendor tree)."""

from __future__ import annotations

import re
from collections.abc import Mapping

AGTP_JSON = "application/vnd.agtp+json"
"""Method bodies, both ways."""

AGTP_YAML = "application/vnd.agtp+yaml"
"""Method bodies as YAML, which are read; and documents of the server's as YAML, for readers that ask for it."""

AGTP_JSON_OLD = "application/agtp+json"
"""The name before v07: read, never sent."""

IDENTITY_JSON = "application/vnd.agtp.identity+json"
"""An Agent Identity Document."""

IDENTITY_YAML = "application/vnd.agtp.identity+yaml"
"""The same as YAML."""

MANIFEST_JSON = "application/vnd.agtp.manifest+json"
"""A server manifest."""

ENDPOINT_JSON = "application/vnd.agtp.endpoint+json"
"""An endpoint definition."""

JSON = "application/json"
YAML = "application/yaml"
AGIS = "application/agis"
"""An AGIS document, as JSON (AGIS v01 section 16)."""

AGIS_YAML = "application/agis+yaml"
"""The same as YAML."""

OPENAPI = "application/vnd.oai.openapi+json"
"""Read wherever a JSON body is."""

MCP_TOOLS = "application/vnd.mcp.tools+json"
"""An MCP tool call carried by EXECUTE: core v08 appendix D."""

A2A = "application/a2a+json"
"""A call to an A2A agent carried by EXECUTE (core v08 section 8.4): the type of its HTTP+JSON binding."""

ACP_RUN = "application/vnd.acp.run+json"
"""A call to an ACP server carried by EXECUTE: our name, ACP itself has none."""

JSON_BODIES = frozenset({AGTP_JSON, AGTP_JSON_OLD, JSON, IDENTITY_JSON, MANIFEST_JSON, ENDPOINT_JSON})
"""What a request body that is not a carried payload may be labelled."""

_CARRIED = frozenset({MCP_TOOLS, A2A, ACP_RUN})

_WEIGHT = re.compile(r"(?:q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?", re.ASCII | re.IGNORECASE)


def essence(content_type: str) -> str:
    """
    Return a media type without its parameters, in lower case.

    :param content_type: a Content-Type value such as ``Application/JSON; charset=utf-8``.
    """
    if content_type in _CARRIED or content_type in JSON_BODIES:
        return content_type  # As nearly all clients write it.
    return content_type.partition(";")[0].strip(" \t").lower()


def choose_form(header: str | None, otherwise: str, forms: Mapping[str, str]) -> str:
    """
    Choose the form that an Accept field prefers: the greatest weight, and among equals the first.

    :param header: as in RFC 9110 section 12.5.1; what is malformed or not known in it is passed over.
    :param otherwise: the usual form, also where the field names none that is known.
    :param forms: the form by media type.
    """
    best, form = 0.0, otherwise
    for part in (header or "")[:1_000].split(","):
        essence, _, parameters_ = part.partition(";")
        named = essence.strip().lower()
        found = forms.get(named)
        weight = _WEIGHT.fullmatch(parameters_.strip().replace(" ", ""))
        if found is not None and weight is not None and float(weight[1] or 1) > best:
            best, form = float(weight[1] or 1), found or otherwise
    return form
