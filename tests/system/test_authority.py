"""
Whose word counts for an agent: the key that its Genesis names, and the authority that may vouch for it.

One host with two client authorities: its own speaks for its own zone, the partner's for the partner's zone and for
what one issuer signed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agtphost.identity.certificates import Authority
from agtphost.identity.keys import SigningKey
from tests.identity.callers import Caller, make_authority, place_caller, shows
from tests.system.hosting import Host, agtp, running, sample
from tests.system.raw_link import Answer, RawLink

SETTINGS = """
[[tls.client_authority]]
file = "state/ca.pem"
zones = ["zone:development"]

[[tls.client_authority]]
file = "partner.pem"
zones = ["zone:partner"]
issuers = ["{issuer}"]
"""


@dataclass(frozen=True, kw_only=True)
class World:
    """The host, and the callers that it knows."""

    host: Host
    own: Authority
    partner: Authority
    keyed: Caller
    keyed_key: SigningKey
    plain: Caller
    theirs: Caller
    signed: Caller
    folder: Path

    def ask(self, caller: Caller, authority: Authority, key: SigningKey | None = None) -> Answer:
        """A read with a certificate that names the caller, on a connection of its own."""
        files = caller.certify(self.folder, f"c{len(list(self.folder.iterdir()))}", authority, key)
        with RawLink(self.host, context=shows(self.host.state / "ca.pem", files)) as link:
            return link.ask("QUERY", "/", {"intent": "rooms"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("authority")
    registrar, issuer, key = (SigningKey.generate() for _ in range(3))
    config = sample(root, append=SETTINGS.format(issuer=issuer.public.text))
    state = config.parent / "state"
    own, partner = make_authority(state, "ca"), make_authority(config.parent, "partner")
    known = state / "agents"
    placed = {
        "keyed": place_caller(known, "keyed", registrar=registrar, agent_key=key.public),
        "plain": place_caller(known, "plain", registrar=registrar),
        "theirs": place_caller(known, "theirs", registrar=registrar, zone="zone:partner"),
        "signed": place_caller(known, "signed", registrar=issuer, zone="zone:elsewhere"),
    }
    folder = root / "certificates"
    folder.mkdir()
    with running(config) as host:
        yield World(host=host, own=own, partner=partner, keyed_key=key, folder=folder, **placed)


def test_the_certificate_has_the_key_that_the_genesis_names(world: World) -> None:
    """Any other key is 401, whoever signed the certificate; an agent whose Genesis names none may have any."""
    assert world.ask(world.keyed, world.own, world.keyed_key).status == 200
    refused = world.ask(world.keyed, world.own)
    assert (refused.status, refused.reason) == (401, "agent-key-mismatch")
    assert refused.json()["remedy"] and refused.audit_id
    assert [world.ask(world.plain, world.own).status for _ in range(2)] == [200, 200]


def test_an_authority_speaks_for_its_own_agents_alone(world: World) -> None:
    """By zone or by Genesis issuer; each for the other's agents is 401, on every request of the connection."""
    assert world.ask(world.plain, world.own).status == 200
    assert world.ask(world.theirs, world.partner).status == 200
    assert world.ask(world.signed, world.partner).status == 200
    for caller, authority in ((world.plain, world.partner), (world.theirs, world.own), (world.signed, world.own)):
        refused = world.ask(caller, authority)
        assert (refused.status, refused.reason) == (401, "certificate-authority-mismatch"), caller.name
        assert refused.json()["remedy"]
    files = world.plain.certify(world.folder, "twice", world.partner)
    with RawLink(world.host, context=shows(world.host.state / "ca.pem", files)) as link:
        assert [link.ask("DISCOVER", "/").status for _ in range(3)] == [401] * 3


def test_several_authorities_have_to_be_told_apart(tmp_path: Path) -> None:
    """Two in client_ca, an entry for nobody, and a client_ca without an entry: each is said with its remedy."""
    config = sample(tmp_path)
    state = config.parent / "state"
    make_authority(state, "ca")
    make_authority(config.parent, "partner")
    both = (state / "ca.pem").read_bytes() + (config.parent / "partner.pem").read_bytes()
    (config.parent / "both.pem").write_bytes(both)
    text = config.read_text()
    for added, word in (
        ('\n[tls]\nclient_ca = "both.pem"\n', "2 authorities"),
        ('\n[[tls.client_authority]]\nfile = "partner.pem"\n', "neither zones nor issuers"),
        (
            '\n[tls]\nclient_ca = "state/ca.pem"\n[[tls.client_authority]]\nfile = "partner.pem"\nzones = ["*"]\n',
            "not among [[tls.client_authority]]",
        ),
        ('\n[[tls.client_authority]]\nfile = "partner.pem"\nissuers = ["nobody"]\n', "not an Ed25519 public key"),
    ):
        config.write_text(text + added)
        done = agtp("check", str(config))
        assert done.returncode != 0 and word in done.stdout + done.stderr, (added, done.stdout, done.stderr)
        assert "hint" in (done.stdout + done.stderr).lower() or "client_authority" in done.stdout + done.stderr
