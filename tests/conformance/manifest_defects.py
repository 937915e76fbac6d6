"""For every rule of manifests, a host whose manifest breaks it and no other: signed and sealed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agtphost.identity.manifest_signature import SIGNATURE, sign_manifest
from agtphost.vocabulary.media_types import MANIFEST_JSON
from tests.conformance.defects import Answers, Defect, Passing, Seal

Document = dict[str, Any]
Change = Callable[[Document], object]


def operators(document: Document) -> Document:
    """An endpoint that is not the server's own, without parameters in its path."""
    found: Document = next(
        each for each in document["endpoints"] if each.get("tier") != "A" and "{" not in each["path"]
    )
    return found


def own(document: Document, method: str) -> Document:
    """One that is."""
    endpoints = document["endpoints"]
    found: Document = next(each for each in endpoints if each.get("tier") == "A" and each["method"] == method)
    return found


def without(name: str) -> Change:
    return lambda document: document.pop(name)


def member(name: str, value: Any) -> Change:
    return lambda document: document.update({name: value})


def of(part: str, name: str, value: Any) -> Change:
    """A member of a block; ``...``: taken out."""

    def change(document: Document) -> None:
        block = operators(document) if part == "endpoint" else document[part]
        if value is ...:
            del block[name]
        else:
            block[name] = value

    return change


def of_endpoint(part: str, name: str, value: Any) -> Change:
    """A member of a block of an operator's endpoint."""

    def change(document: Document) -> None:
        block = operators(document)[part]
        if value is ...:
            del block[name]
        else:
            block[name] = value

    return change


def methods(**members: Any) -> Change:
    return lambda document: document["policies"].setdefault("methods", {}).update(members)


def property_of_input(schema: Any) -> Change:
    return lambda document: operators(document)["input_schema"].setdefault("properties", {}).update(more=schema)


def same_outcome(document: Document) -> None:
    document_of, query = own(document, "DISCOVER"), own(document, "QUERY")
    query["semantic"]["outcome"] = document_of["semantic"]["outcome"]


def template(document: Document) -> None:
    operators(document)["path"] += "/prefix-{id}"


def undeclared(document: Document) -> None:
    operators(document)["path"] += "/{undeclared}"


def again(document: Document) -> None:
    document["endpoints"].append(operators(document))


def run_of_anything(document: Document) -> None:
    endpoint = operators(document)
    endpoint["method"] = "RUN"
    endpoint["input_schema"] = {"type": "object", "additionalProperties": False, "properties": {}}
    endpoint["path"] = "/anything"


def reserved(document: Document) -> None:
    operators(document).update(method="DISCOVER", path="/methods/ours")
    operators(document)["input_schema"] = {"type": "object", "additionalProperties": False}


def taken_over(document: Document) -> None:
    """As an operator's that carries no errors of an external service."""
    endpoint = operators(document)
    endpoint["handler"] = {"type": "external_service"}
    endpoint["errors"] = []


