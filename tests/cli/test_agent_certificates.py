"""``agtp agent ls`` and ``renew``: when certificates of agents end, and the next ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity import certificates, files, revocation
from agtphost.identity.certificates import Authority, load_certificate, parse_peer_certificate
from agtphost.identity.renewal import renew_certificate
from tests.cli.conftest import Run

AGENT = Path("state/agents/demo/agent.pem")


def authority() -> Authority:
    """The deployment's."""
    return Authority.load(Path("state/ca.pem"), Path("state/ca.key"))


def ends_in(days: int, path: Path = AGENT) -> None:
    """As if a certificate had been issued so that it ends then; its first day may be over."""
    start = datetime.now(UTC) + timedelta(days=days - 20, hours=1)
    files.replace(
        path, certificates.pem_of(renew_certificate(load_certificate(path), authority(), start, 20)), files.PUBLIC
    )


@pytest.mark.parametrize(("days", "soon"), [(14, False), (13, True), (3, True), (-2, True)])
def test_the_list_tells_ends_14_days_ahead(folder: Path, run: Run, days: int, soon: bool) -> None:
    """In its line, in words with the command that renews it, and for machines."""
    ends_in(days)
    done = run("agent", "ls")
    assert done.exit_code == 0
    assert ("(!)" in done.stdout, "agtp agent renew demo" in done.stderr) == (soon, soon)
    listed = {agent["name"]: agent for agent in json.loads(run("agent", "ls", "--json").stdout)}
    told = listed["demo"]["certificate"]
    assert (told["days_left"], told["soon"]) == (days, soon)
    assert listed["librarian"]["certificate"] is None
    assert listed["demo"]["agent_id"] in run("agent", "ls", "--wide").stdout


def test_a_renewed_certificate_says_the_same_for_longer(folder: Path, run: Run) -> None:
    """Key, Agent-ID, owner and scopes stay; serial and times are new; the authority's signature is good."""
    ends_in(3)
    before = load_certificate(AGENT)
    done = run("agent", "renew", "demo", "--json")
    assert done.exit_code == 0, done.output
    after = load_certificate(AGENT)
    assert json.loads(done.stdout)["serial"] == f"{after.serial_number:x}" != f"{before.serial_number:x}"
    assert after.public_key() == before.public_key() and after.subject == before.subject
    was, now = (parse_peer_certificate(each.public_bytes(Encoding.DER)) for each in (before, after))
    for member in ("agent_id", "principal_id", "commitment", "governance_zone", "trust_tier", "archetype"):
        assert getattr(now, member) == getattr(was, member), member
    assert now.agent_id and now.commitment
    assert after.not_valid_after_utc - before.not_valid_after_utc > timedelta(days=80)
    after.verify_directly_issued_by(authority().certificate)
    assert "(!)" not in run("agent", "ls").stdout
    named = json.loads(run("agent", "ls", "--json").stdout)[0]["agent_id"]
    assert run("agent", "renew", named, "--days", "9").exit_code == 0
    assert (load_certificate(AGENT).not_valid_after_utc - datetime.now(UTC)).days in (8, 9)
    assert run("agent", "renew", "registrar").exit_code == 0


def test_what_may_not_be_renewed(folder: Path, run: Run) -> None:
    """A revoked certificate, one whose authority's key is elsewhere or another; each keeps its file as it is."""
    before = AGENT.read_bytes()
    crl = revocation.issue_list(
        authority(), now=datetime.now(UTC), revoke=[(load_certificate(AGENT).serial_number, "key-compromise")]
    )
    files.write_once(Path("state/crl.pem"), revocation.pem_of(crl), files.PUBLIC)
    config = Path("host.toml")
    text = config.read_text()
    config.write_text(f'{text}[tls]\nclient_crl = "state/crl.pem"\n')
    refused = run("agent", "renew", "demo")
    assert refused.exit_code == 2 and "was revoked" in refused.stderr
    config.write_text(text)
    Path("state/ca.key").rename("ca.key")
    refused = run("agent", "renew", "demo")
    assert refused.exit_code == 2 and "the key of the authority is not here" in refused.stderr
    other = certificates.create_authority(now=datetime.now(UTC), organization="other")
    files.replace(Path("state/ca.pem"), other.certificate_pem, files.PUBLIC)
    files.write_once(Path("state/ca.key"), other.key_pem, files.PRIVATE)
    refused = run("agent", "renew", "demo")
    assert refused.exit_code == 2 and "issued by another authority" in refused.stderr
    refused = run("agent", "renew", "nobody")
    assert refused.exit_code == 2 and "demo" in refused.stderr
    refused = run("agent", "renew", "librarian")
    assert refused.exit_code == 2 and "hosted here" in refused.stderr
    assert AGENT.read_bytes() == before
