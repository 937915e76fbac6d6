"""Loading agents: pairs and folders, every problem at once, nothing doubtful admitted."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from zope.interface.verify import verifyObject

from agtphost.errors import Problem
from agtphost.iagtp import IAgentDirectory
from agtphost.identity import documents
from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent, distinct, reconsider
from agtphost.identity.certificates import create_authority, issue_agent_certificate
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.trust import TrustedIssuers
from tests.identity.samples import document, genesis_octets, key_of, place_agent

KEY = key_of("agents key")


def load(
    directory: Path, *, hosted: bool = True, production: bool = False, issuers: tuple[SigningKey, ...] = ()
) -> tuple[list[Agent], list[Problem]]:
    return load_agents(directory, hosted=hosted, production=production, trusted_issuers=[key.public for key in issuers])


def rewrite(path: Path, **changes: Any) -> None:
    """Change members of a JSON file; None removes one."""
    members = {**json.loads(path.read_bytes()), **changes}
    path.write_text(json.dumps({n: v for n, v in members.items() if v is not None}))


def test_folders_and_pairs_are_read_together(tmp_path: Path) -> None:
    """AGTP-API section 5.8.1 pairs and interface section 1 folders, in label order."""
    first = place_agent(tmp_path, KEY, name="concierge")
    second = place_agent(tmp_path, KEY, name="archive", paired=True)
    (tmp_path / "README").write_text("not an agent")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".hidden.agent.json").write_text("{")
    agents, problems = load(tmp_path)
    assert problems == []
    assert [(agent.name, agent.agent_id) for agent in agents] == [("archive", second), ("concierge", first)]
    agent = agents[1]
    assert agent.hosted
    assert agent.genesis is not None
    assert agent.issuer_fingerprint == KEY.public.fingerprint
    assert agent.scopes == {"documents:query", "booking:*"}
    assert (agent.posture.trust_tier, agent.owner_id) == (2, "acme.tld")
    assert agent.document_octets == (tmp_path / "concierge" / "document.json").read_bytes()
    assert agent.governance_zone == "zone:acme"


def test_the_served_document_states_the_posture(tmp_path: Path) -> None:
    """AGTP-143, AGTP-153: what headers and lists say, the document says."""
    place_agent(tmp_path, KEY, signed=False)
    agent = load(tmp_path)[0][0]
    assert agent.document["trust_warning"] == agent.posture.trust_warning == "verification-incomplete"
    assert agent.served_document(status="suspended")["status"] == "suspended"
    assert agent.document["status"] == agent.document_status == "active"


def test_every_problem_is_told_and_the_rest_admitted(tmp_path: Path) -> None:
    """Three broken agents give their own problems, each with its file; the fourth is admitted."""
    for name in ("a", "b", "c", "d"):
        place_agent(tmp_path, KEY, name=name)
    rewrite(tmp_path / "a" / "document.json", trust_score=7, status="asleep")
    (tmp_path / "b" / "genesis.json").write_text("{")
    (tmp_path / "c" / "document.json").unlink()
    agents, problems = load(tmp_path)
    assert [agent.name for agent in agents] == ["d"]
    assert {Path(problem.file).parent.name for problem in problems} == {"a", "b", "c"}
    assert all(problem.message for problem in problems)


def test_unsigned_faults_are_all_reported(tmp_path: Path) -> None:
    """AGTP-136: one problem for each member that is wrong, naming it."""
    place_agent(tmp_path, KEY, signed=False)
    rewrite(tmp_path / "desk" / "document.json", trust_score=7, status="asleep", issuer=None)
    _, problems = load(tmp_path)
    assert [problem.message.split(":")[0] for problem in problems] == ["issuer", "status", "trust_score"]


def test_an_altered_signed_document_is_not_admitted(tmp_path: Path) -> None:
    """AGTP-148: a document that its signature does not cover is refused, in development too."""
    place_agent(tmp_path, KEY)
    rewrite(tmp_path / "desk" / "document.json", description="Pays bills.")
    agents, problems = load(tmp_path)
    assert agents == []
    assert "manifest_signature" in problems[0].message


def test_an_altered_genesis_is_not_admitted(tmp_path: Path) -> None:
    """AGTP-163: the agent is refused, not merely its Genesis dropped."""
    place_agent(tmp_path, KEY)
    rewrite(tmp_path / "desk" / "genesis.json", owner="Thief")
    agents, problems = load(tmp_path)
    assert agents == []
    assert "agent_id" in problems[0].message


def test_anothers_genesis_is_dropped_with_a_note(tmp_path: Path) -> None:
    """Companion section 3.1: hash and document disagree: the Genesis goes, in production the agent."""
    place_agent(tmp_path, KEY)
    path = tmp_path / "desk" / "genesis.json"
    path.write_bytes(genesis_octets(KEY, issued_at="2026-05-01T09:00:01Z"))
    agents, problems = load(tmp_path)
    assert problems == []
    assert agents[0].genesis is None
    assert agents[0].issuer_fingerprint is None
    assert any("another agent's" in note for note in agents[0].notes)
    agents, problems = load(tmp_path, production=True, issuers=(KEY,))
    assert agents == []
    assert "another agent's" in problems[0].message


def test_without_a_genesis_in_development_only(tmp_path: Path) -> None:
    """Transport-only agents are for development: production needs the Genesis (AGTP-159)."""
    place_agent(tmp_path, KEY)
    (tmp_path / "desk" / "genesis.json").unlink()
    agents, problems = load(tmp_path)
    assert problems == []
    assert agents[0].genesis is None
    assert load(tmp_path, production=True, issuers=(KEY,))[0] == []


@pytest.mark.parametrize("issuers", [(), (key_of("agents test_production_trusts_named_issuers_only"),)])
def test_production_trusts_named_issuers_only(tmp_path: Path, issuers: tuple[SigningKey, ...]) -> None:
    """AGTP-149, AGTP-165: unknown issuers are refused; none named means none trusted."""
    place_agent(tmp_path, KEY)
    agents, problems = load(tmp_path, production=True, issuers=issuers)
    assert agents == []
    assert "untrusted issuer" in problems[0].message
    agents, problems = load(tmp_path, production=True, issuers=(*issuers, KEY))
    assert problems == []
    assert len(agents) == 1


def test_production_judges_document_and_genesis_apart(tmp_path: Path) -> None:
    """A trusted document does not vouch for a stranger's Genesis."""
    stranger = SigningKey.generate()
    place_agent(tmp_path, stranger)
    path = tmp_path / "desk" / "document.json"
    path.write_text(json.dumps(documents.sign(json.loads(path.read_bytes()), "registrar", KEY)))
    agents, problems = load(tmp_path, production=True, issuers=(KEY,))
    assert agents == []
    assert Path(problems[0].file).name == "genesis.json"
    assert len(load(tmp_path, production=True, issuers=(KEY, stranger))[0]) == 1