IN_MANIFEST: Mapping[str, Change] = {
    "method-name.endpoint": of("endpoint", "method", "qu"),
    "method-name.listed": member("custom_methods", ["X1"]),
    "legacy-verb.custom": member("custom_methods", ["DELETE"]),
    "legacy-verb.endpoint": of("endpoint", "method", "GET"),
    "catalog-version.current": without("catalog_version"),
    "catalog-version.supported": lambda document: document["catalog_versions_supported"].append("newest"),
    "catalog-version.included": member("catalog_versions_supported", ["0.0.1"]),
    "catalog-versions.single": lambda document: document["catalog_versions_supported"].append("0.0.1"),
    "path-grammar.template": template,
    "path-parameter.declared": undeclared,
    "reserved-path.discover": reserved,
    "endpoint-tier.letter": of("endpoint", "tier", "D"),
    "endpoint-unique.object": lambda document: document["endpoints"].append("QUERY /"),
    "endpoint-unique.pair": again,
    "endpoint-identity.method": of("endpoint", "method", ...),
    "endpoint-identity.path": of("endpoint", "path", ...),
    "endpoint-identity.description": of("endpoint", "description", ""),
    "endpoint-contract.input-schema": of("endpoint", "input_schema", []),
    "endpoint-contract.output-schema": of("endpoint", "output_schema", ...),
    "endpoint-contract.dialect": of_endpoint("input_schema", "$schema", "http://json-schema.org/draft-07/schema#"),
    "endpoint-contract.references": property_of_input({"$ref": "https://schemas.example/thing"}),
    "endpoint-contract.schema": property_of_input({"type": "letter"}),
    "endpoint-contract.input-type": of_endpoint("input_schema", "type", "array"),
    "endpoint-contract.method-parameters": run_of_anything,
    "endpoint-contract.method-known": of("endpoint", "method", "FROBNICATE"),
    "endpoint-contract.errors": of("endpoint", "errors", "not_today"),
    "endpoint-contract.handler": of("endpoint", "handler", {}),
    "endpoint-contract.required-scopes": of("endpoint", "required_scopes", "documents:query"),
    "endpoint-contract.namespace": of("endpoint", "namespace", 7),
    "endpoint-deprecation.object": of("endpoint", "deprecated", True),
    "endpoint-deprecation.deprecated-in": of("endpoint", "deprecated", {}),
    "endpoint-deprecation.removed-in": of("endpoint", "deprecated", {"deprecated_in": "1.0", "removed_in": 2}),
    "endpoint-deprecation.successor": of("endpoint", "deprecated", {"deprecated_in": "1.0", "successor": "QUERY"}),
    "semantic-block.object": of("endpoint", "semantic", "to find things"),
    "semantic-block.intent": of_endpoint("semantic", "intent", ...),
    "semantic-block.actor": of_endpoint("semantic", "actor", 5),
    "semantic-block.outcome": of_endpoint("semantic", "outcome", "two\nlines"),
    "semantic-block.capability": of_endpoint("semantic", "capability", "sorcery"),
    "semantic-block.confidence": of_endpoint("semantic", "confidence", 1.5),
    "semantic-block.impact": of_endpoint("semantic", "impact", "huge"),
    "semantic-block.is-idempotent": of_endpoint("semantic", "is_idempotent", "yes"),
    "semantic-block.mcp-tool-name": of_endpoint("semantic", "mcp_tool_name", "Find Orders"),
    "semantic-block.parameter-hints": of_endpoint("semantic", "parameter_hints", {"query": "what to look for"}),
    "semantic-block.own-effects": same_outcome,
    "manifest-structure.agtp-version": member("agtp_version", "2.0"),
    "manifest-structure.agtp-api-version": without("agtp_api_version"),
    "manifest-structure.document-version": member("document_version", 7),
    "manifest-structure.data-manifest": member("data_manifest", {"available_data": [{"name": "customers"}]}),
    "server-block.object": without("server"),
    "server-block.server-id": of("server", "server_id", ""),
    "server-block.operator": of("server", "operator", ...),
    "server-block.contact": of("server", "contact", None),
    "server-block.domain": of("server", "domain", 5),
    "server-block.supported-features": of("server", "supported_features", "all"),
    "server-block.issued": of("server", "issued", "yesterday"),
    "server-block.updated": of("server", "updated", "2026-01-01"),
    "server-block.order": of("server", "updated", "1999-01-01T00:00:00Z"),
    "method-inventory.embedded": without("embedded_methods"),
    "method-inventory.floor": lambda document: document["embedded_methods"].pop(),
    "method-inventory.floor-only": lambda document: document["embedded_methods"].append("BOOK"),
    "method-inventory.custom": member("custom_methods", {}),
    "agent-disclosure.level": member("agent_disclosure", "secret"),
    "agent-disclosure.agents": member("hosted_agents", {}),
    "agent-disclosure.private": member("agent_disclosure", "private"),
    "agent-disclosure.notice": member("agent_disclosure_notice", 4),
    "protocol-surface.apis": member("apis", ["https://api.example"]),
    "protocol-surface.protocols": member("hosted_protocols", {}),
    "protocol-surface.protocol-members": member("hosted_protocols", [{"protocol": "MCP", "path": "/"}]),
    "policies-block.object": without("policies"),
    "policies-block.wildcards-accepted": of("policies", "wildcards_accepted", "no"),
    "policies-block.anonymous-discovery": of("policies", "anonymous_discovery", ...),
    "policies-block.scope-required-for-invocation": of("policies", "scope_required_for_invocation", 1),
    "policies-block.synthesis-enabled": of("policies", "synthesis_enabled", None),
    "policies-block.max-synthesis-depth": of("policies", "max_synthesis_depth", 0),
    "endpoint-projection.list": member("endpoints", {}),
    "endpoint-projection.handler": of_endpoint("handler", "module", "handlers.library"),
    "method-policy.object": of("policies", "methods", []),
    "method-policy.allow": methods(allow="QUERY"),
    "method-policy.disallow": methods(disallow="TRANSFER"),
    "method-policy.legacy": methods(legacy=["HEAD"]),
    "method-policy.aliases": methods(aliases={"GET": 5}),
    "method-policy.alias-chain": methods(aliases={"GET": "PUT", "PUT": "REPLACE"}),
    "method-policy.redirects": methods(redirects=[{"from_method": "BOOK"}]),
    "handler-binding.type": of_endpoint("handler", "type", "built_in"),
    "handler-binding.errors": taken_over,
    "input-strictness.closed": of_endpoint("input_schema", "additionalProperties", True),
}
"""By rule: what is wrong in the manifest, which is signed again afterwards."""


