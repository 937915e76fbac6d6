"""The server manifest: AGTP-API section 8."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agtphost.conformance.access import Who
from agtphost.conformance.case import Cases, Need, expect
from agtphost.conformance.cases.headers import FLOOR
from agtphost.conformance.expectations import answered, has, header, is_list, is_moment
from agtphost.conformance.records import decoded
from agtphost.conformance.target import Target
from agtphost.contract.built_in_contracts import BINDINGS
from agtphost.contract.manifest import verify_manifest
from agtphost.identity.jws import JWSError

CASES = Cases("manifest")

MEMBERS = [
    "agtp_version",
    "agtp_api_version",
    "document_version",
    "catalog_version",
    "catalog_versions_supported",
    "server",
    "embedded_methods",
    "endpoints",
    "agent_disclosure",
    "hosted_agents",
    "policies",
]
SERVER = ["server_id", "domain", "operator", "contact", "supported_features", "issued", "updated"]
SEMANTIC = ["intent", "actor", "outcome", "capability", "confidence", "impact", "is_idempotent"]
CAPABILITIES = frozenset(
    [
        "discovery",
        "retrieval",
        "analysis",
        "transaction",
        "modification",
        "creation",
        "notification",
        "mechanics",
        "domain_spanning",
    ]
)
ENDPOINT = ["method", "path", "description", "semantic", "input_schema", "output_schema", "errors", "handler"]
HANDLER_TYPES = frozenset({"registered_function", "composition", "external_service", "built_in"})
NEVER = ("function", "recipe", "url", "headers", "secret", "token", "credentials")


@CASES.case("offered", "API-084 AGTP-261")
def offered(target: Target) -> None:
    """DISCOVER / without Agent-ID returns the manifest."""
    answer = target.ask("DISCOVER", "/", who=Who.ANONYMOUS) if target.asks_agent else target.root
    if answer.status != 262:
        has(answered(answer, 200).value, ["agtp_version"], "the body of DISCOVER /")


@CASES.case("content-type", "API-084 AGTP-320 API-155", Need.MANIFEST)
def content_type(target: Target) -> None:
    """The manifest is application/vnd.agtp.manifest+json."""
    expect(target.root.content_type == "application/vnd.agtp.manifest+json", f"it is {target.root.content_type}")


for _member in MEMBERS:

    def _there(target: Target, name: str) -> None:
        has(target.manifest, [name], "the manifest")

    _ids = {
        "catalog_version": "API-072 API-012",
        "catalog_versions_supported": "API-012 API-072",
        "policies": "API-072 API-077",
    }
    CASES.row(
        f"member-{_member}",
        _ids.get(_member, "API-072"),
        f"The manifest has {_member}.",
        _there,
        _member,
        needs=[Need.MANIFEST],
    )

for _member in SERVER:

    def _of_server(target: Target, name: str) -> None:
        has(target.member("server"), [name], "server")

    CASES.row(
        f"server-{_member}", "API-073", f"The server block has {_member}.", _of_server, _member, needs=[Need.MANIFEST]
    )


for _member in ("agtp_version", "agtp_api_version"):

    def _one_zero(target: Target, name: str) -> None:
        expect(target.member(name) == "1.0", f"{name} is {target.member(name)!r}")

    CASES.row(
        f"{_member.replace('_', '-')}-is-1.0",
        "API-072",
        f"{_member} is 1.0.",
        _one_zero,
        _member,
        needs=[Need.MANIFEST],
    )


@CASES.case("catalog-versions", "API-012", Need.MANIFEST)
def catalog_versions(target: Target) -> None:
    """catalog_versions_supported contains catalog_version."""
    supported = is_list(target.member("catalog_versions_supported"), "catalog_versions_supported")
    expect(target.member("catalog_version") in supported, f"{target.member('catalog_version')!r} is not in {supported}")


@CASES.case("server-moments", "API-073", Need.MANIFEST)
def moments(target: Target) -> None:
    """issued and updated are moments, in this order."""
    server = has(target.member("server"), ["issued", "updated"], "server")
    expect(is_moment(server["issued"]) and is_moment(server["updated"]), "they are not RFC 3339")
    expect(str(server["issued"])[:19] <= str(server["updated"])[:19], "updated is before issued")


@CASES.case("embedded-methods", "API-074", Need.MANIFEST)
def embedded(target: Target) -> None:
    """embedded_methods lists the eighteen methods of the floor."""
    listed = is_list(target.member("embedded_methods"), "embedded_methods")
    expect(set(listed) == FLOOR and len(listed) == len(FLOOR), f"it differs by {sorted(map(str, set(listed) ^ FLOOR))}")


@CASES.case("custom-methods", "API-074 API-005", Need.MANIFEST)
def custom(target: Target) -> None:
    """custom_methods, if there are any, are names of 3 to 32 capital letters."""
    for name in is_list(target.member("custom_methods") or [], "custom_methods"):
        ok = isinstance(name, str) and name.isascii() and name.isalpha() and name.isupper() and 3 <= len(name) <= 32
        expect(ok, f"{name!r} is no such name")


# Endpoints


@CASES.case("endpoint-members", "API-061 API-072", Need.MANIFEST)
def endpoint_members(target: Target) -> None:
    """Every endpoint has the eight members of an endpoint definition."""
    for item in target.declared:
        has(item.definition, ENDPOINT, str(item))


@CASES.case("endpoint-semantic", "API-067", Need.MANIFEST)
def endpoint_semantic(target: Target) -> None:
    """Every endpoint has the seven members of the semantic block."""
    for item in target.declared:
        has(item.definition.get("semantic"), SEMANTIC, f"the semantic block of {item}")


@CASES.case("endpoint-capability", "API-069", Need.MANIFEST)
def endpoint_capability(target: Target) -> None:
    """Every capability is one of the nine categories."""
    for item in target.declared:
        found = item.semantic.get("capability")
        expect(found in CAPABILITIES, f"{item}: the capability is {found!r}")


@CASES.case("endpoint-confidence", "API-070", Need.MANIFEST)
def endpoint_values(target: Target) -> None:
    """Confidence is a number from 0 to 1, impact one of three words, is_idempotent a boolean."""
    for item in target.declared:
        block = item.semantic
        confidence = block.get("confidence")
        number = isinstance(confidence, int | float) and not isinstance(confidence, bool) and 0 <= confidence <= 1
        expect(number, f"{item}: the confidence is {confidence!r}")
        expect(
            block.get("impact") in ("informational", "reversible", "irreversible"),
            f"{item}: the impact is {block.get('impact')!r}",
        )
        expect(isinstance(block.get("is_idempotent"), bool), f"{item}: is_idempotent is {block.get('is_idempotent')!r}")


@CASES.case("endpoint-methods", "API-005 API-009 API-004", Need.MANIFEST)
def endpoint_methods(target: Target) -> None:
    """Every endpoint's method is 3 to 32 capital letters and no legacy verb."""
    for item in target.declared:
        name = item.method
        expect(
            name.isascii() and name.isalpha() and name.isupper() and 3 <= len(name) <= 32, f"{item}: the method's form"
        )
        expect(name not in {"GET", "POST", "PUT", "DELETE", "PATCH"}, f"{item}: a legacy verb")