def test_production_refuses_unsigned_documents(tmp_path: Path) -> None:
    """AGTP-151: production verifies every document; the hint names the command."""
    place_agent(tmp_path, KEY, signed=False)
    agents, problems = load(tmp_path, production=True, issuers=(KEY,))
    assert agents == []
    assert "agtp document sign" in problems[0].hint
    assert len(load(tmp_path)[0]) == 1


def test_production_refuses_self_signed_genesis(tmp_path: Path) -> None:
    """AGTP-165: self-signed is refused in production even under a trusted key, noted in development."""
    octets = genesis_octets(KEY, agent_key=KEY.public)
    members = document(agent_id=Genesis.load(octets).agent_id, trust_tier=2, verification_path="org-asserted")
    (tmp_path / "desk.genesis.json").write_bytes(octets)
    (tmp_path / "desk.agent.json").write_text(json.dumps(documents.sign(members, "registrar", KEY)))
    agents, problems = load(tmp_path, production=True, issuers=(KEY,))
    assert agents == []
    assert "self-signed" in problems[0].message
    agents, _ = load(tmp_path)
    assert any("self-signed" in note for note in agents[0].notes)


def test_development_with_anchors_caps_the_tier(tmp_path: Path) -> None:
    """Companion section 4: an issuer outside the configured anchors is worth tier 2."""
    octets = genesis_octets(KEY, trust_tier=1, verification_path="dns-anchored")
    members = document(agent_id=Genesis.load(octets).agent_id, trust_tier=None, verification_path=None)
    (tmp_path / "desk.genesis.json").write_bytes(octets)
    (tmp_path / "desk.agent.json").write_text(json.dumps(members))
    assert load(tmp_path)[0][0].posture.trust_tier == 1
    assert load(tmp_path, issuers=(KEY,))[0][0].posture.trust_tier == 1
    assert load(tmp_path, issuers=(SigningKey.generate(),))[0][0].posture.trust_tier == 2