def _is_manifest(answer: Passing) -> bool:
    return answer.header("Content-Type").partition(";")[0] == MANIFEST_JSON


def _changed(change: Change, *, signed: bool = True) -> Answers:
    def spoil(answer: Passing, seal: Seal) -> Passing:
        if not _is_manifest(answer):
            return answer
        document = json.loads(answer.body)
        change(document)
        if signed:
            document = sign_manifest(document, seal.key)
        return seal.again(answer.with_body(json.dumps(document).encode()))

    return spoil


def _whole(answer: Passing, seal: Seal) -> Passing:
    """A list that has the manifest in it."""
    return seal.again(answer.with_body(b"[" + answer.body + b"]")) if _is_manifest(answer) else answer


def _field(change: Callable[[Passing], Passing]) -> Answers:
    return lambda answer, seal: change(answer) if _is_manifest(answer) else answer


BREAKING: Mapping[str, Defect] = {
    **{rule: Defect(answers=_changed(change)) for rule, change in IN_MANIFEST.items()},
    "manifest-structure.object": Defect(answers=_whole),
    "manifest-signature.present": Defect(answers=_changed(without(SIGNATURE), signed=False)),
    "manifest-signature.form": Defect(answers=_changed(member(SIGNATURE, "signed by me"), signed=False)),
    "manifest-retrieval.media-type": Defect(
        answers=_field(lambda answer: answer.with_field("Content-Type", "text/plain"))
    ),
    "manifest-retrieval.own-type": Defect(
        answers=_field(lambda answer: answer.with_field("Content-Type", "application/json"))
    ),
    "manifest-caching.etag": Defect(answers=_field(lambda answer: answer.without("ETag"))),
    "manifest-caching.cache-control": Defect(answers=_field(lambda answer: answer.without("Cache-Control"))),
    "manifest-caching.api-version": Defect(answers=_field(lambda answer: answer.without("AGTP-API-Version"))),
}
"""By rule: what is wrong with the host."""

CONSEQUENCES: Mapping[str, frozenset[str]] = {
    # No endpoint is published, so the server's own are not either.
    "endpoint-projection.list": frozenset({"manifest.built-ins-published"}),
}
"""Rules whose breach other cases must notice as well."""
