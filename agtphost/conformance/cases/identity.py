"""Callers, agents, Genesis and Identity Documents: core v08 section 6."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases, load_tables
from agtphost.conformance.cases.headers import FLOOR
from agtphost.conformance.cases.tour import UNKNOWN_ID
from agtphost.conformance.expectations import (
    is_hex64,
    is_moment,
    require_list,
    require_members,
    require_refusal,
    require_status,
    require_success,
)
from agtphost.conformance.genesis import check_genesis
from agtphost.conformance.records import record_of
from agtphost.conformance.request_bytes import request
from agtphost.conformance.signatures import canonical, decode_base64url, public_key, signed_by, signed_forms
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("identity")
TABLES = load_tables("requests.toml")

DOCUMENT = [
    "agtp_version",
    "document_type",
    "document_version",
    "agent_id",
    "name",
    "description",
    "principal",
    "principal_id",
    "issuer",
    "issued_at",
    "updated_at",
    "status",
    "methods",
    "capabilities",
    "scopes_accepted",
    "trust_score",
]
GENESIS = [
    "agent_id",
    "owner",
    "archetype",
    "governance_zone",
    "scope",
    "issued_at",
    "issuer_public_key",
    "signature",
    "trust_tier",
]
OUTSIDE = (("signature", "agent_id", "log_inclusion_proof"), ("signature", "agent_id"), ("signature",))
"""Members that the hash of a Genesis leaves out: in core v08, and in deployed implementations."""

SIGNED = ("manifest_issuer", "manifest_issuer_public_key", "manifest_signature")
ARCHETYPES = ("assistant", "analyst", "executor", "orchestrator", "monitor")
SECRETS = ("private_key", "api_key", "password", "secret", "code", "source", "weights", "session_history", "action_log")


# Callers


@CASES.case("certificate-and-header-agree", "AGTP-125 AGTP-316", Need.CERTIFICATE)
def disagreement(target: Target) -> None:
    """An Agent-ID that is not the certificate's is answered 401."""
    require_status(target.as_agent("DISCOVER", "/agents", fields=[("Agent-ID", UNKNOWN_ID)]), 401)


@CASES.case("hosted-id-with-other-certificate", "AGTP-125 AGTP-316", Need.CERTIFICATE, Need.HOSTED)
def check_borrowed_id(target: Target) -> None:
    """The Agent-ID of a hosted agent cannot be claimed with another agent's certificate."""
    entry = target.hosted_agents[0]
    if entry.get("agent_id") == target.agent_id:
        raise Inapplicable("a hosted agent other than the caller")
    require_status(target.as_agent("DISCOVER", "/agents", fields=[("Agent-ID", str(entry["agent_id"]))]), 401)


@CASES.case("never-inherited", "AGTP-011 AGTP-029", Need.ENDPOINT)
def not_inherited(target: Target) -> None:
    """An Agent-ID of one request without certificate is not carried over to the next."""
    endpoint = target.endpoint
    assert endpoint is not None
    path, body = endpoint.address(endpoint.input or {})
    with target.link() as link:
        link.send(request("DISCOVER", "/agents", fields=[("Agent-ID", target.agent_id)]))
        link.answer()
        link.send(request(endpoint.method, path, body))
        second = link.answer()
    expect(second is not None and second.status == 401, f"the second request is answered {second}")


for _name, _value in TABLES["malformed_agent_ids"]:

    def _check_malformed(target: Target, value: str) -> None:
        require_status(target.ask("DISCOVER", "/agents", fields=[("Agent-ID", value)]), 400, 401)

    CASES.row(
        f"agent-id-{_name}", "AGTP-105 AGTP-159", f"The Agent-ID {_value[:20]!r} is refused.", _check_malformed, _value
    )


@CASES.case("unknown-refused-everywhere", "AGTP-159")
def unknown_everywhere(target: Target) -> None:
    """An unknown Agent-ID is answered 401 before any other check."""
    for method, path in (("DISCOVER", "/"), ("FROBNICATE", "/"), ("QUERY", "/book/room"), ("INSPECT", "/")):
        require_status(target.ask(method, path, fields=[("Agent-ID", UNKNOWN_ID)]), 401)


@CASES.case("record-names-caller", "AGTP-309 AGTP-124", Need.CERTIFICATE)
def caller_recorded(target: Target) -> None:
    """The record of an agent's request names the agent by its canonical id, and says how it was proven."""
    payload = record_of(target.as_agent("DISCOVER", "/agents")).payload
    expect(payload.get("caller_id", target.agent_id) == target.agent_id, f"caller_id is {payload.get('caller_id')!r}")
    assurance = payload.get("identity_assurance")
    expect(assurance in (None, "certificate", "certificate-bound"), f"identity_assurance is {assurance!r}")


