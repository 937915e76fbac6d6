"""
Build the bootstrap document of ``https://DOMAIN/.well-known/agtp``: core v08 section 6.1 (RFC 8615).

It is served only over HTTPS: in AGTP such a path is like any other (spec reading 13).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agtphost.contract.manifest import AGTP_VERSION
from agtphost.vocabulary.uris import DEFAULT_PORT, AgtpUri, Form

PATH = "/.well-known/agtp"


@dataclass(frozen=True, kw_only=True)
class DomainFacts:
    """The facts about a domain's AGTP presence."""

    domain: str
    """The DNS domain in agents' URIs."""

    host: str
    """The host that speaks AGTP; often the domain itself."""

    port: int = DEFAULT_PORT
    dns_anchor: str | None = None
    """The name of the DNS record that anchors the domain."""

    log_anchor: str | None = None
    """The URL of the transparency log that anchors it."""

    issuer: str | None = None
    """The URL of the issuer of the agents' documents."""

    updated_at: str
    """RFC 3339: when any of this last changed."""

    @property
    def endpoint(self) -> str:
        """Return the URI for AGTP traffic: with ``/agents``, or the URI of a server if the port is not the default."""
        if self.port != DEFAULT_PORT:
            return str(AgtpUri(form=Form.SERVER, host=self.host, port=self.port))
        return str(AgtpUri(form=Form.NAMESPACE, host=self.host))

    @property
    def namespace(self) -> str:
        """Return the URI of the Agent Namespace Document."""
        return str(AgtpUri(form=Form.NAMESPACE, host=self.host, port=self.port))

    @property
    def root(self) -> str:
        """
        Return the prefix of the URIs of the domain's agents.

        It has the port if the domain is the host itself: without it such a URI leads to the default port. A domain that
        is served elsewhere has no port; :attr:`endpoint` has host and port.
        """
        port = self.port if self.host == self.domain else DEFAULT_PORT
        return str(AgtpUri(form=Form.NAMESPACE, host=self.domain, port=port))


def bootstrap_document(namespace: DomainFacts) -> dict[str, Any]:
    """Return the document's members, in the draft's order."""
    return {
        "agtp_version": AGTP_VERSION,
        "endpoint": namespace.endpoint,
        "namespace_root": namespace.root,
        "verification": {"dns_anchor": namespace.dns_anchor, "log_anchor": namespace.log_anchor},
        "issuer": namespace.issuer,
        "discovery": {"namespace_document": namespace.namespace, "well_known_updated_at": namespace.updated_at},
    }


def encode_document(namespace: DomainFacts) -> bytes:
    """Return the document as served, indented for people."""
    return json.dumps(bootstrap_document(namespace), indent=2).encode() + b"\n"
