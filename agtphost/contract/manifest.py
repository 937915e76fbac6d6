"""
The server manifest: what a host says it offers (AGTP-API section 8).

Pure: everything comes in as arguments, the time and the version included, so
that the same facts give the same octets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import BINDINGS, REGISTERED, contract_of
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy
from agtphost.identity.agents import Agent
from agtphost.identity.kept_forms import canonical_pieces
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.manifest_signature import SIGNATURE, sign_manifest, verify_manifest
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.steps import run_to_end

__all__ = [
    "AGTP_API_VERSION",
    "AGTP_VERSION",
    "SIGNATURE",
    "Disclosure",
    "Policies",
    "ServerFacts",
    "Surface",
    "build_manifest",
    "content_digest",
    "digesting",
    "project_agent",
    "project_all",
    "project_binding",
    "sign_manifest",
    "surface_digest",
    "verify_manifest",
]

AGTP_VERSION = "1.0"
AGTP_API_VERSION = "1.0"

DIGESTED = 1 << 20
"""Octets of which a digest is made in one step."""

_ANY_OBJECT: Mapping[str, Any] = {"type": "object", "additionalProperties": True}


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


@dataclass(frozen=True, kw_only=True)
class Surface:
    """What else a server has to offer (AGTP-API section 8.6)."""

    apis: Sequence[Mapping[str, Any]] = ()
    """Legacy HTTP APIs: the entries of ``apis``."""

    hosted_protocols: Sequence[Mapping[str, Any]] = ()
    """What the payload adapters say of their upstreams."""

    data_classes: Sequence[Mapping[str, Any]] = ()
    """The entries of ``data_manifest.available_data`` (AGIS v01 section 8.3)."""

    negotiable: bool = False
    """Whether endpoints can be negotiated; without it and without data classes there is no ``data_manifest``."""

    negotiated: Sequence[Mapping[str, Any]] = ()
    """Definitions of endpoints that were negotiated to stay (AGTP-API section 10.8)."""

    directory: Sequence[str] = ()
    """Paths of the server's own DISCOVER documents (spec reading 35)."""


def build_manifest(
    facts: ServerFacts,
    *,
    catalog: Catalog,
    policies: Policies,
    disclosure: Disclosure,
    endpoints: Sequence[Endpoint] = (),
    built_ins: Sequence[Binding] = (),
    surface: Surface = Surface(),
    signing_keys: Sequence[VerifyingKey] = (),
    earlier_keys: Sequence[tuple[VerifyingKey, str]] = (),
    versions_supported: Sequence[str] = (),
) -> dict[str, Any]:
    """
    The manifest, unsigned.

    :param endpoints: the operator's.
    :param built_ins: the host's own bindings, which are published like any other.
    :param signing_keys: what records and this manifest are verified with.
    :param earlier_keys: what older records are verified with, and until when it was in use (RFC 3339).
    :param versions_supported: of the catalog; empty means that of ``catalog`` alone.
    """
    manifest: dict[str, Any] = {
        "agtp_version": AGTP_VERSION,
        "agtp_api_version": AGTP_API_VERSION,
        "document_version": facts.document_version,
        "catalog_version": catalog.version,
        "catalog_versions_supported": list(versions_supported) or [catalog.version],
        "server": {
            "server_id": facts.server_id,
            "domain": facts.domain,
            "operator": facts.operator,
            "contact": facts.contact,
            "supported_features": list(facts.supported_features),
            "issued": facts.issued,
            "updated": facts.updated,
            "signing_keys": [
                *({"kid": key.kid, "alg": "EdDSA", "key": key.text} for key in signing_keys),
                *({"kid": key.kid, "alg": "EdDSA", "key": key.text, "not_after": until} for key, until in earlier_keys),
            ],
        },
        "embedded_methods": list(catalog.embedded),
        "custom_methods": sorted(policies.methods.custom),
        "endpoints": [
            *project_all(built_ins, endpoints, catalog),
            *(dict(definition) for definition in surface.negotiated),
        ],
        "agent_disclosure": disclosure.level,
        "hosted_agents": [project_agent(agent) for agent in disclosure.shown],
        "agent_disclosure_notice": disclosure.notice,
        "apis": [dict(entry) for entry in surface.apis],
        "hosted_protocols": [dict(entry) for entry in surface.hosted_protocols],
        "policies": policies.document(),
        "directory": [{"path": path, "tier": "A"} for path in surface.directory],
    }
    if surface.data_classes or surface.negotiable:
        manifest["data_manifest"] = {
            "available_data": [dict(entry) for entry in surface.data_classes],
            "pre_auth_discovery": policies.anonymous_discovery,
            "negotiable": surface.negotiable,
        }
    manifest[SIGNATURE] = None
    return manifest


