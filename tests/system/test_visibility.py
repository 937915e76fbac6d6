"""What a host shows of its agents and its data, asked from outside: AGTP-180, API-158, API-159, API-161, AGIS-058."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client, Reply
from tests.system.hosting import Host, free_port, running, sample, until

OPEN = 'agent_disclosure = "public"\n'
CLASSES = """
[[data_class]]
name = "reservation"
description = "Booking records."
formats = ["json"]
sensitivity = "high"
requires_authorization = true
"""
GATED = ("sensitivity", "requires_authorization")

EVERYWHERE = (
    *(("DISCOVER", path) for path in ("/", "/agents", "/methods", "/tools", "/agents/librarian/genesis")),
    *(("DESCRIBE", path) for path in ("/", "/agents", "/agents/librarian", "/agents/librarian/status")),
    ("QUERY", "/agents"),
)


def anonymous(host: Host, method: str, path: str) -> Reply:
    with Client(trust=host.state / "ca.pem") as client:
        return client.call(host.uri, method, path)


def as_demo(host: Host, method: str, path: str) -> Reply:
    folder = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key") as client:
        return client.call(host.uri, method, path)


def names(entries: Any) -> set[str]:
    return {entry["name"] for entry in entries}


def test_closed_discovery_is_closed_everywhere(tmp_path: Path) -> None:
    """API-158: every list and document, while an agent with its certificate reads them as ever."""
    with running(sample(tmp_path, edit=[(OPEN, f"{OPEN}anonymous_discovery = false\n")])) as host:
        for method, path in EVERYWHERE:
            reply = anonymous(host, method, path)
            assert reply.status == 262 and reply.json()["reason"] == "anonymous-discovery-disabled", (method, path)
            assert reply.audit_id, "sealed"
            assert as_demo(host, method, path).status == 200, (method, path)


def test_private_hosts_name_nobody(tmp_path: Path) -> None:
    """API-159: no list and no document of a private host names an agent to whoever asks."""
    with running(sample(tmp_path, edit=[(OPEN, 'agent_disclosure = "private"\n')])) as host:
        for method, path in EVERYWHERE:
            reply = anonymous(host, method, path)
            assert reply.status == (404 if path.startswith("/agents/") else 200), (method, path, reply.status)
            found = json.loads(reply.body)
            entries = found if isinstance(found, list) else found.get("agents", found.get("hosted_agents"))
            if path == "/agents" or (method, path) == ("DISCOVER", "/"):
                assert entries == [], (method, path)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The sample with a data class."""
    with running(sample(tmp_path_factory.mktemp("visibility"), append=CLASSES)) as host:
        yield host


def test_data_classes_tell_strangers_what_they_are_and_no_more(host: Host) -> None:
    """AGIS-058, AGIS-064: class, description and formats are public."""
    classes = anonymous(host, "DISCOVER", "/").json()["data_manifest"]["available_data"]
    assert {"class": "reservation", "description": "Booking records.", "formats": ["json"]} in classes
    assert all(each.keys() == {"class", "description", "formats"} for each in classes)
    assert not any(word in anonymous(host, "DISCOVER", "/").body.decode() for word in GATED)


def test_a_revoked_agent_is_in_no_list_and_its_genesis_is_archived(host: Host) -> None:
    """AGTP-180, API-161: before REVOKE everybody reads both; from then on nobody but who looks after it."""
    assert anonymous(host, "DISCOVER", "/agents/librarian/genesis").status == 200
    before = anonymous(host, "DISCOVER", "/").json()
    assert "librarian" in names(anonymous(host, "DISCOVER", "/agents").json()) & names(before["hosted_agents"])
    host.agtp_json("agent", "deactivate", "librarian", "--reason", "drill")
    assert "librarian" not in names(anonymous(host, "DISCOVER", "/agents").json()), "suspended"
    assert "librarian" not in names(anonymous(host, "DISCOVER", "/").json()["hosted_agents"])
    host.agtp_json("agent", "reinstate", "librarian")
    assert "librarian" in names(anonymous(host, "DISCOVER", "/").json()["hosted_agents"])
    host.agtp_json("agent", "revoke", "librarian", "--reason", "compromise-detected")
    reply = anonymous(host, "DISCOVER", "/agents/librarian/genesis")
    assert (reply.status, reply.json()["reason"]) == (410, "agent-retired")
    assert b"issuer" not in reply.body and b"signature" not in reply.body
    after = anonymous(host, "DISCOVER", "/").json()
    assert "librarian" not in names(anonymous(host, "DISCOVER", "/agents").json())
    assert "librarian" not in names(after["hosted_agents"])
    assert after["document_version"] != before["document_version"], "its readers' caches notice"
    assert "librarian" not in anonymous(host, "DESCRIBE", "/agents").body.decode()


FRONT = """
[a2a.front]
listen = "ssl:{port}:interface=127.0.0.1"
tokens = ["file:front.token"]
client_certificates = true

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
"""


def card(host: Host, port: int, *, certificate: bool = False) -> int:
    """The status of the A2A card."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    if certificate:
        folder = host.state / "agents" / "demo"
        context.load_cert_chain(folder / "agent.pem", folder / "agent.key")
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    try:
        connection.request("GET", "/agents/librarian/.well-known/agent-card.json")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("disclosure", ["public", "private"])
def test_cards_follow_the_rule(tmp_path: Path, disclosure: str) -> None:
    """API-159, API-161: an A2A card is for those who may know the agent, and of an agent that can be called."""
    port = free_port()
    edit = [(OPEN, f'agent_disclosure = "{disclosure}"\n')]
    config = sample(tmp_path, edit=edit, append=FRONT.format(port=port))
    token = config.parent / "front.token"
    token.touch(mode=0o600)
    token.write_text("front-token\n")
    with running(config) as host:
        until(lambda: "the A2A front is served" in host.output)
        assert card(host, port) == (200 if disclosure == "public" else 401)
        assert card(host, port, certificate=True) == 200
        host.agtp_json("agent", "deactivate", "librarian", "--reason", "drill")
        assert card(host, port, certificate=True) == 404