@CASES.case("header-is-not-certificate", "AGTP-309 AGTP-316", Need.AGENT)
def header_assurance(target: Target) -> None:
    """An Agent-ID without its certificate is never recorded as proven."""
    answer = target.ask("DISCOVER", "/agents", fields=[("Agent-ID", target.agent_id)])
    assurance = record_of(answer).payload.get("identity_assurance")
    expect(assurance not in ("certificate", "certificate-bound"), f"identity_assurance is {assurance!r}")


@CASES.case("registrar-is-no-agent", "AGTP-008", Need.REGISTRAR)
def registrar(target: Target) -> None:
    """The issuer's certificate does not make its bearer an agent."""
    answer = target.ask("DISCOVER", "/agents", who=Role.REGISTRAR)
    require_status(answer, 200)
    expect(answer.header("Agent-ID") is None, "the answer names an agent")


# Identity Documents


def _document(target: Target) -> Mapping[str, Any]:
    answer = require_success(target.ask("DESCRIBE", target.agent_path(), who=target.best))
    found = answer.value
    expect(isinstance(found, dict), "the Identity Document is not an object")
    document: Mapping[str, Any] = found if "agent_id" in found else answer.result
    return document


@CASES.each("document-{}", "AGTP-136 AGTP-153", DOCUMENT, Need.HOSTED)
def in_document(target: Target, name: str) -> None:
    """The Identity Document has {}."""
    require_members(_document(target), [name], "the Identity Document")


@CASES.case("document-type", "AGTP-137", Need.HOSTED)
def document_type(target: Target) -> None:
    """The document_type of an Identity Document is agtp-identity."""
    expect(_document(target).get("document_type") == "agtp-identity", "document_type has another value")


@CASES.case("document-media-type", "AGTP-092 AGTP-116 AGTP-320", Need.HOSTED)
def media_type(target: Target) -> None:
    """An Identity Document is served as application/vnd.agtp.identity+json."""
    found = target.ask("DESCRIBE", target.agent_path(), who=target.best).content_type
    expect(found == "application/vnd.agtp.identity+json", f"it is served as {found}")


@CASES.case("document-moments", "AGTP-138", Need.HOSTED)
def document_moments(target: Target) -> None:
    """updated_at of an Identity Document is not before issued_at."""
    found = _document(target)
    expect(is_moment(found.get("issued_at")) and is_moment(found.get("updated_at")), "they are not RFC 3339")
    expect(str(found["issued_at"])[:19] <= str(found["updated_at"])[:19], "updated_at is before issued_at")


@CASES.case("document-lifecycle-word", "AGTP-139", Need.HOSTED)
def document_status(target: Target) -> None:
    """The status of an Identity Document is active, suspended, retired or deprecated, in lower case."""
    found = _document(target).get("status")
    expect(found in ("active", "suspended", "retired", "deprecated"), f"it is {found!r}")


@CASES.case("document-floor", "AGTP-140", Need.HOSTED)
def document_methods(target: Target) -> None:
    """The methods of an Identity Document include the eighteen that every server has (the floor)."""
    missing = FLOOR - set(require_list(_document(target).get("methods"), "methods"))
    expect(not missing, f"it lacks {', '.join(sorted(missing))}")


@CASES.case("document-score", "AGTP-141", Need.HOSTED)
def document_score(target: Target) -> None:
    """The trust_score of an Identity Document is a number from 0 to 1."""
    found = _document(target).get("trust_score")
    expect(isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= 1, f"it is {found!r}")


@CASES.case("document-scopes", "AGTP-035", Need.HOSTED)
def document_scopes(target: Target) -> None:
    """The scopes of an Identity Document are an array with one scope in each element."""
    for scope in require_list(_document(target).get("scopes_accepted"), "scopes_accepted"):
        expect(isinstance(scope, str) and "," not in scope and " " not in scope, f"{scope!r} is not one scope")


@CASES.case("document-warning", "AGTP-147", Need.HOSTED)
def document_warning(target: Target) -> None:
    """A trust_warning comes with a trust_explanation, and Tier 2 with a trust_warning."""
    found = _document(target)
    if found.get("trust_tier") == 2:
        expect(found.get("trust_warning"), "it is Tier 2 and has no trust_warning")
    expect(not found.get("trust_warning") or found.get("trust_explanation"), "it has no trust_explanation")


@CASES.case("document-signature", "AGTP-148 AGTP-116", Need.HOSTED)
def document_signature(target: Target) -> None:
    """A signed Identity Document matches its signature."""
    found = _document(target)
    if any(found.get(name) is None for name in SIGNED):
        raise Inapplicable("a signed Identity Document")
    key, signature = public_key(found["manifest_issuer_public_key"]), decode_base64url(found["manifest_signature"])
    octets_signed = signed_forms(found, "manifest_signature")
    expect(any(signed_by(key, signature, octets) for octets in octets_signed), "the signature does not match")


