"""Methods and paths that the host itself is bound to; no endpoint may be declared there (AGTP-API section 5.9)."""

from __future__ import annotations

DISCOVERY = ("/", "/agents", "/genesis", "/methods", "/tools")
"""The reserved DISCOVER paths that this host serves."""

LIFECYCLE = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")
"""The lifecycle methods of core v08 sections 7.2.14 to 7.2.18, each on ``/``."""

RESERVED = (
    *(("DISCOVER", path) for path in DISCOVERY),
    *(("DESCRIBE", path) for path in ("/", "/agents", "/agents/{name}", "/agents/{name}/status")),
    ("QUERY", "/agents"),
    ("INSPECT", "/"),
    ("EXECUTE", "/"),
    ("EXECUTE", "/mcp/{server}"),
    *((method, "/") for method in LIFECYCLE),
)
"""All of them, as the endpoint rules take them."""
