"""``?format=`` variants: their form, their signature, and what never leaves the host (core v08 sections 6.1, 6.3)."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.context import EndpointResponse
from agtphost.identity import detached, documents
from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent, AgentCertificate
from agtphost.identity.certificates import create_authority, issue_client_certificate
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.genesis import Genesis
from agtphost.identity.jws import JWSError
from agtphost.methods.discovery.description import Description
from agtphost.methods.discovery.publication import FORMS, DocumentPublisher
from agtphost.vocabulary.catalog import FLOOR
from tests.identity.issued import BARE, DESK
from tests.identity.samples import document, genesis_octets, key_of, pack, place_agent
from tests.methods.hosts import MethodHost
from tests.rows import each_row

HOST = key_of("publishing host")
REGISTRAR = key_of("publishing registrar")
KEYS = {HOST.kid: HOST.public}
ACTIVE = LifecycleState(status=LifecycleStatus.ACTIVE)
METHODS = (*FLOOR, "BOOK")


def describe(agent: Agent, form: str | None = None, *, methods: tuple[str, ...] = METHODS) -> EndpointResponse:
    """The answer to DESCRIBE of one agent."""
    publisher = DocumentPublisher("host", HOST, HOST.public)
    handler = Description(AgentDirectory([agent]), lambda: methods, (), lambda _: ACTIVE, dict, publisher)
    given = {} if form is None else {"format": form}
    context = BuiltInContext(
        input=given, method="DESCRIBE", path="/agents/desk", path_parameters={"name": "desk"}, agent=agent
    )
    answer = handler.handle(context)
    if isinstance(answer, EndpointResponse):
        return answer
    results: list[Any] = []
    Deferred.fromCoroutine(answer).addBoth(results.append)  # type: ignore[arg-type]
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    response: EndpointResponse = results[0]
    return response


def octets(answer: EndpointResponse) -> bytes:
    """The body."""
    assert answer.body is not None
    return answer.body


@pytest.mark.parametrize("form", [None, "manifest"])
def test_the_default_is_readable(form: str | None) -> None:
    """AGTP-112: none and manifest are one indented document."""
    body = octets(describe(DESK, form))
    assert body == octets(describe(DESK)) and b'\n  "agent_id"' in body
    assert json.loads(body)["agent_id"] == DESK.agent_id


def test_json_is_compact_and_equal() -> None:
    """AGTP-113: no insignificant white space, and the same document."""
    body = octets(describe(DESK, "json"))
    assert json.loads(body) == json.loads(octets(describe(DESK)))
    assert body == json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()


def test_yaml_is_equal() -> None:
    """The YAML form holds the same document."""
    answer = describe(DESK, "yaml")
    assert answer.content_type == "application/vnd.agtp.identity+yaml"
    assert yaml.safe_load(octets(answer)) == json.loads(octets(describe(DESK)))


def test_certificate_is_the_genesis_octet_for_octet() -> None:
    """AGTP-114: Genesis members only, unaltered, so that its signature and hash verify."""
    body = octets(describe(DESK, "certificate"))
    assert Genesis.load(body).agent_id == DESK.agent_id
    assert not {"trust_score", "methods", "status"} & json.loads(body).keys()
    with pytest.raises(Refusal, match="genesis-not-loaded"):
        describe(BARE, "certificate")


@each_row("form", [None, "manifest", "json", "yaml", "html", "certificate", "status"])
def test_every_variant_is_signed(form: str | None) -> None:
    """AGTP-116: a detached signature covers the body; one changed octet or another key breaks it."""
    answer = describe(DESK, form)
    signature = dict(answer.headers)[detached.HEADER]
    assert detached.verify(signature, octets(answer), KEYS) == HOST.kid
    for body, keys in ((octets(answer) + b" ", KEYS), (octets(answer), {HOST.kid: REGISTRAR.public})):
        with pytest.raises(JWSError):
            detached.verify(signature, body, keys)
    if form not in ("html", "yaml"):
        assert re.fullmatch(r"application/vnd\.agtp(\.identity)?\+json", answer.content_type)


def signed_agent(tmp_path: Path, **changes: Any) -> Agent:
    """An agent loaded from files, whose document a registrar signed."""
    place_agent(tmp_path, REGISTRAR, **changes)
    agents, problems = load_agents(tmp_path, hosted=True, production=False, trusted_issuers=())
    assert not problems
    return agents[0]


def test_a_registrars_signature_stays_while_it_holds(tmp_path: Path) -> None:
    """AGTP-148, AGTP-140: it is replaced by the host's own once the host lists further methods."""
    agent = signed_agent(
        tmp_path, governance_zone="zone:acme", trust_warning="verification-incomplete", trust_explanation="So."
    )
    as_signed = json.loads(octets(describe(agent, methods=FLOOR)))
    assert documents.check_signature(as_signed) == REGISTRAR.public
    further = json.loads(octets(describe(agent)))
    assert set(METHODS) <= set(further["methods"])
    assert (documents.check_signature(further), further["manifest_issuer"]) == (HOST.public, "host")
    # The control: a host that left the registrar's signature there would serve one that fails.
    with pytest.raises(documents.DocumentError):
        documents.check_signature({**as_signed, "methods": further["methods"]})