def test_a_contradicting_verification_path_is_refused(tmp_path: Path) -> None:
    """AGTP-144: the document may not claim another path than its Genesis."""
    place_agent(tmp_path, KEY, signed=False)
    rewrite(tmp_path / "desk" / "document.json", verification_path="hybrid")
    agents, problems = load(tmp_path)
    assert agents == []
    assert problems[0].message.startswith("verification_path")


def test_scopes_beyond_the_genesis_do_not_count(tmp_path: Path) -> None:
    """The document decides within its Genesis; what it says beyond is noted, and needs a statement of the issuer."""
    place_agent(tmp_path, KEY, scopes_accepted=["documents:query", "booking:room", "payments:purchase"])
    agent = load(tmp_path)[0][0]
    assert agent.scopes == {"documents:query", "booking:room"}
    assert "payments:purchase" in agent.document["scopes_accepted"]
    assert [note for note in agent.notes if "beyond" in note] == [
        "the document declares payments:purchase beyond the Genesis's scope, which counts as far as a statement of the "
        "issuer is on record: agtp agent rights desk"
    ]


def test_labels(tmp_path: Path) -> None:
    """A hosted agent needs a label that a path can have; a caller may be called anything."""
    place_agent(tmp_path, KEY, name="desk")
    path = tmp_path / "desk" / "document.json"
    rewrite(path, name="p-91d0", manifest_signature=None)
    assert load(tmp_path)[0][0].name == "p-91d0", "AGTP-318: a pseudonym is a label too"
    rewrite(path, name="The Desk, Room 4")
    assert load(tmp_path)[0][0].name == "desk"
    (tmp_path / "desk").rename(tmp_path / "the desk")
    agents, problems = load(tmp_path)
    assert agents == []
    assert problems[0].message.startswith("name: 'The Desk, Room 4'")
    assert load(tmp_path, hosted=False)[0][0].name == "the desk"


def test_agents_that_share_an_identity_are_all_left_out(tmp_path: Path) -> None:
    """Two documents under one Agent-ID, or one label: neither is certain, both are told."""
    place_agent(tmp_path, KEY, name="desk")
    for name in ("genesis", "document"):
        source = tmp_path / "desk" / f"{name}.json"
        suffix = {"genesis": "genesis", "document": "agent"}[name]
        (tmp_path / f"copy.{suffix}.json").write_bytes(source.read_bytes())
    place_agent(tmp_path, KEY, name="other")
    agents, problems = load(tmp_path)
    assert [agent.name for agent in agents] == ["other"]
    assert len(problems) == 2
    assert all(problem.message.startswith("agent_id") for problem in problems)


def test_one_label_twice(tmp_path: Path) -> None:
    """Hosted agents may not share a label; callers may, as nothing addresses them by it."""
    for index in (1, 2):
        octets = genesis_octets(KEY, issued_at=f"2026-05-01T09:00:0{index}Z")
        members = document(agent_id=Genesis.load(octets).agent_id, trust_tier=2, verification_path="org-asserted")
        (tmp_path / f"{index}.genesis.json").write_bytes(octets)
        (tmp_path / f"{index}.agent.json").write_text(json.dumps(members))
    agents, problems = load(tmp_path)
    assert agents == []
    assert [problem.message for problem in problems] == ["name: another agent has desk too"] * 2
    callers, problems = load(tmp_path, hosted=False)
    assert (len(callers), problems) == (2, [])
    assert distinct(callers) == (callers, [])


