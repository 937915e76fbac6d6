"""DESCRIBE: capabilities, Identity Documents, the namespace and status (core v08 sections 6 and 7.2.3)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.contract.policy import MethodPolicy
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.host.bindings import units_of
from agtphost.identity.canonical import canonical
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.encoding import decode
from agtphost.identity.peer import Assurance
from agtphost.methods.discovery.description import DOMAINS, Description, version_key
from agtphost.methods.discovery.namespace import Namespace, address
from agtphost.stores.rows import StateRow
from tests.fakes import NOW
from tests.identity.issued import CALLER, DESK, SIGNING, agent, of_agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost, Toolbox
from tests.methods.test_discovery import tool
from tests.rows import each_row

ONE = (DESK, CALLER)


def describe_host(host: MethodHost, **parameters: Any) -> dict[str, Any]:
    """The result of DESCRIBE / as demo."""
    response = host.ask("DESCRIBE", body=parameters or None, certificate=of_agent(CALLER.agent_id))
    assert response.status == 200, response.body
    result = body_of(response)["result"]
    assert isinstance(result, dict)
    return result


def test_the_capability_document() -> None:
    """Core v08 section 7.2.3: methods, modalities, tools, version, budget units and zones, with the trust score."""
    tools = (tool("files.read", (), Assurance.HEADER), tool("files.wipe", ("documents:write",), Assurance.HEADER))
    result = describe_host(MethodHost(agents=ONE, adapter=Toolbox(*tools)))
    assert result["tools"] == ["files.read"]
    assert "DESCRIBE" in result["methods"] and "REVOKE" in result["methods"]
    assert result["zones_accepted"] == ["zone:acme"]
    assert result["version"] == "1.0" and result["version_min_satisfied"] is True
    assert result["budget_units_accepted"] == []
    assert "streaming" in result["modalities"]
    assert result["trust_score"] == DESK.document["trust_score"]
    assert result["hosted_protocols"][0]["name"] == "files"


def test_budget_units_are_those_of_the_costs() -> None:
    """Core v08 section 7.2.3: the units that a call here can be held to, and no others."""
    handler = tool("files.read", (), Assurance.HEADER).handler
    costs = [{"tokens": Decimal(5), "EUR": Decimal(1)}, None, {"tokens": Decimal(7)}]
    found = [Binding(method="QUERY", path="/x", handler=handler, tier="B", cost=cost) for cost in costs]
    assert units_of(found) == {"tokens", "EUR"}


def test_only_methods_that_something_is_bound_to_are_named() -> None:
    """A method of the floor that nothing answers is not promised."""
    result = describe_host(MethodHost(agents=ONE))
    for method in result["methods"]:
        path = {"QUERY": "/agents", "FETCH": "/agents", "AUTHORIZE": "/grants"}.get(method, "/")
        assert MethodHost(agents=ONE).ask(method, path).status not in (404, 405), method
    without = MethodHost(agents=ONE, policy=MethodPolicy(disallow=frozenset({"PLAN"})))
    assert without.ask("PLAN").status == 405
    assert "PLAN" in result["methods"] and "PLAN" not in describe_host(without)["methods"]


@each_row(
    ("domains", "members"),
    [
        ("methods", {"methods"}),
        ("modalities", {"modalities"}),
        ("tools", {"tools", "hosted_protocols"}),
        ("version", {"version", "version_min_satisfied"}),
        ("budget", {"budget_units_accepted"}),
        ("zones", {"zones_accepted"}),
        ("version, zones", {"version", "version_min_satisfied", "zones_accepted"}),
    ],
)
def test_capability_domains_select(domains: str, members: set[str]) -> None:
    """``capability_domains`` narrows the document to the named parts."""
    assert set(describe_host(MethodHost(agents=ONE), capability_domains=domains)) - {"trust_score"} == members


@pytest.mark.parametrize("domains", ["colours", "methods,,tools", "methods,COLOURS"])
def test_an_unknown_domain_is_422(domains: str) -> None:
    """An unknown domain is refused with the known ones."""
    response = MethodHost(agents=ONE).ask("DESCRIBE", body={"capability_domains": domains})
    assert (response.status, body_of(response)["parameter"]) == (422, "capability_domains")
    assert all(domain in body_of(response)["remedy"] for domain in DOMAINS)


@each_row(
    ("version", "satisfied"),
    [("0.9", True), ("1", True), ("1.0", True), ("1.0.0", True), ("1.0.1", False), ("1.1", False), ("10.0", False)],
)
def test_version_min_compares_numbers(version: str, satisfied: bool) -> None:
    """``version_min`` is compared number by number, not as text."""
    assert describe_host(MethodHost(agents=ONE), version_min=version)["version_min_satisfied"] is satisfied


@each_row("version", ["one", "1.", ".1", "1.0.0.0", "v1", "1.0\n", "٣"])
def test_a_version_that_is_none_is_422(version: str) -> None:
    """A malformed ``version_min`` is refused."""
    response = MethodHost(agents=ONE).ask("DESCRIBE", body={"version_min": version})
    assert (response.status, body_of(response)["parameter"]) == (422, "version_min")


def test_version_key_orders_versions() -> None:
    """1.10 is later than 1.9."""
    assert version_key("1.9") < version_key("1.10") < version_key("2")


# Identity Documents


def test_an_identity_document_is_served_with_its_own_type() -> None:
    """AGTP-092, AGTP-136, AGTP-153: all required members, for anyone, by label and by Agent-ID."""
    for label in ("desk", DESK.agent_id):
        response = MethodHost().ask("DESCRIBE", f"/agents/{label}")
        document = body_of(response)
        assert response.headers.get("content-type") == "application/vnd.agtp.identity+json"
        assert document["agent_id"] == DESK.agent_id
        assert document["document_type"] == "agtp-identity"
        assert document["status"] == "active"


def test_the_lifecycle_state_overlays_the_document() -> None:
    """AGTP-119, AGTP-244: a deprecated agent is served, with its state, its successor and the deadline."""
    host = MethodHost()
    host.states.apply(
        DESK.agent_id,
        StateRow(
            status="deprecated",
            since=NOW,
            reason=None,
            successor=CALLER.agent_id,
            deadline="2027-01-31T00:00:00Z",
        ),
    )
    document = body_of(host.ask("DESCRIBE", "/agents/desk"))
    assert document["status"] == "deprecated"
    assert document["successor_agent_id"] == CALLER.agent_id
    assert document["migration_deadline"] == "2027-01-31T00:00:00Z"
    assert document["updated_at"] == NOW


@pytest.mark.parametrize(
    ("state", "status", "reason", "when"),
    [("suspended", 503, "agent-suspended", "since"), ("retired", 410, "agent-retired", "revoked_at")],
)
def test_a_stopped_agent_does_not_resolve(state: str, status: int, reason: str, when: str) -> None:
    """AGTP-117, AGTP-118: 503 or 410 with the state and its time in the body."""
    host = MethodHost()
    host.put(DESK, state)
    response = host.ask("DESCRIBE", "/agents/desk")
    body = body_of(response)
    assert (response.status, body["reason"], body["lifecycle_state"]) == (status, reason, state)
    assert body[when] == NOW


@each_row("state", ["active", "suspended", "deprecated", "retired"])
@each_row("how", ["path", "format"])
def test_the_status_stays_readable(state: str, how: str) -> None:
    """AGTP-115, AGTP-157: the status document is served in every state, with exactly its members."""
    host = MethodHost()
    host.put(DESK, state)
    response = (
        host.ask("DESCRIBE", "/agents/desk/status")
        if how == "path"
        else host.ask("DESCRIBE", "/agents/desk", query="format=status")
    )
    assert response.status == 200
    found = body_of(response)
    assert found.pop("generated_at").endswith("Z")
    assert found == {
        "document_type": "agtp-status",
        "canonical_id": DESK.agent_id,
        "agent_label": "desk",
        "org_domain": "agtp.test",
        "lifecycle_state": state,
        "cert_status": "none",
        "last_action_method": None,
        "last_action_timestamp": None,
        "pending_escalations": 0,
    }


def test_other_formats_and_names_are_refused() -> None:
    """An unknown format is 422, an agent that is not hosted 404, whether it is known as a caller or not."""
    host = MethodHost()
    assert host.ask("DESCRIBE", "/agents/desk", query="format=json").status == 200
    assert host.ask("DESCRIBE", "/agents/desk", query="format=package").status == 422
    for name in ("nobody", "demo", CALLER.agent_id, "e" * 64):
        response = host.ask("DESCRIBE", f"/agents/{name}")
        assert (response.status, body_of(response)["reason"]) == (404, "agent-not-hosted"), name


# The namespace


def namespace(host: MethodHost, method: str = "DESCRIBE") -> dict[str, Any]:
    """The namespace document."""
    document = body_of(host.ask(method, "/agents"))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("method", ["DESCRIBE", "QUERY"])
def test_the_namespace_document_is_signed(method: str) -> None:
    """AGTP-130, 131, 134: required members, and a signature over all of it; one changed octet breaks it."""
    host = MethodHost()
    document = body_of(host.ask(method, "/agents", headers={"Agent-ID": CALLER.agent_id}))
    assert document["document_type"] == "agtp-namespace"
    for member in ("schema_version", "org_domain", "governance_zone", "generated_at", "namespace_cert_fingerprint"):
        assert document[member], member
    assert document["total_active"] == len(document["agents"]) == 2
    assert set(document["agents"][0]) == {
        "agent_label",
        "canonical_id",
        "lifecycle_state",
        "trust_tier",
        "cert_status",
        "manifest_uri",
        "activated_at",
        "last_updated",
    }
    signature = document.pop("signature")
    assert (signature["algorithm"], signature["key_id"]) == ("EdDSA", SIGNING.kid)
    octets = decode(signature["value"])
    assert SIGNING.public.verify(octets, canonical(document))
    assert not SIGNING.public.verify(octets, canonical({**document, "generated_at": "2020-01-01T00:00:00Z"}))


def test_only_active_agents_are_in_the_namespace() -> None:
    """AGTP-130, AGTP-132, AGTP-133: others are gone with the very next reading, and not counted."""
    host = MethodHost()
    for state in ("suspended", "deprecated", "retired"):
        host.put(DESK, state)
        shown = namespace(host)
        assert ([entry["agent_label"] for entry in shown["agents"]], shown["total_active"]) == (["bare"], 1)
    host.put(DESK, "active")
    assert namespace(host)["total_active"] == 2


def test_an_unchanged_namespace_is_shown_again() -> None:
    """With its time and signature, for a minute, so that repeated reads are of the same list; never a former state."""
    clock = Clock()
    shown = (DESK, agent("other", hosted=True))
    made = Namespace(
        AgentDirectory(shown),
        (states := LifecycleTable()).state_of,
        SIGNING,
        org_domain="agtp.test",
        certificate_fingerprint=lambda: "aa",
        now=lambda: str(clock.seconds()),
        clock=clock.seconds,
    )
    first = made()
    clock.advance(30)
    assert made() == first and first["generated_at"] == "0.0"
    assert [each["agent_label"] for each in made(lambda agent: agent.name == "desk")["agents"]] == ["desk"]
    clock.advance(31)
    later = made()
    assert later["generated_at"] == "61.0" and later["agents"] == first["agents"]
    row = StateRow(status="suspended", since=NOW, reason=None, successor=None, deadline=None)
    states.apply(DESK.agent_id, row)
    assert [each["agent_label"] for each in made()["agents"]] == ["other"]


def test_tier_3_is_in_no_public_list() -> None:
    """AGTP-169, AGTP-176: an experimental agent answers under its name, and is not in the Namespace Document."""
    other = agent("other", hosted=True)
    experimental = replace(other, posture=replace(other.posture, trust_tier=3))
    host = MethodHost(agents=(DESK, experimental))
    assert [entry["agent_label"] for entry in namespace(host)["agents"]] == ["desk"]
    assert host.ask("DESCRIBE", "/agents/other").status == 200


def test_addresses_in_the_namespace_are_uris_where_there_is_a_domain() -> None:
    """AGTP-131, AGTP-108: ``manifest_uri`` is of form 3 or 4, never a file name."""
    addresses = [entry["manifest_uri"] for entry in namespace(MethodHost())["agents"]]
    assert addresses == ["agtp://agtp.test/agents/bare", "agtp://agtp.test/agents/desk"]
    assert (address("desk", "localhost"), address("desk", "127.0.0.1")) == ("/agents/desk", "/agents/desk")


def test_a_zone_is_named_only_where_all_agree() -> None:
    """``governance_zone`` is one value: agents of two zones leave it empty."""
    host = MethodHost(agents=(DESK, agent("other", hosted=True, zone="zone:else")))
    assert namespace(host)["governance_zone"] == ""


def test_without_a_key_the_signature_is_null() -> None:
    """A host that does not sign says so; it makes nothing up."""
    assert namespace(MethodHost({"host": {"profile": "development"}, "audit": {"signing": False}}))["signature"] is None


def test_the_handler_is_one() -> None:
    """The handler keeps to its interface."""
    handler = Description(AgentDirectory([]), list, (), LifecycleTable().state_of, dict)
    assert verifyObject(IBuiltInHandler, handler)
