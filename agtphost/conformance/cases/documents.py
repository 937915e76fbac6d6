"""Agents by name, and their documents: core v08 section 6.1 and 6.2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases, load_tables
from agtphost.conformance.expectations import (
    is_hex64,
    is_moment,
    require_list,
    require_members,
    require_status,
    require_success,
)
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("uri")
TABLES = load_tables("requests.toml")

NAMESPACE = [
    "document_type",
    "schema_version",
    "org_domain",
    "governance_zone",
    "generated_at",
    "signature",
    "agents",
    "total_active",
    "namespace_cert_fingerprint",
]
ENTRY = [
    "agent_label",
    "canonical_id",
    "lifecycle_state",
    "trust_tier",
    "cert_status",
    "manifest_uri",
    "activated_at",
    "last_updated",
]
STATUS = [
    "document_type",
    "canonical_id",
    "agent_label",
    "org_domain",
    "lifecycle_state",
    "cert_status",
    "last_action_method",
    "last_action_timestamp",
    "pending_escalations",
    "generated_at",
]
TYPES = ("application/vnd.agtp.identity+json", "application/vnd.agtp+json")


def _document_in(answer: RawAnswer) -> Mapping[str, Any]:
    """Return the document in an answer, which may have an envelope around it; the case fails if it is no object."""
    found = answer.result
    expect(isinstance(found, dict), "the document is not an object")
    return found if isinstance(found, dict) else {}


def _read(target: Target, rest: str = "", who: Role | None = None) -> RawAnswer:
    return require_success(target.ask("DESCRIBE", target.agent_path() + rest, who=who or target.best))


# Names


for _name, _title, _path in TABLES["unknown_agents"]:

    def _not_found(target: Target, path: str) -> None:
        require_status(target.ask("DESCRIBE", path), 404)

    CASES.row(_name, "AGTP-107", _title, _not_found, _path)

for _name, _ids, _path in TABLES["malformed_names"]:

    def _check_malformed(target: Target, path: str) -> None:
        require_status(target.ask("DESCRIBE", path), 400, 404, 460)

    CASES.row(_name, _ids, f"{_path[:24]} resolves to nothing.", _check_malformed, _path)


@CASES.each("suffix-{}", "AGTP-109 AGTP-108", ("agent", "nomo", "agtp"), Need.HOSTED)
def check_redirect(target: Target, suffix: str) -> None:
    """A name with .{} is redirected, or unknown; never resolved."""
    answer = require_status(target.ask("DESCRIBE", f"{target.agent_path()}.{suffix}"), 301, 404, 400)
    if answer.status == 301:
        expect(f'.{suffix}"'.encode() not in answer.body.replace(b"path", b""), "the target still has the suffix")


@CASES.case("by-name-and-id", "AGTP-102 AGTP-097 AGTP-126", Need.HOSTED)
def by_id(target: Target) -> None:
    """An agent's name and its canonical Agent-ID resolve to one Identity Document."""
    by_name = _document_in(_read(target))
    by_number = _document_in(
        require_success(target.ask("DESCRIBE", f"/agents/{target.hosted_agents[0]['agent_id']}", who=target.best))
    )
    expect(by_name.get("agent_id") == by_number.get("agent_id"), "they differ")


@CASES.case("resolves-to-listed-id", "AGTP-097 AGTP-102", Need.HOSTED)
def resolves(target: Target) -> None:
    """An agent's name resolves to the Agent-ID that DISCOVER /agents lists."""
    for entry in target.hosted_agents[:5]:
        found = _document_in(require_success(target.ask("DESCRIBE", f"/agents/{entry['name']}", who=target.best)))
        expect(found.get("agent_id") == entry["agent_id"], f"{entry['name']} resolves to another")


@CASES.case("no-suffix-in-documents", "AGTP-108", Need.HOSTED)
def no_suffix(target: Target) -> None:
    """No URI in manifest or lists ends in .agent, .nomo or .agtp."""
    text = json.dumps([target.manifest, *target.hosted_agents])
    for suffix in ('.agent"', '.nomo"', '.agtp"'):
        expect(f"agtp://{suffix}" not in text and suffix not in text, f"one ends in {suffix[:-1]}")


# Formats


@CASES.case("format-manifest", "AGTP-112", Need.HOSTED)
def format_manifest(target: Target) -> None:
    """format=manifest returns the document that no format returns."""
    expect(_document_in(_read(target)) == _document_in(_read(target, "?format=manifest")), "they differ")


@CASES.case("format-json", "AGTP-113 AGTP-112", Need.HOSTED)
def format_json(target: Target) -> None:
    """format=json returns the same document without white space."""
    answer = _read(target, "?format=json")
    expect(_document_in(answer) == _document_in(_read(target)), "the document differs")
    compact = json.dumps(answer.value, separators=(",", ":"), ensure_ascii=False)
    expect(len(answer.body) <= len(compact.encode()), "there is white space")


