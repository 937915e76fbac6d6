"""
The rules that a server manifest is held to (AGTP-API sections 3 to 13), each with its name.

One list for whoever looks at manifests from outside: ``agtp manifest
validate`` names the rule of every finding, and ``agtp conformance`` has a case
for each. What makes this host's own manifest is written without it, so that
an error there is not an error here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agtphost.contract.semantic import MEMBERS

SWITCHES = (
    *("wildcards_accepted", "anonymous_discovery"),
    *("scope_required_for_invocation", "synthesis_enabled"),
)
"""Policies that are true or false."""

HANDLERS = ("registered_function", "composition", "external_service")
"""The kinds of handlers that there are (AGTP-API section 12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the drafts say of manifests."""

    id: str
    """``subject.detail``; stable."""

    section: str
    """Of AGTP-API, such as ``8.3``."""

    says: str
    """What holds in a manifest that keeps it, as a sentence."""

    advice: bool = False
    """Whether the drafts allow the contrary, so that it is remarked on and no fault."""


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _rules() -> Iterator[Rule]:
    for section, subject, rules in _TABLE:
        for detail, says in rules.items():
            yield Rule(id=f"{subject}.{detail.lstrip('~')}", section=section, says=says, advice=detail.startswith("~"))


_TABLE: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "3.2",
        "method-name",
        {
            "endpoint": "The method of every endpoint is 3 to 32 letters A-Z.",
            "listed": "Every list of methods holds names of 3 to 32 letters A-Z.",
        },
    ),
    (
        "3.6",
        "legacy-verb",
        {
            "custom": "No custom method is an HTTP verb.",
            "endpoint": "No endpoint is defined with an HTTP verb.",
        },
    ),
    (
        "4.3",
        "catalog-version",
        {
            "current": "catalog_version is a version such as 1.0.0.",
            "supported": "catalog_versions_supported is a list of versions.",
            "included": "catalog_versions_supported holds catalog_version.",
        },
    ),
    ("4.8", "catalog-versions", {"~single": "One version of the catalog is supported."}),
    ("5.2", "path-grammar", {"template": "The path of every endpoint follows the grammar."}),
    ("5.3", "path-parameter", {"declared": "Every parameter of a path is declared in the input schema."}),
    ("5.9", "reserved-path", {"discover": "No operator's endpoint of DISCOVER stands on a reserved path."}),
    ("6.1", "endpoint-tier", {"letter": "The tier of an endpoint is A, B or C."}),
    (
        "6.2",
        "endpoint-unique",
        {"object": "Every endpoint is an object.", "pair": "No method and path stands twice."},
    ),
    (
        "6.3",
        "endpoint-identity",
        {name: f"Every endpoint has its {name}, as text." for name in ("method", "path", "description")},
    ),
    (
        "6.4",
        "endpoint-contract",
        {
            "input-schema": "Every endpoint has an input_schema, an object.",
            "output-schema": "Every endpoint has an output_schema, an object.",
            "dialect": "Every $schema is that of JSON Schema 2020-12.",
            "references": "No schema refers to anything outside itself.",
            "schema": "Every schema is JSON Schema 2020-12.",
            "input-type": "Every input schema is that of an object.",
            "method-parameters": "RUN, TRANSFER and AUTHORIZE require the parameters that their methods demand.",
            "method-known": "Every endpoint's method is in the catalog or in custom_methods.",
            "errors": "Every endpoint has its errors, a list of texts.",
            "handler": "Every endpoint has a handler, an object with its type.",
            "required-scopes": "required_scopes, where they are there, are a list of texts.",
            "namespace": "A namespace is text.",
        },
    ),
    (
        "6.5",
        "endpoint-deprecation",
        {
            "object": "What deprecates an endpoint is an object.",
            "deprecated-in": "A deprecated endpoint says since which version.",
            "removed-in": "removed_in is text.",
            "successor": "A successor is an object whose method and path are text.",
        },
    ),
    (
        "7.1",
        "semantic-block",
        {
            "object": "Every endpoint has a semantic block, an object.",
            **{_dashed(name): f"The {name} of every semantic block is there and right." for name in MEMBERS},
            "own-effects": "What the server's own endpoints say of their effects is theirs and true.",
        },
    ),
    (
        "8.2",
        "manifest-structure",
        {
            "object": "The manifest is a JSON object.",
            "agtp-version": "agtp_version is 1.0.",
            "agtp-api-version": "agtp_api_version is 1.0.",
            "document-version": "The manifest has document_version, as text.",
            "data-manifest": "A data_manifest lists available data, each with its class.",
        },
    ),
    (
        "8.3",
        "server-block",
        {
            "object": "The manifest has a server block, an object.",
            **{
                _dashed(name): f"The server block has {name}, as text." for name in ("server_id", "operator", "contact")
            },
            "domain": "The server block has domain, text or null.",
            "supported-features": "The server block has supported_features, a list of texts.",
            "issued": "The server block has issued, an ISO 8601 time.",
            "updated": "The server block has updated, an ISO 8601 time.",
            "order": "The manifest was not updated before it was issued.",
        },
    ),
    (
        "8.4",
        "method-inventory",
        {
            "embedded": "The manifest has embedded_methods, a list.",
            "floor": "embedded_methods has every method of the floor.",
            "floor-only": "embedded_methods has none but the methods of the floor.",
            "custom": "custom_methods, where they are there, are a list.",
        },
    ),
    (
        "8.5",
        "agent-disclosure",
        {
            "level": "agent_disclosure is public, authenticated or private.",
            "agents": "The manifest has hosted_agents, a list.",
            "private": "A private server's manifest lists no agents.",
            "notice": "agent_disclosure_notice is text or null.",
        },
    ),
    (
        "8.6",
        "protocol-surface",
        {
            "apis": "apis, where they are there, are a list of objects.",
            "protocols": "hosted_protocols, where they are there, are a list of objects.",
            "protocol-members": "Every hosted protocol names itself, its method and its path.",
        },
    ),
    (
        "8.7",
        "policies-block",
        {
            "object": "The manifest has policies, an object.",
            **{_dashed(name): f"policies has {name}, true or false." for name in SWITCHES},
            "max-synthesis-depth": "policies has max_synthesis_depth, a positive integer.",
        },
    ),
    (
        "8.8",
        "manifest-signature",
        {"~present": "The manifest is signed.", "form": "The signature is a JWS in compact form."},
    ),
    (
        "8.9",
        "endpoint-projection",
        {
            "list": "The manifest has endpoints, a list.",
            "handler": "Of a handler, nothing but its type is shown.",
        },
    ),
    (
        "8.10",
        "manifest-retrieval",
        {
            "media-type": "The manifest comes as application/vnd.agtp.manifest+json or as JSON.",
            "~own-type": "The manifest comes as application/vnd.agtp.manifest+json.",
        },
    ),
    (
        "8.11",
        "manifest-caching",
        {
            "~etag": "The manifest comes with an ETag.",
            "~cache-control": "The manifest comes with Cache-Control.",
            "~api-version": "The manifest comes with AGTP-API-Version.",
        },
    ),
    (
        "9.2",
        "method-policy",
        {
            "object": "policies.methods, where they are there, are an object.",
            "allow": 'The allowed methods are a list or "*".',
            "disallow": "The disallowed methods are a list.",
            "legacy": 'The HTTP verbs that are taken are a list of them, "*" or "NONE".',
            "aliases": "Aliases are an object of texts.",
            "alias-chain": "No alias leads to an alias.",
            "redirects": "Redirects are a list of objects, each with both its methods.",
        },
    ),
    (
        "12",
        "handler-binding",
        {
            "type": f"The type of every handler is one of {', '.join(HANDLERS)}.",
            "errors": "Every endpoint declares the errors that its type of handler can end with.",
        },
    ),
    ("13.3", "input-strictness", {"closed": "Every input schema is closed."}),
)

RULES: Mapping[str, Rule] = {rule.id: rule for rule in _rules()}
"""By id."""
