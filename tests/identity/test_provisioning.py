"""The development profile's files: complete, private, kept, renewed."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from agtphost.identity import certificates, provisioning
from agtphost.identity.agent_files import descriptions_in, load_agents
from agtphost.identity.alternative_names import addresses_of
from agtphost.identity.certificates import load_certificate, parse_peer_certificate
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.identity.provisioning import AgentDescription, ProvisioningError, provision_development
from agtphost.vocabulary import scopes

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SERVER_ID = "host.example"

PRIVATE = {"ca.key", "server.key", "signing.key", "registrar.key", "agents/demo/agent.key"}
PUBLIC = {
    "ca.pem",
    "server.pem",
    "signing.pub",
    "registrar.pem",
    "agents/demo/agent.pem",
    "agents/demo/genesis.json",
    "agents/demo/document.json",
}
HOSTED = {"hosted/concierge/genesis.json", "hosted/concierge/document.json"}


@pytest.fixture
def description(tmp_path: Path) -> Path:
    path = tmp_path / "concierge.agent.json"
    path.write_text(
        json.dumps(
            {
                "name": "concierge",
                "description": "Knows the rooms.",
                "archetype": "executor",
                "scopes_accepted": ["booking:*"],
                "capabilities": ["rooms"],
                "skills": ["booking"],
                "manifest_signature": "forged",
            }
        )
    )
    return path


@pytest.fixture
def state(tmp_path: Path, description: Path) -> Path:
    directory = tmp_path / "var" / "state"
    provision_development(directory, server_id=SERVER_ID, hosted=[description], now=NOW)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def peer_of(path: Path) -> certificates.PeerCertificate:
    return parse_peer_certificate(load_certificate(path).public_bytes(serialization.Encoding.DER))


def test_exactly_the_promised_files(state: Path) -> None:
    """Interface section 1: these files, and the authority's key."""
    assert set(contents(state)) == PRIVATE | PUBLIC | HOSTED


def test_keys_are_private(state: Path) -> None:
    """T-KY: keys 0600, every directory 0700."""
    for path in [state, *state.rglob("*")]:
        name = str(path.relative_to(state))
        expected = 0o700 if path.is_dir() else 0o600 if name in PRIVATE else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected, name


def test_a_second_run_changes_nothing(state: Path, description: Path) -> None:
    """The first start makes, every later one keeps."""
    before = contents(state)
    provision_development(state, server_id=SERVER_ID, hosted=[description], now=NOW + timedelta(days=30))
    assert contents(state) == before


@pytest.mark.parametrize("name", sorted((PRIVATE | PUBLIC | HOSTED) - {"ca.key", "server.key"}))
def test_one_missing_file_is_made_again(state: Path, description: Path, name: str) -> None:
    """A run cut short at any point is finished by the next; what was there is kept."""
    before = contents(state)
    (state / name).unlink()
    provision_development(state, server_id=SERVER_ID, hosted=[description], now=NOW)
    after = contents(state)
    assert set(after) == set(before)
    assert {n: o for n, o in after.items() if n != name} == {n: o for n, o in before.items() if n != name}


@pytest.mark.parametrize("name", ["ca.key", "server.key"])
def test_a_lost_tls_key_is_told(state: Path, name: str) -> None:
    """A certificate without its key is not replaced behind the operator's back."""
    (state / name).unlink()
    (state / "registrar.pem").unlink()
    with pytest.raises(ProvisioningError, match=name):
        provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW)


def test_the_authoritys_key_may_be_taken_away(state: Path) -> None:
    """With everything issued, the host starts without it."""
    (state / "ca.key").unlink()
    before = contents(state)
    provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW)
    assert contents(state) == before


def test_the_registrar_is_one_key(state: Path) -> None:
    """Genesis issuer = registrar key = client certificate's key: what lifecycle authorization compares."""
    key = SigningKey.load(state / "registrar.key").public
    demo = Genesis.load((state / "agents/demo/genesis.json").read_bytes())
    concierge = Genesis.load((state / "hosted/concierge/genesis.json").read_bytes())
    peer = peer_of(state / "registrar.pem")
    assert peer.fingerprint == key.fingerprint == demo.issuer_fingerprint == concierge.issuer_fingerprint
    assert peer.agent_id is None
    assert VerifyingKey.load(state / "registrar.pem") == key


def test_the_signing_key_has_its_public_half(state: Path) -> None:
    """signing.pub verifies what signing.key signs, and is no other key of the host's."""
    public = VerifyingKey.load(state / "signing.pub")
    assert public == SigningKey.load(state / "signing.key").public
    assert public != SigningKey.load(state / "registrar.key").public