def test_descriptions_wait_for_their_issue(tmp_path: Path) -> None:
    """A ``*.agent.json`` without agent_id is passed over in development, and a problem in production."""
    (tmp_path / "desk.agent.json").write_text('{"name": "desk", "scopes_accepted": ["a:b"]}')
    assert load(tmp_path) == ([], [])
    agents, problems = load(tmp_path, production=True)
    assert agents == []
    assert any("agent_id" in problem.message for problem in problems)


def test_a_missing_directory_is_a_problem(tmp_path: Path) -> None:
    """The host says so instead of starting without its agents."""
    agents, problems = load(tmp_path / "nowhere")
    assert agents == []
    assert "does not exist" in problems[0].message


def test_unreadable_files_are_problems(tmp_path: Path) -> None:
    """A directory where a file belongs is told like any other problem."""
    place_agent(tmp_path, KEY)
    (tmp_path / "desk" / "genesis.json").unlink()
    (tmp_path / "desk" / "genesis.json").mkdir()
    agents, problems = load(tmp_path)
    assert agents == []
    assert "cannot be read" in problems[0].message


def test_the_directory_answers_by_id_and_label(tmp_path: Path) -> None:
    """IAgentDirectory: hosted agents by label, all agents by Agent-ID."""
    place_agent(tmp_path / "hosted", KEY, name="desk")
    place_agent(tmp_path / "known", KEY, name="caller")
    hosted, _ = load(tmp_path / "hosted")
    known, _ = load(tmp_path / "known", hosted=False)
    again, _ = load(tmp_path / "hosted", hosted=False)
    directory = AgentDirectory([*again, *known, *hosted])
    assert verifyObject(IAgentDirectory, directory)
    assert directory.list_hosted() == tuple(hosted)
    assert directory.by_name("desk") is hosted[0]
    assert directory.by_id(hosted[0].agent_id) is hosted[0]
    assert directory.by_name("caller") is None
    assert directory.by_id(known[0].agent_id) is known[0]
    assert directory.by_id("0" * 64) is None
    assert directory.list_known() == [known[0], hosted[0]]


def test_two_hosted_agents_of_one_label_never_come_together(tmp_path: Path) -> None:
    """Directories loaded apart may clash; the directory refuses rather than pick one."""
    first = place_agent(tmp_path / "a", KEY, name="desk")
    place_agent(tmp_path / "b", SigningKey.generate(), name="desk")
    agents = load(tmp_path / "a")[0] + load(tmp_path / "b")[0]
    assert first == agents[0].agent_id
    with pytest.raises(ValueError, match="one label"):
        AgentDirectory(agents)
    assert len(distinct(agents)[1]) == 2


# Registrars by zone, and issuers that change


def test_an_issuer_counts_in_its_own_zone_alone(tmp_path: Path) -> None:
    """AGTP-149: in production a registrar of another zone is an untrusted issuer; the right zone admits it."""
    place_agent(tmp_path, KEY)
    for zone, admitted in (("zone:acme", True), ("zone:else", False)):
        issuers = TrustedIssuers(zones={zone: [KEY.public]})
        agents, problems = load_agents(tmp_path, hosted=True, production=True, trusted_issuers=issuers)
        assert bool(agents) is admitted
        assert admitted or "untrusted issuer" in str(problems[0])


def test_development_reports_an_untrusted_issuer(tmp_path: Path) -> None:
    """AGTP-149: the agent is served, capped, and both signatures are remarked on."""
    place_agent(tmp_path, KEY)
    issuers = TrustedIssuers(everywhere=[SigningKey.generate().public])
    agents, problems = load_agents(tmp_path, hosted=True, production=False, trusted_issuers=issuers)
    assert not problems
    assert sum("untrusted issuer" in note for note in agents[0].notes) == 2


