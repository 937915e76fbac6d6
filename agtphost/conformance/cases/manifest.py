"""The server manifest: AGTP-API section 8."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.expectations import require_header, require_status
from agtphost.conformance.signatures import canonical, decode_base64url, signed_by
from agtphost.conformance.target import Target, is_manifest
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("manifest")

SIGNATURE = "manifest_signature"
NEVER = ("function", "recipe", "url", "headers", "secret", "token", "credentials")


@CASES.case("offered", "API-084 AGTP-261")
def check_offer(target: Target) -> None:
    """DISCOVER / without Agent-ID returns the manifest."""
    answer = target.ask("DISCOVER", "/", who=Role.ANONYMOUS) if target.asks_agent else target.root
    if answer.status != 262:
        expect(is_manifest(require_status(answer, 200).value), "the body of DISCOVER / is not a manifest")


@CASES.case("content-type", "API-084 AGTP-320 API-155", Need.MANIFEST)
def content_type(target: Target) -> None:
    """The manifest is application/vnd.agtp.manifest+json."""
    expect(target.root.content_type == "application/vnd.agtp.manifest+json", f"it is {target.root.content_type}")


# Endpoints


@CASES.case("no-upstreams", "API-083", Need.MANIFEST)
def no_upstreams(target: Target) -> None:
    """No endpoint publishes a function, a recipe, an upstream's URL or a credential."""
    for item in target.declared_endpoints:
        found = [name for name in NEVER if name in item.definition]
        expect(not found, f"{item} has {', '.join(found)}")


@CASES.case("built-ins-published", "API-041", Need.MANIFEST)
def built_ins(target: Target) -> None:
    """DISCOVER /methods, /agents and /genesis are endpoints of the manifest."""
    published = {item.pair for item in target.declared_endpoints}
    for path in ("/methods", "/agents", "/genesis"):
        expect(("DISCOVER", path) in published, f"DISCOVER {path} is not")


# Agents, protocols, policies


@CASES.case("disclosure-followed", "API-075", Need.MANIFEST)
def disclosure(target: Target) -> None:
    """The manifest shows no agents to an anonymous caller if agent_disclosure is authenticated."""
    closed = target.member("agent_disclosure") == "authenticated" and not target.asks_agent
    expect(not closed or not target.member("hosted_agents"), "an anonymous caller sees agents")


@CASES.case("agents-agree", "API-046 API-075", Need.MANIFEST, Need.HOSTED)
def agents_agree(target: Target) -> None:
    """hosted_agents and DISCOVER /agents name the same agents."""
    shown = target.member("hosted_agents")
    if target.member("agent_disclosure") == "public" and isinstance(shown, list):
        here = {entry.get("agent_id") for entry in shown}
        there = {entry.get("agent_id") for entry in target.hosted_agents}
        expect(here == there, f"{len(here)} and {len(there)} agents, {len(here ^ there)} of them in one list only")


# Signature, versions, caching


def _signature(target: Target) -> str:
    """
    Return the manifest's signature.

    :raises Inapplicable: the manifest has no signature, or one of another form.
    """
    found = target.member(SIGNATURE)
    if not isinstance(found, str) or found.count(".") != 2:
        raise Inapplicable("a manifest with a signature")
    return found


def _signature_fault(target: Target, **changes: object) -> str:
    """Return why the signature does not verify; empty if it does."""
    head, payload, tail = _signature(target).split(".")
    header = json.loads(decode_base64url(head))
    if header.get("alg") != "EdDSA" or header.get("typ") != "agtp-manifest":
        return f"alg and typ are {header.get('alg')!r} and {header.get('typ')!r}"
    key = target.keys.get(header.get("kid"))
    if key is None or not signed_by(key, decode_base64url(tail), f"{head}.{payload}".encode()):
        return "none of the server's keys made it"
    manifest = {name: value for name, value in {**(target.manifest or {}), **changes}.items() if name != SIGNATURE}
    return (
        ""
        if decode_base64url(payload) == canonical(manifest)
        else "what was signed is not this manifest in canonical form"
    )


@CASES.case("signed", "API-081", Need.MANIFEST)
def check_signed(target: Target) -> None:
    """The manifest has a signature."""
    expect(target.member(SIGNATURE) is not None, f"it has no {SIGNATURE}")


@CASES.case("signature-verifies", "API-081", Need.MANIFEST, Need.SIGNING_KEY)
def signature(target: Target) -> None:
    """The signature covers the manifest without the signature, in canonical form, with the server's key."""
    why = _signature_fault(target)
    expect(not why, f"it does not verify: {why}")


@CASES.case("signature-covers-content", "API-081", Need.MANIFEST, Need.SIGNING_KEY)
def signature_covers(target: Target) -> None:
    """The signature is valid only for this manifest."""
    expect(_signature_fault(target, document_version="conformance"), "a changed manifest verifies, too")


@CASES.case("signature-algorithm", "API-081", Need.MANIFEST)
def algorithm(target: Target) -> None:
    """The signature's algorithm is EdDSA."""
    head = json.loads(decode_base64url(_signature(target).partition(".")[0]))
    expect(head.get("alg") == "EdDSA", f"alg is {head.get('alg')!r}")


@CASES.case("stable", "API-073 API-085", Need.MANIFEST)
def stable(target: Target) -> None:
    """Repeated answers have the same manifest version, server and endpoints."""
    again = require_status(target.ask("DISCOVER", "/"), 200).members
    for name in ("document_version", "endpoints", "policies", "catalog_version"):
        expect(again.get(name) == target.member(name), f"{name} differs")
    servers = [found if isinstance(found, Mapping) else {} for found in (again.get("server"), target.member("server"))]
    for name in ("server_id", "issued"):
        expect(servers[0].get(name) == servers[1].get(name), f"server.{name} differs")


@CASES.case("etag", "API-085", Need.MANIFEST)
def etag(target: Target) -> None:
    """The manifest has an ETag, which does not change while the manifest does not change."""
    first = require_header(target.root, "ETag")
    expect(require_header(target.ask("DISCOVER", "/"), "ETag") == first, "it differs from one answer to the next")


@CASES.case("cache-control", "API-085", Need.MANIFEST)
def cache_control(target: Target) -> None:
    """The manifest has Cache-Control."""
    require_header(target.root, "Cache-Control")


@CASES.case("api-version", "AGTP-268", Need.MANIFEST)
def api_version(target: Target) -> None:
    """AGTP-API-Version is on every answer of a server that negotiates, and never decreases."""
    found = [answer.header("AGTP-API-Version") for answer in target.journal]
    given = [value for value in found if value is not None]
    if target.policies.get("synthesis_enabled") or given:
        expect(len(given) == len(found), f"{len(found) - len(given)} of {len(found)} answers do not have it")
        numbers = [int(value) for value in given if value.isdigit()]
        expect(numbers == sorted(numbers), "AGTP-API-Version decreases")
