"""Media types: core v08 sections 5.7 and 11.4; the carried ones are ours (vendor tree)."""

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


def essence(content_type: str) -> str:
    """
    Return a media type without its parameters, in lower case.

    :param content_type: a Content-Type value such as ``Application/JSON; charset=utf-8``.
    """
    if content_type in _CARRIED or content_type in JSON_BODIES:
        return content_type  # As nearly all clients write it.
    return content_type.partition(";")[0].strip(" \t").lower()
