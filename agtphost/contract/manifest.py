"""
The server manifest: what a host says it offers (AGTP-API section 8).

Pure: everything comes in as arguments, the time and the version included, so
that the same facts give the same octets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy
from agtphost.identity import jws
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary.catalog import Catalog

AGTP_VERSION = "1.0"
AGTP_API_VERSION = "1.0"

SIGNATURE = "manifest_signature"

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """The ``server`` block (AGTP-API section 8.3), and the document's own version."""

    server_id: str
    """Stable over revisions."""

    operator: str
    contact: str
    issued: str
    """RFC 3339: when this host first published a manifest."""

    updated: str
    """RFC 3339: when its content last changed."""

    document_version: str
    """Changes whenever :func:`content_digest` does."""

    domain: str | None = None
    """Where the host is reached, if ``server_id`` does not say."""

    supported_features: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """Who may see which agents are hosted (AGTP-API section 8.5)."""

    level: str = "public"
    """``public``, ``authenticated`` or ``private``."""

    notice: str | None = None
    agents: Sequence[Agent] = ()
    """Those this reader is entitled to see."""

    @property
    def shown(self) -> Sequence[Agent]:
        """None where the level is ``private``, whoever asks."""
        return self.agents if self.level != "private" else ()


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The ``policies`` block (AGTP-API section 8.7)."""

    methods: MethodPolicy
    wildcards_accepted: bool = False
    anonymous_discovery: bool = True
    scope_required_for_invocation: bool = True
    synthesis_enabled: bool = False
    max_synthesis_depth: int = 10

    def document(self) -> dict[str, Any]:
        """The manifest's form."""
        return {
            "wildcards_accepted": self.wildcards_accepted,
            "anonymous_discovery": self.anonymous_discovery,
            "scope_required_for_invocation": self.scope_required_for_invocation,
            "synthesis_enabled": self.synthesis_enabled,
            "max_synthesis_depth": self.max_synthesis_depth,
            "methods": self.methods.document(),
        }


def build_manifest(
    facts: ServerFacts,
    *,
    catalog: Catalog,
    policies: Policies,
    disclosure: Disclosure,
    endpoints: Sequence[Endpoint] = (),
    built_ins: Sequence[Binding] = (),
    hosted_protocols: Sequence[Mapping[str, Any]] = (),
    signing_keys: Sequence[VerifyingKey] = (),
) -> dict[str, Any]:
    """
    The manifest, unsigned.

    :param endpoints: the operator's.
    :param built_ins: the host's own bindings, which are published like any other.
    :param hosted_protocols: what the payload adapters say of their upstreams.
    :param signing_keys: what records and this manifest are verified with.
    """
    manifest: dict[str, Any] = {
        "agtp_version": AGTP_VERSION,
        "agtp_api_version": AGTP_API_VERSION,
        "document_version": facts.document_version,
        "catalog_version": catalog.version,
        "catalog_versions_supported": [catalog.version],
        "server": {
            "server_id": facts.server_id,
            "domain": facts.domain,
            "operator": facts.operator,
            "contact": facts.contact,
            "supported_features": list(facts.supported_features),
            "issued": facts.issued,
            "updated": facts.updated,
            "signing_keys": [{"kid": key.kid, "alg": "EdDSA", "key": key.text} for key in signing_keys],
        },
        "embedded_methods": list(catalog.embedded),
        "custom_methods": sorted(policies.methods.custom),
        "endpoints": [
            *(project_binding(binding, catalog) for binding in built_ins),
            *(endpoint.projection() for endpoint in endpoints),
        ],
        "agent_disclosure": disclosure.level,
        "hosted_agents": [_agent(agent) for agent in disclosure.shown],
        "agent_disclosure_notice": disclosure.notice,
        "apis": [],
        "hosted_protocols": [dict(entry) for entry in hosted_protocols],
        "policies": policies.document(),
    }
    manifest[SIGNATURE] = None
    return manifest


def project_binding(binding: Binding, catalog: Catalog) -> dict[str, Any]:
    """
    A binding of the host's own as the manifest shows it.

    Its semantic block says what follows from the binding itself; a handler's
    details stay inside, as for any endpoint (AGTP-API section 8.9).
    """
    entry = catalog.entry(binding.method)
    statement = binding.description or (entry.description if entry is not None else binding.method)
    return {
        "method": binding.method,
        "path": binding.path,
        "description": statement,
        "tier": binding.tier,
        "semantic": {
            "intent": statement,
            "actor": "agent",
            "outcome": "The response carries the result, and its Attribution-Record proves it.",
            "capability": entry.categories[0] if entry is not None else "mechanics",
            "confidence": 1.0,
            "impact": "reversible" if binding.state_changing else "informational",
            "is_idempotent": binding.idempotent,
            **binding.details.get("semantic", {}),
        },
        "input_schema": binding.input_schema.schema if binding.input_schema is not None else _ANY_OBJECT,
        "output_schema": binding.output_schema.schema if binding.output_schema is not None else _ANY_OBJECT,
        "errors": sorted(binding.errors),
        "handler": {"type": str(binding.handler.kind)},
        "required_scopes": list(binding.required_scopes),
        "min_assurance": binding.min_assurance.label,
    }


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": agent.description,
        "trust_tier": agent.posture.trust_tier,
        "uri": f"/agents/{agent.name}",
    }


def content_digest(manifest: Mapping[str, Any]) -> str:
    """
    SHA-256, hex, of what a manifest says: the same for two that differ in version, times and signature only.

    What ``document_version`` and the ETag follow (AGTP-API section 8.11).
    """
    content = {name: value for name, value in manifest.items() if name not in (SIGNATURE, "document_version")}
    server = manifest["server"]
    content["server"] = {name: value for name, value in server.items() if name not in ("issued", "updated")}
    return hashlib.sha256(canonical(content)).hexdigest()


def sign_manifest(manifest: Mapping[str, Any], signer: Signer | None) -> dict[str, Any]:
    """
    The manifest with its signature: a JWS over the canonical form of the rest (companion section 3.3).

    :param signer: None leaves the member null.
    """
    body = {name: value for name, value in manifest.items() if name != SIGNATURE}
    signed = None
    if signer is not None:
        signed = jws.compact(jws.protected_header(signer, jws.MANIFEST_TYPE), canonical(body), signer)
    return {**body, SIGNATURE: signed}


def verify_manifest(manifest: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> None:
    """
    Check that a manifest is what its signature covers.

    :param keys: by ``kid``; from somewhere other than the manifest itself, or it proves nothing.
    :raises agtphost.identity.jws.JWSError: where it is unsigned, or signed otherwise.
    """
    signature = manifest.get(SIGNATURE)
    if not isinstance(signature, str):
        raise jws.JWSError("unsigned", "the manifest is not signed")
    body = canonical({name: value for name, value in manifest.items() if name != SIGNATURE})
    if jws.verify_covering(signature, body, keys, typ=jws.MANIFEST_TYPE) is not None:
        return
    covered = jws.verify(signature, keys, typ=jws.MANIFEST_TYPE)
    if canonical(covered) != body:
        raise jws.JWSError("signature", "the manifest is not the one that was signed")
