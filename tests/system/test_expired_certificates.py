"""Certificates that have expired, of an agent and of a host: what the commands say, and what they advise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agtphost.identity.certificates import Authority, issue_agent_certificate, issue_server_certificate, pem_of
from agtphost.identity.keys import SigningKey
from tests.system.hosting import Host, agtp, running, sample


def long_ago() -> datetime:
    """A time at which certificates that have expired by now were issued."""
    return datetime.now(UTC) - timedelta(days=400)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("expired"))) as host:
        yield host


def test_an_expired_certificate_of_an_agent_is_named_with_the_command_that_renews_it(host: Host) -> None:
    """The handshake fails; the words are ours, and ``original`` has those of OpenSSL."""
    state = host.config.parent / "state"
    folder = state / "agents" / "demo"
    assert host.agtp("tools", "ls").returncode == 0, "the control: the certificate of the first start is taken"
    document = json.loads((folder / "document.json").read_text())
    expired = issue_agent_certificate(
        Authority.load(state / "ca.pem", state / "ca.key"),
        SigningKey.load(folder / "agent.key").public,
        label="demo",
        organization="test",
        agent_id=document["agent_id"],
        principal_id="owner",
        commitment=["mcp:tools:execute"],
        now=long_ago(),
    )
    file = host.config.parent / "expired.pem"
    file.write_bytes(pem_of(expired))
    refused = host.agtp("tools", "ls", "--cert", str(file), "--key", str(folder / "agent.key"), "--json")
    assert refused.returncode == 3, refused
    found = json.loads(refused.stdout)
    assert "certificate has expired" in found["error"] and "agtp agent renew" in found["remedy"], found
    assert "alert" in found["original"], found


def test_an_expired_certificate_of_the_host_is_named_with_the_command_that_renews_it(tmp_path: Path) -> None:
    """``agtp check`` notes it; after the command that it advises, it has nothing to note."""
    config = sample(tmp_path)
    with running(config):
        pass
    state = config.parent / "state"
    authority = Authority.load(state / "ca.pem", state / "ca.key")
    key = load_pem_private_key((state / "server.key").read_bytes(), None)
    old = issue_server_certificate(
        authority,
        key.public_key(),  # type: ignore[arg-type]
        server_id="localhost",
        now=long_ago(),
        days=30,
    )
    (state / "server.pem").write_bytes(pem_of(old))
    checked = agtp("check", str(config))
    said = checked.stdout + checked.stderr
    assert "the host certificate localhost ended" in said and "`agtp cert renew`" in said, said
    renewed = agtp("cert", "renew", "--config", str(config))
    assert renewed.returncode == 0, renewed.stderr
    again = agtp("check", str(config))
    assert "certificate localhost ended" not in again.stdout + again.stderr