def test_demo_is_an_active_agent_with_its_certificate(state: Path) -> None:
    """The caller: active, tier 2, its certificate bound to Agent-ID, owner and scopes."""
    agents, problems = load_agents(state / "agents", hosted=False, production=False, trusted_issuers=())
    assert problems == []
    (demo,) = agents
    assert (demo.name, demo.document_status, demo.posture.trust_tier) == ("demo", "active", 2)
    assert demo.posture.verification_path == "org-asserted"
    hosted = ("mcp:tools:execute", "mcp:resources:read", "mcp:prompts:get")
    for wanted in (*hosted, "documents:query", "knowledge:query", "calendar:x", "booking:room"):
        assert scopes.covers(demo.scopes, wanted), wanted
    peer = peer_of(state / "agents/demo/agent.pem")
    assert (peer.agent_id, peer.principal_id, peer.commitment) == (demo.agent_id, demo.owner_id, demo.scopes)
    assert (peer.malformed, peer.trust_tier, peer.archetype) == ("", 2, "executor")
    assert peer.fingerprint == SigningKey.load(state / "agents/demo/agent.key").public.fingerprint
    assert peer.not_after - peer.not_before <= timedelta(days=90)
    assert demo.notes == ()


def test_two_descriptions_of_one_name_are_refused(state: Path, tmp_path: Path) -> None:
    """A copy of a description would replace the agent of the first one at each start."""
    files = [tmp_path / f"{name}.agent.json" for name in ("helper", "helper copy")]
    for file in files:
        file.write_text(json.dumps({"name": "helper", "description": file.name, "archetype": "assistant"}))
    with pytest.raises(ProvisioningError, match=r"helper copy.agent.json: name: helper.agent.json describes an agent"):
        provision_development(state, server_id=SERVER_ID, hosted=files, now=NOW)


def test_a_description_with_the_name_of_a_caller_issues_nothing(state: Path, tmp_path: Path) -> None:
    """What was issued stayed after the reload was refused, and refused each later one as well."""
    described = tmp_path / "another.agent.json"
    described.write_text('{"name": "demo", "description": "x"}')
    with pytest.raises(ProvisioningError, match="agents/demo is an agent of that name, too"):
        provision_development(state, server_id="localhost", hosted=[described])
    assert not (state / "hosted" / "demo").exists()


def test_hosted_agents_are_issued_from_their_descriptions(state: Path) -> None:
    """Each description becomes a signed identity that even production rules accept."""
    trusted = [SigningKey.load(state / "registrar.key").public]
    agents, problems = load_agents(state / "hosted", hosted=True, production=True, trusted_issuers=trusted)
    assert problems == []
    (concierge,) = agents
    assert (concierge.name, concierge.description) == ("concierge", "Knows the rooms.")
    assert concierge.scopes == {"booking:*"}
    assert concierge.document["capabilities"] == ["rooms"]
    assert concierge.document["skills"] == ["booking"]
    assert concierge.served_document() == json.loads(concierge.document_octets)
    assert concierge.notes == ()


def test_certificates_are_renewed_for_the_same_keys(state: Path, description: Path) -> None:
    """Past 80 % of its life a certificate is issued again; key, Agent-ID and documents stay."""
    before = contents(state)
    later = NOW + timedelta(days=80)
    provision_development(state, server_id=SERVER_ID, hosted=[description], now=later)
    after = contents(state)
    renewed = {name for name in before if before[name] != after[name]}
    assert renewed == {"registrar.pem", "agents/demo/agent.pem"}
    peer = peer_of(state / "agents/demo/agent.pem")
    assert peer.fingerprint == SigningKey.load(state / "agents/demo/agent.key").public.fingerprint
    assert peer.not_after > later + timedelta(days=80)
    provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW + timedelta(days=500))
    assert contents(state)["server.pem"] != after["server.pem"]
    assert contents(state)["server.key"] == after["server.key"]


def test_an_operators_own_certificate_is_left_alone(state: Path) -> None:
    """A server certificate of another authority is never replaced, expired or not."""
    other = certificates.create_authority(now=NOW, organization="other")
    key = certificates.new_tls_key()
    own = certificates.issue_server_certificate(other, key.public_key(), server_id="x", now=NOW)
    (state / "server.pem").write_bytes(certificates.pem_of(own))
    (state / "server.key").write_bytes(certificates.key_pem_of(key))
    provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW + timedelta(days=5000))
    assert load_certificate(state / "server.pem") == own


def test_broken_files_are_named(state: Path) -> None:
    """Whatever is in the way is named, and nothing is overwritten."""
    for name in ("signing.key", "registrar.key", "ca.pem", "ca.key", "agents/demo/genesis.json"):
        original = (state / name).read_bytes()
        (state / name).write_bytes(b"garbage")
        with pytest.raises(ProvisioningError, match=Path(name).name):
            provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW)
        assert (state / name).read_bytes() == b"garbage"
        (state / name).write_bytes(original)