@CASES.case("document-no-secrets", "AGTP-152 AGTP-111", Need.HOSTED)
def document_secrets(target: Target) -> None:
    """An Identity Document holds no code, credential, session or action log."""
    found = _document(target)
    present = [name for name in SECRETS if name in found]
    expect(not present, f"it has {', '.join(present)}")


@CASES.case("document-sessions-hidden", "AGTP-158", Need.HOSTED)
def sessions_hidden(target: Target) -> None:
    """The number of active sessions is not disclosed to an anonymous caller."""
    answer = target.ask("DESCRIBE", target.agent_path(), who=Role.ANONYMOUS)
    expect(b"active_session_count" not in answer.body, "active_session_count is disclosed")


# Genesis


def _genesis(target: Target) -> tuple[bytes, dict[str, Any]]:
    answer = require_success(target.ask("DISCOVER", target.agent_path("genesis")))
    return answer.body, answer.members


@CASES.case("genesis-members", "AGTP-160", Need.GENESIS)
def genesis_members(target: Target) -> None:
    """A Genesis has its nine members."""
    require_members(_genesis(target)[1], GENESIS, "the Genesis")


@CASES.case("genesis-agent-id", "AGTP-162 API-042 API-044", Need.GENESIS)
def genesis_id(target: Target) -> None:
    """The Agent-ID is the SHA-256 of the Genesis in canonical form."""
    members = _genesis(target)[1]
    expect(is_hex64(members.get("agent_id")), "the agent_id is not 64 hexadecimal digits")
    covered = {name: value for name, value in members.items() if name not in OUTSIDE[0]}
    expect(sha256(canonical(covered)).hexdigest() == members["agent_id"], "the agent_id is another hash")


@CASES.case("genesis-signature", "AGTP-163 AGTP-164 API-042", Need.GENESIS)
def genesis_signature(target: Target) -> None:
    """The Genesis is signed by the key that it names."""
    octets, members = _genesis(target)
    key, signature = public_key(members.get("issuer_public_key")), decode_base64url(members.get("signature"))
    hashed = {
        form
        for omitted in OUTSIDE
        for form in signed_forms(members, *omitted)
        if sha256(form).hexdigest() == members.get("agent_id")
    }
    expect(any(signed_by(key, signature, form) for form in hashed), "the signature is not over what has its agent_id")
    check_genesis(octets)


@CASES.case("genesis-of-addressed", "API-042 AGTP-126", Need.GENESIS)
def genesis_addressed(target: Target) -> None:
    """DISCOVER of an agent's genesis returns the Genesis of that agent."""
    entry = target.hosted_agents[0]
    expect(_genesis(target)[1].get("agent_id") == entry.get("agent_id"), "it is another agent's")


@CASES.case("genesis-stable", "API-042 AGTP-241", Need.GENESIS)
def genesis_stable(target: Target) -> None:
    """A Genesis is the same in every answer, byte for byte."""
    expect(_genesis(target)[0] == _genesis(target)[0], "it differs")


@CASES.case("genesis-archetype", "AGTP-167", Need.GENESIS)
def genesis_archetype(target: Target) -> None:
    """The archetype of a Genesis is one of five."""
    found = _genesis(target)[1].get("archetype")
    expect(found in ARCHETYPES, f"it is {found!r}")


@CASES.case("genesis-trust", "AGTP-169 AGTP-161", Need.GENESIS)
def genesis_trust(target: Target) -> None:
    """A Tier 1 Genesis names its anchor, and has the members that this needs."""
    members = _genesis(target)[1]
    expect(members.get("trust_tier") in (1, 2, 3), f"the tier is {members.get('trust_tier')!r}")
    if members["trust_tier"] == 1:
        expect(members.get("verification_path") in ("dns-anchored", "log-anchored", "hybrid"), "it is not anchored")
        expect(members.get("verification_path") == "log-anchored" or members.get("org_domain"), "it has no org_domain")


@CASES.case("genesis-matches-document", "AGTP-144 AGTP-168", Need.GENESIS)
def genesis_matches(target: Target) -> None:
    """Genesis and Identity Document agree on agent_id and verification_path."""
    members, found = _genesis(target)[1], _document(target)
    for name in ("agent_id", "verification_path"):
        if name in members and name in found:
            expect(members[name] == found[name], f"{name} is {members[name]!r} and {found[name]!r}")


@CASES.case("genesis-unknown-agent", "API-043 AGTP-107")
def genesis_unknown(target: Target) -> None:
    """The Genesis of an agent that is not hosted is answered 404."""
    require_status(target.ask("DISCOVER", "/agents/conformance-nobody/genesis"), 404)


@CASES.case("401-names-reason", "AGTP-069 AGTP-289")
def reasons(target: Target) -> None:
    """A 401 names its reason, with any credential."""
    fields = [("Agent-ID", UNKNOWN_ID), ("Authorization", "Bearer conformance")]
    require_refusal(target.ask("DISCOVER", "/agents", fields=fields), 401, "agent-unauthenticated")