@CASES.case("format-certificate", "AGTP-114", Need.HOSTED)
def format_certificate(target: Target) -> None:
    """format=certificate returns members of the Genesis, and nothing of the document."""
    found = _document_in(_read(target, "?format=certificate"))
    present = [name for name in ("trust_score", "methods", "capabilities", "status") if name in found]
    expect(not present, f"it has {', '.join(present)}")
    expect(is_hex64(found.get("agent_id")), "it has no agent_id")


@CASES.case("format-status", "AGTP-115", Need.HOSTED)
def format_status(target: Target) -> None:
    """format=status returns the lifecycle state and nothing of the identity."""
    found = _document_in(_read(target, "?format=status"))
    present = [name for name in ("trust_score", "methods", "capabilities", "scopes_accepted") if name in found]
    expect(not present and "lifecycle_state" in found, f"it has {', '.join(present) or 'no lifecycle_state'}")


@CASES.case("format-unknown", "AGTP-111", Need.HOSTED)
def format_unknown(target: Target) -> None:
    """A format that is not known is refused, or ignored."""
    for text in ("package", "code", "..%2F..", "%00"):
        require_status(
            target.ask("DESCRIBE", f"{target.agent_path()}?format={text}", who=target.best), 400, 404, 422, 200
        )


@CASES.case("formats-are-json", "AGTP-116 AGTP-111", Need.HOSTED)
def format_types(target: Target) -> None:
    """Every format is JSON of a type of the drafts'."""
    for text in ("manifest", "json", "certificate", "status"):
        found = _read(target, f"?format={text}").content_type
        expect(found in TYPES, f"{text} is {found}")


# Status and namespace


@CASES.each("status-{}", "AGTP-157 AGTP-115", STATUS, Need.HOSTED)
def in_status(target: Target, name: str) -> None:
    """/agents/NAME/status has {}."""
    if name == "org_domain" and not _document_in(_read(target)).get("org_domain"):
        raise Inapplicable("a hosted agent with an org_domain")
    require_members(_document_in(_read(target, "/status")), [name], "the status document")


@CASES.case("status-values", "AGTP-157", Need.HOSTED)
def status_values(target: Target) -> None:
    """The status document names the agent, its state in lower case and when it was made."""
    found = _document_in(_read(target, "/status"))
    expect(found.get("document_type") == "agtp-status", f"document_type is {found.get('document_type')!r}")
    expect(found.get("canonical_id") == target.hosted_agents[0]["agent_id"], "canonical_id is another agent's")
    expect(
        found.get("lifecycle_state") in ("active", "suspended", "retired", "deprecated"), "the state has another form"
    )
    expect(is_moment(found.get("generated_at")), "generated_at is not RFC 3339")


@CASES.each("namespace-{}", "AGTP-122 AGTP-130", ("DESCRIBE", "QUERY"))
def namespace_by(target: Target, method: str) -> None:
    """{} /agents returns the Agent Namespace Document."""
    found = _document_in(require_success(target.ask(method, "/agents", who=target.best)))
    expect(found.get("document_type") == "agtp-namespace", f"document_type is {found.get('document_type')!r}")


@CASES.each("namespace-{}", "AGTP-130", NAMESPACE)
def in_namespace(target: Target, name: str) -> None:
    """The Namespace Document has {}."""
    require_members(
        _document_in(require_success(target.ask("DESCRIBE", "/agents", who=target.best))),
        [name],
        "the Namespace Document",
    )


@CASES.case("namespace-entries", "AGTP-131 AGTP-132", Need.HOSTED)
def namespace_entries(target: Target) -> None:
    """Entries of the Namespace Document have their eight members, and are active."""
    found = _document_in(require_success(target.ask("DESCRIBE", "/agents", who=target.best)))
    for entry in require_list(found.get("agents"), "agents"):
        require_members(entry, ENTRY, "an entry")
        expect(
            entry["lifecycle_state"] == "active" and is_hex64(entry["canonical_id"]),
            "an entry is not active, or has no id",
        )


@CASES.case("namespace-total", "AGTP-132")
def namespace_total(target: Target) -> None:
    """total_active of the Namespace Document is the number of its entries."""
    found = _document_in(require_success(target.ask("DESCRIBE", "/agents", who=target.best)))
    expect(found.get("total_active") == len(require_list(found.get("agents"), "agents")), "total_active differs")


@CASES.case("namespace-signature-members", "AGTP-130 AGTP-134")
def namespace_signature(target: Target) -> None:
    """The signature of the Namespace Document names algorithm, key and value."""
    found = _document_in(require_success(target.ask("DESCRIBE", "/agents", who=target.best)))
    require_members(found.get("signature"), ("algorithm", "key_id", "value"), "signature")
