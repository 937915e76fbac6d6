"""
The server manifest: a signed document of what a host offers (AGTP-API section 8).

The functions are pure: the time and the version are arguments, so the same facts give the same octets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import BINDINGS, REGISTERED, contract_of
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy
from agtphost.identity.agents import Agent
from agtphost.identity.cached_encoding import EncodedItem, ItemWriter, canonical_pieces, encode_item
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
    "content_digest_steps",
    "encode_all",
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
"""Octets that are hashed in one step."""

_ANY_OBJECT: Mapping[str, Any] = {"type": "object", "additionalProperties": True}


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """The ``server`` block (AGTP-API section 8.3), and the document's own version."""

    server_id: str
    """Identifier that stays the same over revisions."""

    operator: str
    contact: str
    issued: str
    """RFC 3339: when this host first published a manifest."""

    updated: str
    """RFC 3339: when its content last changed."""

    document_version: str
    """Changes whenever :func:`content_digest` does."""

    domain: str | None = None
    """The host's domain, if ``server_id`` does not contain it."""

    supported_features: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """The disclosure of hosted agents to a reader (AGTP-API section 8.5)."""

    level: str = "public"
    """``public``, ``authenticated`` or ``private``."""

    notice: str | None = None
    agents: Sequence[Agent] = ()
    """Agents that this reader may see."""

    @property
    def visible_agents(self) -> Sequence[Agent]:
        """Return the agents; none if the level is ``private``, for every reader."""
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
        """Return the manifest's form."""
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
    """Further offers of a server (AGTP-API section 8.6)."""

    apis: Sequence[Mapping[str, Any]] = ()
    """Legacy HTTP APIs: the entries of ``apis``."""

    hosted_protocols: Sequence[Mapping[str, Any]] = ()
    """The payload adapters' entries of their upstreams."""

    data_classes: Sequence[Mapping[str, Any]] = ()
    """The entries of ``data_manifest.available_data`` (AGIS v01 section 8.3)."""

    negotiable: bool = False
    """Whether endpoints can be negotiated; without this and data classes the manifest has no ``data_manifest``."""

    negotiated: Sequence[Mapping[str, Any]] = ()
    """Definitions of negotiated endpoints that are permanent (AGTP-API section 10.8)."""

    directory: Sequence[str] = ()
    """Paths of the server's own DISCOVER documents (spec reading 35)."""

    transports: Sequence[Mapping[str, Any]] = ()
    """The carriers to choose from (spec reading 73); without any the manifest has no ``transports``: TLS alone."""


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
    Return the unsigned manifest.

    :param endpoints: the operator's endpoints.
    :param built_ins: the host's own bindings, which are published like the others.
    :param signing_keys: keys that verify records and this manifest.
    :param earlier_keys: keys that verify older records, and until when each was in use (RFC 3339).
    :param versions_supported: versions of the catalog; empty: only that of ``catalog``.
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
        "hosted_agents": [project_agent(agent) for agent in disclosure.visible_agents],
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
    if surface.transports:
        manifest["transports"] = [dict(entry) for entry in surface.transports]
    manifest[SIGNATURE] = None
    return manifest


def project_all(
    built_ins: Sequence[Binding], endpoints: Sequence[Endpoint], catalog: Catalog
) -> Iterator[dict[str, Any]]:
    """Yield the manifest's form of the host's own endpoints, and of the operator's."""
    yield from (project_binding(binding, catalog) for binding in built_ins)
    yield from (endpoint.projection() for endpoint in endpoints)


def encode_all(
    built_ins: Sequence[Binding], endpoints: Sequence[Endpoint], catalog: Catalog, writer: ItemWriter
) -> Iterator[EncodedItem]:
    """Yield :func:`project_all` with its encodings; most built-ins were encoded for an earlier configuration."""
    for binding in built_ins:
        plain = binding.input_schema is None and binding.output_schema is None and "semantic" not in binding.details
        yield (
            _encode_built_in(_facts_of(binding), catalog) if plain else writer.item(project_binding(binding, catalog))
        )
    yield from (writer.item(endpoint.projection()) for endpoint in endpoints)