SECRETS = {
    "code": "import os",
    "model_weights": [1, 2],
    "api_key": "sk-canary",
    "session_history": ["x"],
    "grant_tokens": ["t"],
}


@pytest.mark.parametrize("form", [None, "json", "yaml", "html", "status", "certificate"])
def test_nothing_beyond_the_schema_is_served(tmp_path: Path, form: str | None) -> None:
    """AGTP-111, AGTP-152: members that are no part of the schema are in no variant."""
    agent = signed_agent(tmp_path, **SECRETS)
    body = octets(describe(agent, form)).decode()
    names = SECRETS.keys() - {"code"} if form == "html" else SECRETS.keys()
    assert not any(name in body for name in names)
    assert "sk-canary" not in body and "import os" not in body
    assert any("never served" in note for note in agent.notes)


@each_row("form", ["package", "code", "../..", "", "MANIFEST", 7, None])
def test_unknown_formats_are_refused(form: Any) -> None:
    """AGTP-111: there is no way to ask for anything else."""
    handler = Description(AgentDirectory([DESK]), list, (), lambda _: ACTIVE, dict)
    context = BuiltInContext(input={"format": form}, method="DESCRIBE", path="/agents/desk",
                              path_parameters={"name": "desk"}, agent=DESK)  # fmt: skip
    with pytest.raises(Refusal, match="422"):
        handler.handle(context)


def test_what_is_known_is_served(tmp_path: Path) -> None:
    """AGTP-142, AGTP-153: what the Genesis and the certificate have is in the document."""
    agent = signed_agent(tmp_path, org_domain=None)
    known = replace(agent, certificate=AgentCertificate(fingerprint="ab" * 32, valid_from=0, valid_to=4e9))
    found = json.loads(octets(describe(known)))
    assert (found["governance_zone"], found["cert_status"]) == ("zone:acme", "active")
    expired = replace(agent, certificate=AgentCertificate(fingerprint="ab" * 32, valid_from=0, valid_to=1))
    assert json.loads(octets(describe(expired)))["cert_status"] == "expired"


def test_every_recommended_member_is_served(tmp_path: Path) -> None:
    """AGTP-142: what an operator states of an agent is in its document, in its own type."""
    stated: dict[str, Any] = {
        "trust_tier": 2,
        "verification_path": "org-asserted",
        "owner_id": "acme.tld",
        "role": "librarian",
        "governance_zone": "zone:acme",
        "dns_anchor_record": "_agtp.acme.tld",
        "audit_log_uri": "https://acme.tld/log",
        "escalation_policy": "agtp://acme.tld/policies/escalation",
        "delegation_permitted": True,
        "max_delegation_depth": 3,
    }
    given = {name: value for name, value in stated.items() if name not in ("trust_tier", "verification_path")}
    found = json.loads(octets(describe(signed_agent(tmp_path, **given))))
    assert {name: found.get(name) for name in stated} == stated


RECOMMENDED = {
    "trust_tier": int,
    "verification_path": str,
    "owner_id": str,
    "role": str,
    "org_domain": str,
    "governance_zone": str,
    "cert_fingerprint": str,
    "cert_status": str,
    "dns_anchor_record": str,
    "log_inclusion_proof": dict,
    "package_format": str,
    "package_integrity_hash": str,
    "audit_log_uri": str,
    "escalation_policy": str,
    "delegation_permitted": bool,
    "max_delegation_depth": int,
}
"""The members that core v08 section 6.3 recommends, and their types."""