def awaited(tmp_path: Path) -> Agent:
    """A tier 1 agent of a production host whose issuer an identity provider will vouch for."""
    octets = genesis_octets(KEY, trust_tier=1, verification_path="dns-anchored", members={"org_domain": "acme.tld"})
    origin = Genesis.load(octets)
    (tmp_path / "desk.genesis.json").write_bytes(octets)
    members = document(agent_id=origin.agent_id, trust_tier=None, verification_path=None)
    (tmp_path / "desk.agent.json").write_text(json.dumps(documents.sign(members, "registrar.acme.tld", KEY)))
    agents, problems = load_agents(tmp_path, hosted=True, production=True, trusted_issuers=TrustedIssuers(awaited=True))
    assert not problems, problems
    return agents[0]


def test_an_unresolved_issuer_caps_the_posture(tmp_path: Path) -> None:
    """AGTP-294: until the provider answers, tier 2 and verification-incomplete; the agent is admitted."""
    agent = awaited(tmp_path)
    assert (agent.posture.trust_tier, agent.posture.trust_warning) == (2, "verification-incomplete")


def test_a_posture_is_reconsidered_in_place(tmp_path: Path) -> None:
    """AGTP-294, AGTP-143: whoever holds the agent sees the new posture, in the document too; and back again."""
    agent = awaited(tmp_path)
    assert reconsider(agent, issuer_known=True)
    assert (agent.posture.trust_tier, agent.document["trust_tier"]) == (1, 1)
    assert "trust_warning" not in agent.document
    assert not reconsider(agent, issuer_known=True)
    assert reconsider(agent, issuer_known=False)
    assert (agent.posture.trust_tier, agent.document["trust_warning"]) == (2, "verification-incomplete")


def test_a_certificate_beside_the_documents_is_known(tmp_path: Path) -> None:
    """AGTP-142: cert_fingerprint is that of the file; one that cannot be read is a problem."""
    place_agent(tmp_path, KEY)
    authority = create_authority(now=datetime.now(UTC))
    certificate = issue_agent_certificate(
        authority,
        KEY.public,
        label="desk",
        organization="acme",
        agent_id="ab" * 32,
        principal_id="acme",
        commitment=("booking:*",),
        now=datetime.now(UTC),
    )
    (tmp_path / "desk" / "agent.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    agent = load(tmp_path)[0][0]
    expected = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    assert agent.document["cert_fingerprint"] == expected
    assert agent.certificate is not None and agent.certificate.commitment == {"booking:*"}
    moment = datetime.now(UTC).timestamp()
    assert [agent.certificate.status(moment + days * 86_400) for days in (-9, 0.01, 9999)] == [
        "pending",
        "active",
        "expired",
    ]
    (tmp_path / "desk" / "agent.pem").write_text("no certificate")
    assert "certificate" in str(load(tmp_path)[1][0])


def test_a_role_comes_and_goes_without_a_new_identity(tmp_path: Path) -> None:
    """AGTP-146: the Agent-ID and the Genesis stay; the role is the document's."""
    agent_id = place_agent(tmp_path, KEY, signed=False)
    for role in ("agent", "merchant", "agent"):
        rewrite(tmp_path / "desk" / "document.json", role=role)
        agent = load(tmp_path)[0][0]
        assert (agent.agent_id, agent.role, agent.document["role"]) == (agent_id, role, role)


def test_an_agent_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    """AGTP-172: the same Genesis under another label is no registration; neither agent is admitted, and it is told."""
    place_agent(tmp_path, KEY)
    shutil.copytree(tmp_path / "desk", tmp_path / "copy")
    rewrite(tmp_path / "copy" / "document.json", name="copy", **dict.fromkeys(documents.SIGNATURE_FIELDS))
    agents, problems = load(tmp_path)
    assert agents == []
    assert all("agent_id: another agent has" in problem.message for problem in problems) and len(problems) == 2
