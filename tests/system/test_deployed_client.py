"""Deployed clients against a real host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.rows import each_row
from tests.system.deployed_client import DeployedClient, Refused
from tests.system.hosting import Host, running, sample


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample deployment, which reads YAML bodies as well."""
    with running(sample(tmp_path_factory.mktemp("deployed"), append="\n[wire]\nyaml = true\n")) as host:
        yield host


@pytest.fixture(scope="module")
def client(host: Host) -> DeployedClient:
    listed = host.agtp_json("call", "-", "DISCOVER", "/agents")["body"]
    return DeployedClient(host, next(entry["agent_id"] for entry in listed if entry["name"] == "librarian"))


def test_the_identity_is_checked(client: DeployedClient) -> None:
    """DESCRIBE with Accept on two tokens is the Identity Document of the agent in Agent-ID."""
    assert client.check_identity()["name"] == "librarian"


def test_the_identity_comes_in_every_form(client: DeployedClient) -> None:
    """JSON, YAML and HTML, each under the type that was asked for."""
    plain = client.check_identity()
    shown = yaml.safe_load(client.identity("application/vnd.agtp.identity+yaml").body)
    assert shown["agent_id"] == plain["agent_id"]
    assert b"librarian" in client.identity("text/html").body


@each_row("accept", [None, "*/*", "application/vnd.agtp+json", "application/json"])
def test_without_such_a_type_it_is_the_capability_document(client: DeployedClient, accept: str | None) -> None:
    """Core v08 section 7.2.3 stays for everybody else."""
    answer = client.call("DESCRIBE", **({} if accept is None else {"Accept": accept}))
    assert "hosted_protocols" in answer.json()["result"]


def test_the_chain_is_walked(host: Host, client: DeployedClient) -> None:
    """From the newest record of the agent to its first, by ``jws`` at the top of each answer."""
    for text in ("Emma", "Persuasion"):
        host.agtp_json("call", "-", "ECHO", "/agents/librarian/text", f"text={text}")
    head = client.call("INSPECT", {"target": "chain_head", "agent_id": client.agent_id}).json()["result"]["audit_id"]
    walked = client.walk(head)
    assert len(walked) >= 2
    assert {payload["agent_id"] for payload in walked} == {client.agent_id}


def test_other_readers_have_the_record_once(host: Host, client: DeployedClient) -> None:
    """With a path on the request line the answer stays as it was."""
    head = client.call("INSPECT", {"target": "chain_head", "chain": "host"}).json()["result"]["audit_id"]
    whole = client.call("INSPECT", {"target": "audit", "audit_id": head}).json()
    assert whole["jws"] == whole["result"]["jws"]
    other = host.agtp_json("call", "-", "INSPECT", "target=audit", f"audit_id={head}")["body"]
    assert "jws" not in other
    assert other["result"]["jws"] == whole["jws"]


def test_no_refusal_crashes_it(client: DeployedClient) -> None:
    """Every refusal that it can cause has ``error`` as it reads it."""
    stranger = DeployedClient(client.host, "e" * 64)
    seen: dict[int, set[str]] = {}

    def refused(by: DeployedClient, method: str, parameters: object = None, **headers: str) -> None:
        with pytest.raises(Refused) as caught:
            by.call(method, parameters, **headers)
        seen.setdefault(caught.value.status, set()).add(caught.value.code)
        assert caught.value.message

    refused(stranger, "DESCRIBE")
    refused(client, "FROBNICATE")
    refused(client, "INSPECT", {"target": "nothing"})
    refused(client, "INSPECT", {"target": "audit", "audit_id": "f" * 64})
    refused(client, "INSPECT", {"target": "audit", "audit_id": "x"})
    refused(client, "INSPECT")
    refused(client, "EXECUTE", {"action": "no.such"})
    refused(client, "ACTIVATE", {"agent_id": client.agent_id})
    refused(client, "PROPOSE", {"endpoint": {}})
    refused(client, "DELEGATE", {})
    refused(client, "PURCHASE", {})
    refused(client, "GET")
    refused(client, "DESCRIBE", {"capability_domains": "none"})
    refused(client, "DESCRIBE", Agent_ID="no-id")
    refused(client, "DESCRIBE", [1])
    refused(client, "DESCRIBE", {"x": 1}, Content_Type="image/png")
    refused(client, "DESCRIBE", Allow_RCNS="true", Contract_Synthesized="syn-none")
    assert {400, 401, 404, 405, 422, 459} <= seen.keys(), seen


@each_row(
    "octets",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"AGTP/1.0 DESCRIBE nowhere\r\n\r\n",
        b"AGTP/1.0 DESCRIBE\r\nA b: c\r\n\r\n",
        b"AGTP/1.0 DESCRIBE\r\nContent-Length: x\r\n\r\n",
        b"AGTP/1.0 DESCRIBE\r\nContent-Length: 999999999\r\n\r\n",
        b"AGTP/9.0 DESCRIBE\r\n\r\n",
    ],
)
def test_octets_that_are_no_request_are_refused_in_the_same_form(client: DeployedClient, octets: bytes) -> None:
    """The framing's refusals too."""
    refusal = Refused(client.send(octets))
    assert refusal.status in (400, 422)
    assert refusal.code
    assert refusal.message


CATALOGUE = Path(__file__).resolve().parents[2] / "etc" / "proposals" / "catalogue.json"


def test_a_contract_says_that_it_ends_with_the_connection(client: DeployedClient) -> None:
    """Without a Session-ID; with one it does not, and is used over another connection."""
    proposal = {"endpoint": json.loads(CATALOGUE.read_text())}
    answer = client.call("PROPOSE", proposal)
    assert answer.status == 263
    assert answer.json()["lifetime"] == "connection"
    assert "Session-ID" in answer.json()["note"]
    kept = client.call("PROPOSE", proposal, Session_ID="a" * 43)
    assert kept.json()["lifetime"] == "session"
    assert "note" not in kept.json()
