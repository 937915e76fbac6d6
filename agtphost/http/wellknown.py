"""
The bootstrap document of ``https://DOMAIN/.well-known/agtp``: core v08 section 6.1 (RFC 8615).

Over HTTPS only: under AGTP such a path is like any other (spec reading 13).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agtphost.contract.manifest import AGTP_VERSION
from agtphost.vocabulary.uris import DEFAULT_PORT, AgtpUri, Form

PATH = "/.well-known/agtp"


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """What a domain says of its AGTP presence."""

    domain: str
    """The DNS domain that agents' URIs name."""

    host: str
    """Where AGTP is spoken; often the domain itself."""

    port: int = DEFAULT_PORT
    dns_anchor: str | None = None
    """Name of the DNS record that anchors the domain."""

    log_anchor: str | None = None
    """URL of the transparency log that anchors it."""

    issuer: str | None = None
    """URL of who issues the agents' documents."""

    updated_at: str
    """RFC 3339: when any of this last changed."""

    @property
    def endpoint(self) -> str:
        """Where AGTP traffic goes: with ``/agents``, unless a port makes it the URI of a server."""
        if self.port != DEFAULT_PORT:
            return str(AgtpUri(form=Form.SERVER, host=self.host, port=self.port))
        return str(AgtpUri(form=Form.NAMESPACE, host=self.host))

    @property
    def namespace(self) -> str:
        """The Agent Namespace Document, on whichever port it is served."""
        return str(AgtpUri(form=Form.NAMESPACE, host=self.host, port=self.port))

    @property
    def root(self) -> str:
        """What the URIs of the domain's agents begin with."""
        return str(AgtpUri(form=Form.NAMESPACE, host=self.domain))


def bootstrap_document(namespace: Namespace) -> dict[str, Any]:
    """The document's members, in the draft's order."""
    return {
        "agtp_version": AGTP_VERSION,
        "endpoint": namespace.endpoint,
        "namespace_root": namespace.root,
        "verification": {"dns_anchor": namespace.dns_anchor, "log_anchor": namespace.log_anchor},
        "issuer": namespace.issuer,
        "discovery": {"namespace_document": namespace.namespace, "well_known_updated_at": namespace.updated_at},
    }


def encoded(namespace: Namespace) -> bytes:
    """The document as served: for people to read too."""
    return json.dumps(bootstrap_document(namespace), indent=2).encode() + b"\n"
