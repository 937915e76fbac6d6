"""``[[a2a.agent]]``, ``[[acp.agent]]`` and ``[a2a.front]`` in the terms of what they configure."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.task import Clock

from agtphost.a2a.feature import CarriedFront
from agtphost.adapters.a2a.card_keys import card_key
from agtphost.adapters.a2a.front_tasks import FrontTaskTable, front_bindings
from agtphost.audit.state import StateTable
from agtphost.config import Config, load
from agtphost.contract import reserved
from agtphost.errors import ConfigurationError
from agtphost.host.a2a import a2a_agents
from agtphost.host.upstreams import acp_servers
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance
from agtphost.testing import MemoryHost
from agtphost.upstream.pins import PinStore
from tests.host.carried import carried

HEAD = '[host]\nserver_id = "h"\nprofile = "development"\nstate_dir = "state"\n'


def load_text(folder: Path, text: str) -> Config:
    """A configuration that passes."""
    path = folder / "host.toml"
    path.write_text(HEAD + text)
    return load(path, {"TOKEN": "s3cret-bearer", "KEY": "s3cret-key"})


async def fail_on_change(changes: object, events: object) -> None:
    """Nothing is pinned before the host runs."""
    raise AssertionError("nothing was asked for")


STORE = PinStore(held=StateTable(), submit=fail_on_change, clock=Clock())


def test_an_agent_is_configured(tmp_path: Path) -> None:
    """Secrets are opened for the upstream they were named for, and shown nowhere else."""
    key = SigningKey.generate().public
    config = load_text(
        tmp_path,
        f"""
[[a2a.agent]]
name = "helper"
url = "https://helper.example/base/"
bearer = "env:TOKEN"
headers = {{ "X-Key" = "env:KEY" }}
scopes = ["helpers:*"]
min_assurance = "header"
card_keys = {{ k1 = "{key.text}" }}
pin = "{"ab" * 32}"
push_url = "https://push.example/"

[[acp.agent]]
name = "bee"
url = "https://bee.example"
agents = ["echo"]
pins = {{ echo = "{"cd" * 32}" }}
start = "lazy"
""",
    )
    settings = a2a_agents(Clock(), config, STORE)[0].settings
    assert settings.opened_headers() == {"X-Key": "s3cret-key", "Authorization": "Bearer s3cret-bearer"}
    assert (settings.url, settings.scopes, settings.pin) == ("https://helper.example/base", ("helpers:*",), "ab" * 32)
    assert settings.min_assurance is Assurance.HEADER
    assert list(settings.card_keys) == ["k1"]
    assert "s3cret" not in repr(settings) + repr(config)
    bee = acp_servers(Clock(), config, STORE)[0].settings
    assert (bee.agents, dict(bee.pins), bee.start) == (("echo",), {"echo": "cd" * 32}, "lazy")
    assert bee.min_assurance is Assurance.CERTIFICATE


def test_a_card_key_is_read_in_each_form(tmp_path: Path) -> None:
    """base64url of an Ed25519 key, a PEM file, a JWK file; anything else is refused."""
    text = SigningKey.generate().public.text
    assert card_key(text, tmp_path).key_type == "OKP"
    elliptic = generate_private_key(SECP256R1()).public_key()
    (tmp_path / "ec.pem").write_bytes(elliptic.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert card_key("file:ec.pem", tmp_path).key_type == "EC"
    (tmp_path / "key.jwk").write_text(json.dumps({"kty": "OKP", "crv": "Ed25519", "x": text}))
    assert card_key("file:key.jwk", tmp_path).key_type == "OKP"
    (tmp_path / "oct.jwk").write_text(json.dumps({"kty": "oct", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}))
    (tmp_path / "nonsense").write_text("nonsense")
    for bad in ("", "short", "file:oct.jwk", "file:nonsense", "file:absent"):
        with pytest.raises((ValueError, OSError)):
            card_key(bad, tmp_path)


def test_a_key_that_cannot_be_used_is_a_start_error(tmp_path: Path) -> None:
    """The message names the agent and the key, and the line."""
    config = load_text(
        tmp_path, '[[a2a.agent]]\nname = "h"\nurl = "https://h.example"\ncard_keys = { k = "file:absent" }\n'
    )
    with pytest.raises(ConfigurationError, match='"h" card_keys') as caught:
        a2a_agents(Clock(), config, STORE)
    (problem,) = caught.value.problems
    assert Path(problem.file).read_text().splitlines()[problem.line - 1].startswith("card_keys = ")


def test_front_that_names_unknown_agents_keeps_the_host_from_starting() -> None:
    """An agent that is not hosted, and a caller that this host does not know: both are reported."""

    def build(caller: str, shown: str) -> MemoryHost:
        front = {"listen": "tcp:8080:interface=127.0.0.1", "agent_id": caller, "agent": [{"name": shown}]}
        host = MemoryHost({"a2a": {"front": front}})
        host.agent("librarian", hosted=True)
        assert host.core is not None
        return host

    with pytest.raises(ConfigurationError) as caught:
        build("e" * 64, "nobody")
    assert [problem.message for problem in caught.value.problems] == [
        '[[a2a.front.agent]] "nobody" is not a hosted agent',
        "[a2a.front] agent_id names an agent that this host does not know: " + "e" * 64,
    ]
    carried(build("librarian", "librarian"), "a2a", CarriedFront)


async def _keep(changes: object) -> None:
    """Nothing is begun."""


def test_the_paths_of_upstreams_are_the_hosts(tmp_path: Path) -> None:
    """No endpoint can be declared where an upstream is addressed."""
    assert {("EXECUTE", "/a2a/{server}"), ("EXECUTE", "/acp/{server}")} <= set(reserved.RESERVED)
    # The front's clients ask there about their tasks.
    assert {(binding.method, binding.path) for binding in front_bindings(FrontTaskTable(StateTable(), _keep))} <= set(
        reserved.RESERVED
    )