@each_row("form", ["json", "yaml"])
def test_all_sixteen_recommended_members_are_served(form: str) -> None:
    """AGTP-142: of an agent with a package, a certificate and a log entry, each in its own type."""
    proof = {"log_id": "log.acme.tld", "tree_size": 7}
    now = datetime.now(UTC)
    certificate = issue_client_certificate(
        create_authority(now=now), REGISTRAR.public, label="desk", organization="acme", now=now
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "desk.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        agent = packaged_agent(
            Path(folder),
            origin={"org_domain": "acme.tld", "log_inclusion_proof": proof},
            role="librarian",
            dns_anchor_record="_agtp.acme.tld",
            audit_log_uri="https://acme.tld/log",
            escalation_policy="agtp://acme.tld/policies/escalation",
            delegation_permitted=True,
            max_delegation_depth=3,
        )
        body = octets(describe(agent, form))
    found = json.loads(body) if form == "json" else yaml.safe_load(body)
    assert {name: type(found.get(name)) for name in RECOMMENDED} == RECOMMENDED
    assert (found["org_domain"], found["log_inclusion_proof"]) == ("acme.tld", proof)
    assert found["cert_fingerprint"] == certificate.fingerprint(SHA256()).hex()
    assert found["cert_status"] in ("active", "pending") and found["package_format"] == "agent"


def test_a_pseudonym_is_a_name_like_any_other(tmp_path: Path) -> None:
    """AGTP-318: an agent whose name, owner and principal say nothing of anybody is admitted and served as it is."""
    pseudonym = {"principal": "7f3a-principal", "owner_id": "owner-c21e", "description": "An agent."}
    agent = signed_agent(tmp_path, name="p-91d0", **pseudonym)
    # What lists, records and headers say.
    assert {name: getattr(agent, name) for name in pseudonym} == pseudonym and agent.name == "p-91d0"
    found = json.loads(octets(describe(agent)))
    assert (found["name"], found["agent_id"]) == ("p-91d0", agent.agent_id)
    assert {name: found[name] for name in pseudonym} == pseudonym
    assert not {"acme.tld", "Jürgen & Søn"} & {str(found.get(name)) for name in ("name", *pseudonym)}


def test_answers_are_kept_until_something_changes() -> None:
    """The same answer is signed once; another state makes another."""
    publisher = DocumentPublisher("host", HOST, HOST.public)
    first = publisher.identity(DESK, ACTIVE, METHODS, "json")
    assert publisher.identity(DESK, ACTIVE, METHODS, "json") is first
    gone = LifecycleState(status=LifecycleStatus.DEPRECATED, since="2026-08-01T00:00:00Z", successor="ab" * 32)
    later = publisher.identity(DESK, gone, METHODS, "json")
    assert json.loads(octets(later))["successor_agent_id"] == "ab" * 32
    assert set(FORMS) == {"manifest", "json", "yaml", "html"}


def packaged_agent(tmp_path: Path, origin: Mapping[str, Any] | None = None, **members: Any) -> Agent:
    """An agent that lies in a package; ``members`` are its document's, ``origin`` its Genesis's."""
    stated = document(trust_tier=2, verification_path="org-asserted", **members)
    manifest = {name: value for name, value in stated.items() if name != "agent_id"}
    reference = pack(tmp_path / "desk.agent", manifest, {"code/main.py": b"print('canary')"})
    genesis = genesis_octets(REGISTRAR, members={"org_label": "desk", "package_ref": reference, **(origin or {})})
    (tmp_path / "desk.genesis.json").write_bytes(genesis)
    (tmp_path / "desk.agent.json").write_text(json.dumps({"name": "another", "description": "edited"}))
    agents, problems = load_agents(tmp_path, hosted=True, production=True, trusted_issuers=[REGISTRAR.public])
    assert not problems, problems
    return agents[0]


def test_a_packaged_agent_is_served_from_its_package(tmp_path: Path) -> None:
    """AGTP-154: the editable file beside it says nothing; format and hash are recorded; the code is not served."""
    agent = packaged_agent(tmp_path)
    found = json.loads(octets(describe(agent)))
    assert (found["name"], found["package_format"]) == ("desk", "agent")
    assert re.fullmatch("sha256:[0-9a-f]{64}", found["package_integrity_hash"])
    for form in ("json", "yaml", "html", "certificate"):
        assert b"canary" not in octets(describe(agent, form))