@CASES.case("endpoint-unique", "API-036", Need.MANIFEST)
def endpoint_unique(target: Target) -> None:
    """No method and path stands twice."""
    pairs = [item.pair for item in target.declared]
    expect(len(pairs) == len(set(pairs)), "one does")


@CASES.case("endpoint-input-schemas", "API-142 API-144", Need.MANIFEST)
def input_schemas(target: Target) -> None:
    """Every operator's input schema is a closed object in JSON Schema 2020-12."""
    for item in target.operators:
        schema = item.definition.get("input_schema")
        expect(
            isinstance(schema, Mapping) and schema.get("type") == "object", f"{item}: the input schema is no object's"
        )
        expect(
            isinstance(schema, Mapping) and schema.get("additionalProperties") is False,
            f"{item}: the input schema is open",
        )
        expect(item.samples is not None, f"{item}: the input schema cannot be compiled")


@CASES.case("handler-types-only", "API-083", Need.MANIFEST)
def handler_types(target: Target) -> None:
    """Of a handler, only its type is published."""
    for item in target.declared:
        handler = item.definition.get("handler")
        expect(isinstance(handler, Mapping) and set(handler) == {"type"}, f"{item}: the handler has {handler!r}")


@CASES.case("handler-types-known", "API-160", Need.MANIFEST)
def handler_types_known(target: Target) -> None:
    """Every handler's type is one of the three, the server's own included."""
    for item in target.declared:
        handler = item.definition.get("handler")
        kind = handler.get("type") if isinstance(handler, Mapping) else None
        expect(kind in BINDINGS, f"{item}: the handler's type is {kind!r}")


