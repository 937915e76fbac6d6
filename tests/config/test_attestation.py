"""``[attestation]`` and ``[[delegation.peers]]``: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.errors import ConfigurationError
from tests.config.test_load import loaded
from tests.identity.samples import key_of

KEY = key_of("attestation key")
AGENT = "a" * 64


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(folder, text)
    return str(caught.value)


def test_evidence_is_a_token_a_file_or_a_uri(tmp_path: Path) -> None:
    """AGTP-055: of the three types; none by default."""
    assert loaded(tmp_path).attestation.type is None
    (tmp_path / "eat.jwt").write_text("aaa.bbb.ccc\n")
    for kind, evidence, read in (
        ("rats-eat", "file:eat.jwt", "aaa.bbb.ccc"),
        ("rats-corim", "2QH1oQ", "2QH1oQ"),
        ("rats-uri", "https://verifier.example/evidence/1", "https://verifier.example/evidence/1"),
    ):
        config = loaded(tmp_path, f'\n[attestation]\ntype = "{kind}"\nevidence = "{evidence}"\n')
        assert (config.attestation.type, config.attestation.evidence) == (kind, read)


@pytest.mark.parametrize(
    "lines",
    [
        'type = "rats-eat"',
        'evidence = "aaa"',
        'type = "rats"\nevidence = "aaa"',
        'type = "rats-eat"\nevidence = "file:missing.jwt"',
        'type = "rats-eat"\nevidence = "a b"',
        'type = "rats-eat"\nevidence = ""',
        'type = "rats-uri"\nevidence = "http://verifier.example/1"',
        'type = "rats-uri"\nevidence = "aaa.bbb"',
        f'type = "rats-corim"\nevidence = "{"a" * 6_001}"',
    ],
)
def test_evidence_that_cannot_be_sent_is_refused(tmp_path: Path, lines: str) -> None:
    """AGTP-055: an unknown type, half a section, what does not fit a header line."""
    assert "attestation" in refused(tmp_path, f"\n[attestation]\n{lines}\n")


OTHER_AGENTS = f'["{"b" * 64}"]'


def peer(**changes: str) -> str:
    given = {
        "uri": '"agtp://back.example"',
        "server_id": '"back.example"',
        "agents": f'["{AGENT}"]',
        "cert": '"peer.pem"',
        "key": '"peer.key"',
        "signing_key": f'"{KEY.public.text}"',
        **changes,
    }
    return "\n[[delegation.peers]]\n" + "".join(f"{name} = {value}\n" for name, value in given.items() if value)


def test_a_peer_has_a_name_agents_and_a_certificate(tmp_path: Path) -> None:
    """AGTP-213: what is needed to delegate to another host; each part left out is named, and so is what cannot be."""
    for name in ("peer.pem", "peer.key"):
        (tmp_path / name).write_text("x")
    (entry,) = loaded(tmp_path, peer()).delegation.peers
    assert (entry.server_id, entry.agents) == ("back.example", (AGENT,))
    assert entry.signing_key == KEY.public
    for name in ("uri", "server_id", "agents", "cert", "key"):
        assert f"{name} is missing" in refused(tmp_path, peer(**{name: ""})), name
    for changes in (
        {"uri": '"https://back.example"'},
        {"agents": '["librarian"]'},
        {"cert": '"missing.pem"'},
        {"signing_key": '"x"'},
    ):
        assert next(iter(changes)) in refused(tmp_path, peer(**changes))
    assert "another peer" in refused(tmp_path, peer() + peer(server_id='"third.example"'))
    assert "server_id is already used by another peer" in refused(tmp_path, peer() + peer(agents=OTHER_AGENTS))


def test_peers_without_a_name_have_only_that_fault(tmp_path: Path) -> None:
    """A name that is missing twice is not a name that occurs twice."""
    for name in ("peer.pem", "peer.key"):
        (tmp_path / name).write_text("x")
    said = refused(tmp_path, peer(server_id="") + peer(server_id="", agents=OTHER_AGENTS))
    assert said.count("server_id is missing") == 2
    assert "twice" not in said and "another peer" not in said