def project_all(
    built_ins: Sequence[Binding], endpoints: Sequence[Endpoint], catalog: Catalog
) -> Iterator[dict[str, Any]]:
    """The host's own endpoints, and the operator's."""
    yield from (project_binding(binding, catalog) for binding in built_ins)
    yield from (endpoint.projection() for endpoint in endpoints)


def project_binding(binding: Binding, catalog: Catalog) -> dict[str, Any]:
    """
    A binding of the host's own as the manifest shows it.

    Its contract says what it takes and leaves behind, the catalog whether it may be repeated (core v08 section
    7.2.20), and the rest follows from the binding itself; a handler's details stay inside, as for any endpoint
    (AGTP-API section 8.9).
    """
    entry, contract = catalog.entry(binding.method), contract_of(binding.method, binding.path)
    floor = None if entry is None else entry.floor
    told = None if floor is None else floor["idempotent"]
    kind = str(binding.handler.kind)
    statement = binding.description or catalog.statement(binding.method)
    return {
        "method": binding.method,
        "path": binding.path,
        "description": statement,
        "tier": binding.tier,
        "semantic": {
            "intent": statement,
            "actor": "agent",
            "outcome": contract.outcome,
            "capability": entry.categories[0] if entry is not None else "mechanics",
            "confidence": 1.0,
            "impact": (contract.impact or "reversible") if binding.state_changing else "informational",
            # EXECUTE is as its action is: nobody is told that it may be repeated.
            "is_idempotent": binding.idempotent if told is None else told is True,
            **binding.details.get("semantic", {}),
        },
        "input_schema": (
            contract.input_schema(binding.path) if binding.input_schema is None else binding.input_schema.schema
        ),
        "output_schema": binding.output_schema.schema if binding.output_schema is not None else _ANY_OBJECT,
        "errors": sorted(binding.errors),
        "handler": {"type": kind if kind in BINDINGS else REGISTERED},
        "required_scopes": list(binding.required_scopes),
        "min_assurance": binding.min_assurance.label,
    }


def project_agent(agent: Agent) -> dict[str, Any]:
    """An agent as the manifest shows it (AGTP-API section 8.5)."""
    return {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": agent.description,
        "trust_tier": agent.posture.trust_tier,
        "uri": f"/agents/{agent.name}",
    }


def surface_digest(manifest: Mapping[str, Any]) -> str:
    """
    SHA-256, hex, of what ``AGTP-API-Version`` counts the changes of (core v08 section 7.6).

    Endpoints with their semantic declarations, custom methods and data classes.
    Nothing else: who operates the host, its policies and its agents change the
    manifest, and not what can be called.
    """
    counted = {name: manifest.get(name) for name in ("endpoints", "custom_methods", "data_manifest")}
    return _digest(counted)


def content_digest(manifest: Mapping[str, Any]) -> str:
    """
    SHA-256, hex, of what a manifest says: the same for two that differ in version, times and signature only.

    What ``document_version`` and the ETag follow (AGTP-API section 8.11).
    """
    return run_to_end(digesting(manifest))


def digesting(manifest: Mapping[str, Any]) -> Generator[None, None, str]:
    """The same in steps of some milliseconds."""
    content = {name: value for name, value in manifest.items() if name not in (SIGNATURE, "document_version")}
    server = manifest["server"]
    content["server"] = {name: value for name, value in server.items() if name not in ("issued", "updated")}
    return _digest_steps(content)


def _digest(document: Mapping[str, Any]) -> str:
    return run_to_end(_digest_steps(document))


def _digest_steps(document: Mapping[str, Any]) -> Generator[None, None, str]:
    digest = hashlib.sha256()
    octets = 0
    for piece in canonical_pieces(document):
        digest.update(piece)
        octets += len(piece)
        if octets > DIGESTED:
            octets = 0
            yield
    return digest.hexdigest()