@CASES.case("built-in-input-schemas", "API-160", Need.MANIFEST)
def built_in_schemas(target: Target) -> None:
    """The server's own endpoints have closed input schemas, which declare the parameters of their paths."""
    for item in target.declared:
        if item.definition.get("tier") == "A":
            schema = item.definition.get("input_schema")
            found = schema if isinstance(schema, Mapping) else {}
            closed = found.get("additionalProperties") is False and found.get("type") == "object"
            expect(closed, f"{item}: the input schema is open")
            declared = found.get("properties", {})
            missing = [name for name in item.parameters if name not in declared]
            expect(not missing, f"{item}: the input schema lacks {', '.join(missing)}")


@CASES.case("built-in-effects", "API-160", Need.MANIFEST)
def built_in_effects(target: Target) -> None:
    """The server's own endpoints have outcomes of their own, and REVOKE is irreversible."""
    outcomes: dict[str, str] = {}
    for item in target.declared:
        if item.definition.get("tier") == "A":
            first = outcomes.setdefault(str(item.semantic.get("outcome")), item.method)
            expect(first == item.method, f"{item} has the outcome of {first}")
            impact = item.semantic.get("impact")
            expect(item.method != "REVOKE" or impact == "irreversible", f"{item}: the impact is {impact!r}")


@CASES.case("no-upstreams", "API-083", Need.MANIFEST)
def no_upstreams(target: Target) -> None:
    """No endpoint publishes a function, a recipe, an upstream's URL or a credential."""
    for item in target.declared:
        found = [name for name in NEVER if name in item.definition]
        expect(not found, f"{item} has {', '.join(found)}")


@CASES.case("built-ins-published", "API-041", Need.MANIFEST)
def built_ins(target: Target) -> None:
    """DISCOVER /methods, /agents and /genesis are endpoints of the manifest."""
    published = {item.pair for item in target.declared}
    for path in ("/methods", "/agents", "/genesis"):
        expect(("DISCOVER", path) in published, f"DISCOVER {path} is not")


@CASES.case("discover-reserved", "API-054 API-060", Need.MANIFEST)
def reserved(target: Target) -> None:
    """No operator's endpoint of DISCOVER stands on a reserved path or a variant of one."""
    for item in target.operators:
        if item.method == "DISCOVER":
            taken = item.path.startswith(
                ("/methods", "/agents", "/genesis", "/tool", "/apis", "/patterns", "/contracts")
            )
            expect(not taken or item.definition.get("tier") == "A", f"{item} does")


# Agents, protocols, policies


@CASES.case("disclosure-levels", "API-075", Need.MANIFEST)
def disclosure(target: Target) -> None:
    """agent_disclosure is one of three levels, and hosted_agents follows it."""
    level = target.member("agent_disclosure")
    agents = is_list(target.member("hosted_agents"), "hosted_agents")
    expect(level in ("public", "authenticated", "private"), f"agent_disclosure is {level!r}")
    expect(level == "public" or not agents, f"agent_disclosure is {level}, and an anonymous caller sees agents")


@CASES.case("agents-agree", "API-046 API-075", Need.MANIFEST, Need.HOSTED)
def agents_agree(target: Target) -> None:
    """hosted_agents and DISCOVER /agents name the same agents."""
    if target.member("agent_disclosure") == "public":
        here = {entry.get("agent_id") for entry in target.member("hosted_agents")}
        there = {entry.get("agent_id") for entry in target.hosted}
        expect(here == there, f"{len(here)} and {len(there)} agents, {len(here ^ there)} of them in one list only")