def test_a_package_that_changed_is_not_served(tmp_path: Path) -> None:
    """AGTP-120: one flipped bit is 500 package-integrity-failure, and restored it is served again."""
    agent = packaged_agent(tmp_path)
    path = tmp_path / "desk.agent"
    good = path.read_bytes()
    assert describe(agent).body
    path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
    with pytest.raises(Refusal) as refused:
        describe(agent)
    assert (refused.value.status, refused.value.reason) == (500, "package-integrity-failure")
    path.unlink()
    with pytest.raises(Refusal, match="package-integrity-failure"):
        describe(agent)
    path.write_bytes(good)
    assert describe(agent).body


# By Accept


@each_row(
    ("accept", "content_type"),
    [
        ("application/vnd.agtp.identity+yaml", "application/vnd.agtp.identity+yaml"),
        ("Application/VND.agtp.Identity+YAML;q=0.5", "application/vnd.agtp.identity+yaml"),
        ("application/vnd.agtp+yaml", "application/vnd.agtp.identity+yaml"),
        (
            "application/vnd.agtp.identity+json;q=0.2, application/vnd.agtp.identity+yaml;q=0.9",
            "application/vnd.agtp.identity+yaml",
        ),
        (
            "application/vnd.agtp.identity+yaml;q=0.2, application/vnd.agtp.identity+json",
            "application/vnd.agtp.identity+json",
        ),
        ("application/vnd.agtp.identity+yaml;q=0", "application/vnd.agtp.identity+json"),
        ("application/vnd.agtp.identity+yaml;q=2", "application/vnd.agtp.identity+json"),
        ("*/*", "application/vnd.agtp.identity+json"),
        ("image/png", "application/vnd.agtp.identity+json"),
        (",;=,", "application/vnd.agtp.identity+json"),
        ("application/yaml", "application/vnd.agtp.identity+yaml"),
        ("*/*;q=0.5, application/yaml;Q=0.4", "application/vnd.agtp.identity+json"),
        ("*/*;q=0.3, application/yaml;Q=0.4", "application/vnd.agtp.identity+yaml"),
    ],
)
def test_accept_chooses_the_form_of_an_identity_document(accept: str, content_type: str) -> None:
    """AGTP-092: JSON or YAML under its own media type, the same document; what is not known is passed over."""
    response = MethodHost().ask("DESCRIBE", "/agents/desk", headers={"Accept": accept})
    assert (response.status, response.headers.get("content-type")) == (200, content_type)
    read = yaml.safe_load if content_type.endswith("yaml") else json.loads
    assert read(response.body) == json.loads(MethodHost().ask("DESCRIBE", "/agents/desk").body)


@each_row(
    ("accept", "shown"),
    [
        ("text/html", True),
        ("TEXT/HTML;q=0.3, application/*;q=0.2", True),
        ("text/*", True),
        ("text/html;q=0.4, */*;q=0.5", False),
        ("text/html;q=0", False),
    ],
)
def test_accept_chooses_the_page_of_an_identity_document(accept: str, shown: bool) -> None:
    """A page for people is sent to those that prefer HTML, or any text."""
    response = MethodHost().ask("DESCRIBE", "/agents/desk", headers={"Accept": accept})
    assert (response.headers.get("content-type") or "").startswith("text/html") is shown
    assert response.body.startswith(b"<!DOCTYPE html>") is shown


def test_format_outweighs_accept() -> None:
    """``?format=`` is the more exact wish."""
    yaml_too = {"Accept": "application/vnd.agtp.identity+yaml"}
    response = MethodHost().ask("DESCRIBE", "/agents/desk", {"format": "json"}, headers=yaml_too)
    assert response.headers.get("content-type") == "application/vnd.agtp.identity+json"


@pytest.mark.parametrize("path", ["/agents", "/agents/desk/status"])
def test_documents_of_the_server_as_yaml(path: str) -> None:
    """AGTP-320: by Accept and by ``?format=yaml``, as ``application/vnd.agtp+yaml``; the same members."""
    plain = MethodHost().ask("DESCRIBE", path)
    assert plain.headers.get("content-type") == "application/vnd.agtp+json"
    wanted = {"Accept": "application/vnd.agtp+yaml"}
    for response in (
        MethodHost().ask("DESCRIBE", path, headers=wanted),
        MethodHost().ask("DESCRIBE", path, {"format": "yaml"}),
    ):
        assert response.headers.get("content-type") == "application/vnd.agtp+yaml"
        assert yaml.safe_load(response.body).keys() == json.loads(plain.body).keys()