@pytest.mark.parametrize("octets", [b"", b'{"agent_id": ', b"[]", b"{}", b'{"scopes_accepted": 7}', b"\xff\xfe"])
def test_a_broken_document_is_named(state: Path, octets: bytes) -> None:
    """The caller's own Identity Document, which its certificate is issued from: the start says which file it is."""
    document = state / "agents" / "demo" / "document.json"
    document.write_bytes(octets)
    with pytest.raises(ProvisioningError, match=r"agents/demo/document\.json: "):
        provision_development(state, server_id=SERVER_ID, hosted=[], now=NOW)
    assert document.read_bytes() == octets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line"),
        ("[]", "describe"),
        ('{"agent_id": "x"}', "agent_id"),
        ('{"name": "no label"}', "name"),
        ('{"name": "../escape"}', "name"),
        ('{"name": 7}', "name"),
        ('{"archetype": "wizard"}', "archetype"),
        ('{"scopes_accepted": ["Bad"]}', "scopes_accepted"),
        ('{"scopes_accepted": "a:b"}', "scopes_accepted"),
        ('{"capabilities": [1]}', "capabilities"),
        ('{"owner_id": "a b"}', "owner_id"),
        ('{"trust_tier": 9}', "trust_tier"),
        ('{"trust_tier": 1}', "verification_path"),
        ('{"requires": []}', "requires"),
    ],
)
def test_wrong_descriptions_are_told(tmp_path: Path, text: str, message: str) -> None:
    """The message names the description's file and member."""
    path = tmp_path / "odd.agent.json"
    path.write_text(text)
    with pytest.raises(ProvisioningError, match=message) as caught:
        provision_development(tmp_path / "state", server_id=SERVER_ID, hosted=[path], now=NOW)
    assert "odd.agent.json" in str(caught.value)


def test_a_description_may_say_next_to_nothing(tmp_path: Path) -> None:
    """An empty object under a good file name is an agent without scopes."""
    path = tmp_path / "quiet.agent.json"
    path.write_text("{}")
    provision_development(tmp_path / "state", server_id=SERVER_ID, hosted=[path], now=NOW)
    agents, problems = load_agents(tmp_path / "state" / "hosted", hosted=True, production=False, trusted_issuers=())
    assert problems == []
    assert (agents[0].name, agents[0].scopes) == ("quiet", frozenset())


def test_descriptions_are_found(tmp_path: Path, description: Path) -> None:
    """Only files that describe agents yet to be issued are; the others are for loading."""
    (tmp_path / "known.agent.json").write_text(json.dumps({"agent_id": "ab" * 32}))
    (tmp_path / "broken.agent.json").write_text("{")
    assert descriptions_in(tmp_path) == [description]


def test_issuing_without_an_authority_makes_no_certificate(tmp_path: Path) -> None:
    """``agtp agent new`` for an agent that only answers: Genesis and document alone, ids never equal."""
    registrar = SigningKey.generate()
    first = AgentDescription(name="desk", scopes=("a:b",), org_domain="acme.tld", members={"role": "merchant"})
    issued = provisioning.issue_agent(tmp_path / "1", first, registrar, issuer="acme.tld", now=NOW)
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"genesis.json", "document.json"}
    assert json.loads(issued.document.read_bytes())["role"] == "merchant"
    assert json.loads(issued.document.read_bytes())["org_domain"] == "acme.tld"
    again = provisioning.issue_agent(tmp_path / "2", first, registrar, issuer="acme.tld")
    assert again.agent_id != issued.agent_id
    kept = provisioning.issue_agent(tmp_path / "1", first, registrar, issuer="acme.tld")
    assert kept.agent_id == issued.agent_id


@pytest.mark.parametrize("agent", ["agents/demo", "hosted/concierge"])
def test_the_issuer_is_a_url(state: Path, agent: str) -> None:
    """AGTP-328, core v08 section 6.3: ``issuer`` of what a host issues is an absolute URL."""
    issuer = urlsplit(json.loads((state / agent / "document.json").read_text())["issuer"])
    assert (issuer.scheme, issuer.netloc) == ("https", f"registrar.{SERVER_ID}")


def test_the_servers_certificate_names_the_address_that_is_listened_on(state: Path) -> None:
    """Also after it was changed: the host's own commands call that address."""
    before = load_certificate(state / "server.pem")
    assert addresses_of(before) == {"127.0.0.1", "::1"}
    for listened, wanted in (("0.0.0.0", {"127.0.0.1", "::1"}), ("192.0.2.7", {"127.0.0.1", "::1", "192.0.2.7"})):
        provision_development(state, server_id=SERVER_ID, hosted=[], listened=listened, now=NOW)
        after = load_certificate(state / "server.pem")
        assert addresses_of(after) == wanted and (after == before) == (listened == "0.0.0.0")