class _BuiltInFacts(NamedTuple):
    """The members of a built-in's entry that its binding decides, besides schemas and semantics."""

    method: str
    path: str
    statement: str
    tier: str
    state_changing: bool
    idempotent: bool
    errors: frozenset[str]
    kind: str
    required_scopes: tuple[str, ...]
    min_assurance: str


def _facts_of(binding: Binding) -> _BuiltInFacts:
    return _BuiltInFacts(
        binding.method,
        binding.path,
        binding.description,
        binding.tier,
        binding.state_changing,
        binding.idempotent,
        binding.errors,
        str(binding.handler.kind),
        tuple(binding.required_scopes),
        binding.min_assurance.label,
    )


def project_binding(binding: Binding, catalog: Catalog) -> dict[str, Any]:
    """
    Return a binding of the host itself as the manifest shows it.

    Its contract provides input and outcome, the catalog whether it is idempotent (core v08 section 7.2.20), and the
    binding the rest. As for every endpoint, details of the handler are not published (AGTP-API section 8.9).
    """
    found = _project(_facts_of(binding), catalog)
    found["semantic"] |= binding.details.get("semantic", {})
    if binding.input_schema is not None:
        found["input_schema"] = binding.input_schema.schema
    if binding.output_schema is not None:
        found["output_schema"] = binding.output_schema.schema
    return found


@lru_cache(maxsize=1024)
def _encode_built_in(facts: _BuiltInFacts, catalog: Catalog) -> EncodedItem:
    return encode_item(_project(facts, catalog))


def _project(facts: _BuiltInFacts, catalog: Catalog) -> dict[str, Any]:
    entry, contract = catalog.entry(facts.method), contract_of(facts.method, facts.path)
    floor = None if entry is None else entry.floor
    told = None if floor is None else floor["idempotent"]
    statement = facts.statement or catalog.statement(facts.method)
    return {
        "method": facts.method,
        "path": facts.path,
        "description": statement,
        "tier": facts.tier,
        "semantic": {
            "intent": statement,
            "actor": "agent",
            "outcome": contract.outcome,
            "capability": entry.categories[0] if entry is not None else "mechanics",
            "confidence": 1.0,
            "impact": (contract.impact or "reversible") if facts.state_changing else "informational",
            # EXECUTE depends on its action, so it is never published as idempotent.
            "is_idempotent": facts.idempotent if told is None else told is True,
        },
        "input_schema": contract.input_schema(facts.path),
        "output_schema": _ANY_OBJECT,
        "errors": sorted(facts.errors),
        "handler": {"type": facts.kind if facts.kind in BINDINGS else REGISTERED},
        "required_scopes": list(facts.required_scopes),
        "min_assurance": facts.min_assurance,
    }


def project_agent(agent: Agent) -> dict[str, Any]:
    """Return an agent as the manifest shows it (AGTP-API section 8.5)."""
    return {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": agent.description,
        "trust_tier": agent.posture.trust_tier,
        "uri": f"/agents/{agent.name}",
    }


def surface_digest(manifest: Mapping[str, Any]) -> str:
    """
    Return the SHA-256, in hex, of the content whose changes ``AGTP-API-Version`` counts (core v08 section 7.6).

    These are endpoints with their semantic declarations, custom methods and data classes. The operator, policies and
    agents change the manifest, but not what can be called.
    """
    counted = {name: manifest.get(name) for name in ("endpoints", "custom_methods", "data_manifest")}
    return _digest(counted)


def content_digest(manifest: Mapping[str, Any]) -> str:
    """
    Return the SHA-256, in hex, of a manifest's content without version, times and signature.

    ``document_version`` and the ETag follow it (AGTP-API section 8.11).
    """
    return run_to_end(content_digest_steps(manifest))


def content_digest_steps(manifest: Mapping[str, Any]) -> Generator[None, None, str]:
    """Compute :func:`content_digest` in steps of some milliseconds."""
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