@CASES.case("hosted-protocols", "API-076", Need.MANIFEST)
def protocols(target: Target) -> None:
    """Every hosted protocol names its method and path."""
    for entry in is_list(target.member("hosted_protocols") or [], "hosted_protocols"):
        has(entry, ("protocol", "method", "path"), "an entry of hosted_protocols")


for _member, _default in (
    ("wildcards_accepted", False),
    ("anonymous_discovery", True),
    ("scope_required_for_invocation", True),
    ("synthesis_enabled", False),
    ("max_synthesis_depth", 10),
):

    def _policy(target: Target, name: str, default: object) -> None:
        found = has(target.member("policies"), [name], "policies")[name]
        expect(type(found) is type(default), f"{name} is {found!r}")

    CASES.row(
        f"policy-{_member.replace('_', '-')}",
        "API-077 API-154",
        f"policies has {_member}.",
        _policy,
        _member,
        _default,
        needs=[Need.MANIFEST],
    )


# Signature, versions, caching


def _signature(target: Target) -> str:
    found = target.member("manifest_signature")
    return found if isinstance(found, str) else ""


@CASES.case("signed", "API-081", Need.MANIFEST)
def signed(target: Target) -> None:
    """The manifest has a signature: a JWS of three parts."""
    expect(_signature(target).count(".") == 2, f"manifest_signature is {_signature(target)[:40]!r}")


@CASES.case("signature-verifies", "API-081", Need.MANIFEST, Need.SIGNING_KEY)
def signature(target: Target) -> None:
    """The signature covers the manifest without it, in canonical form, by the server's key."""
    try:
        verify_manifest(target.manifest or {}, target.keys)
    except JWSError as error:
        expect(False, f"it does not verify: {error}")


@CASES.case("signature-covers-content", "API-081", Need.MANIFEST, Need.SIGNING_KEY)
def signature_covers(target: Target) -> None:
    """The signature holds for nothing but this manifest."""
    changed: dict[str, Any] = {**(target.manifest or {}), "document_version": "conformance"}
    try:
        verify_manifest(changed, target.keys)
    except JWSError:
        return
    expect(False, "a changed manifest verifies, too")


@CASES.case("signature-algorithm", "API-081", Need.MANIFEST)
def algorithm(target: Target) -> None:
    """The signature's algorithm is EdDSA."""
    head = json.loads(decoded(_signature(target).partition(".")[0] or "e30"))
    expect(head.get("alg") == "EdDSA", f"alg is {head.get('alg')!r}")


@CASES.case("stable", "API-073 API-085", Need.MANIFEST)
def stable(target: Target) -> None:
    """Asked for again, the manifest has the same version, server and endpoints."""
    again = answered(target.ask("DISCOVER", "/"), 200).members
    for name in ("document_version", "endpoints", "policies", "catalog_version"):
        expect(again.get(name) == target.member(name), f"{name} differs")
    for name in ("server_id", "issued"):
        expect(again["server"].get(name) == target.member("server").get(name), f"server.{name} differs")


@CASES.case("etag", "API-085", Need.MANIFEST)
def etag(target: Target) -> None:
    """The manifest has an ETag, the same as long as it does not change."""
    first = header(target.root, "ETag")
    expect(header(target.ask("DISCOVER", "/"), "ETag") == first, "it differs from one answer to the next")


@CASES.case("cache-control", "API-085", Need.MANIFEST)
def cache_control(target: Target) -> None:
    """The manifest has Cache-Control."""
    header(target.root, "Cache-Control")


@CASES.case("api-version", "AGTP-268", Need.MANIFEST)
def api_version(target: Target) -> None:
    """AGTP-API-Version is on every answer of a server that negotiates, and never falls."""
    found = [answer.header("AGTP-API-Version") for answer in target.journal]
    given = [value for value in found if value is not None]
    if target.policies.get("synthesis_enabled") or given:
        expect(len(given) == len(found), f"{len(found) - len(given)} of {len(found)} answers do not have it")
        numbers = [int(value) for value in given if value.isdigit()]
        expect(numbers == sorted(numbers), "it falls")
