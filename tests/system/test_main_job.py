"""
The main job, as the README tells it: start, call a tool as an identified agent, see its record, revoke, be refused.

One host serves the whole story; the tests run in the order they stand in.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.client.sync import Client
from agtphost.identity.keys import VerifyingKey
from tests.system.hosting import Host, running, sample

MCP = "application/vnd.mcp.tools+json"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("main-job"), eager=True)) as host:
        yield host


def demo_client(host: Host, **options: object) -> Client:
    demo = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key", **options)


def demo_id(host: Host) -> str:
    return str(json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"])


def read_note(host: Host, client: Client) -> object:
    payload = {"tool": "files.list_files", "arguments": {}}
    return client.call(host.uri, "EXECUTE", input={"action": "mcp.tools.call", "payload_type": MCP, "payload": payload})


def test_the_first_start_creates_what_is_promised(host: Host) -> None:
    """Every file of interface section 1 exists, private keys for the owner alone."""
    top = "ca.pem", "server.pem", "server.key", "signing.key", "signing.pub", "registrar.pem", "registrar.key"
    demo = [f"agents/demo/{name}" for name in ("genesis.json", "document.json", "agent.pem", "agent.key")]
    for name in (*top, *demo, "agtphost.sqlite3"):
        path = host.state / name
        assert path.is_file(), name
        if path.suffix == ".key" or path.suffix == ".sqlite3":
            assert path.stat().st_mode & 0o077 == 0, name


def test_tools_are_listed_for_who_may_call_them(host: Host) -> None:
    """``agtp tools ls`` shows the sample server's tools to demo and nothing to a stranger."""
    names = {tool["name"] for tool in host.agtp_json("tools", "ls")}
    assert "files.list_files" in names
    stranger = Client(trust=host.state / "ca.pem")
    assert stranger.call(host.uri, "DISCOVER", "/tools").json() == []


def test_a_tool_call_is_answered_and_its_record_verified(host: Host) -> None:
    """``agtp tools call`` of a real MCP tool as demo succeeds, and says that the record verifies."""
    done = host.agtp("tools", "call", "files.list_files")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "record verified" in done.stdout + done.stderr
    key = VerifyingKey.load(host.state / "signing.pub")
    with demo_client(host) as client:
        reply = read_note(host, client)
        assert reply.status == 200
        assert reply.result["tool_response"]["content"]
        verification = reply.verify({key.kid: key})
        assert verification.ok, verification
        payload = json.loads(host.agtp("audit", "get", reply.audit_id, "--json").stdout)["payload"]
    assert payload["caller_id"] == demo_id(host)
    assert payload["identity_assurance"] == "certificate"
    assert payload["extra"]["mcp_tool"] == "list_files"


def test_without_a_certificate_the_call_is_refused(host: Host) -> None:
    """The same call without a certificate is 401 with a reason, whether or not it names the agent."""
    done = host.agtp("tools", "call", "files.list_files", "--no-cert")
    assert done.returncode == 1
    assert "agent-unauthenticated" in done.stdout + done.stderr
    with Client(trust=host.state / "ca.pem", agent_id=demo_id(host)) as client:
        reply = read_note(host, client)
    assert (reply.status, reply.json()["reason"]) == (401, "agent-unauthenticated")
    assert reply.json()["remedy"]


def test_the_audit_trail_verifies(host: Host) -> None:
    """``agtp audit verify`` is green."""
    done = host.agtp("audit", "verify")
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_issuer_may_revoke(host: Host) -> None:
    """Another certificate is 403, none is 401, and the agent is still served."""
    other = host.agtp(
        "agent",
        "revoke",
        "demo",
        "--reason",
        "test",
        "--cert",
        "state/agents/demo/agent.pem",
        "--key",
        "state/agents/demo/agent.key",
        "--json",
    )
    assert other.returncode == 1
    assert json.loads(other.stdout)["status"] == 403
    none = host.agtp("agent", "revoke", "demo", "--reason", "test", "--no-cert", "--json")
    assert none.returncode == 1
    body = json.loads(none.stdout)
    assert (body["status"], body["reason"]) == (401, "genesis-issuer-cert-required")
    with demo_client(host) as client:
        assert read_note(host, client).status == 200


def test_revocation_holds_from_the_next_request_of_an_open_connection(host: Host) -> None:
    """T-LC-70: the connection that demo already has open gets 410 right after ``agtp agent revoke``."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    demo = host.state / "agents" / "demo"
    context.load_cert_chain(demo / "agent.pem", demo / "agent.key")
    body = json.dumps({"parameters": {"action": "mcp.tools.list", "payload_type": MCP, "payload": {}}}).encode()
    request = (
        b"AGTP/1.0 EXECUTE /\r\nContent-Type: application/vnd.agtp+json\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body
    with (
        socket.create_connection(("127.0.0.1", host.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as tls,
    ):
        stream = tls.makefile("rb")

        def ask() -> tuple[int, dict[str, object]]:
            tls.sendall(request)
            status = int(stream.readline().split()[1])
            length = 0
            while (line := stream.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return status, json.loads(stream.read(length))

        assert ask()[0] == 200
        revoked = host.agtp("agent", "revoke", "demo", "--reason", "compromise-detected")
        assert revoked.returncode == 0, revoked.stdout + revoked.stderr
        status, answer = ask()
        assert status == 410
        assert answer["lifecycle_state"] == "retired"
        assert answer["revoked_at"]


def test_the_revocation_is_in_the_signed_stream(host: Host) -> None:
    """INSPECT target=lifecycle shows the event, and the whole trail still verifies."""
    reply = Client(trust=host.state / "ca.pem").call(
        host.uri, "INSPECT", input={"target": "lifecycle", "agent_id": demo_id(host)}
    )
    newest = reply.result["events"][0]
    assert newest["payload"]["event_type"] == "agent-genesis-revoked"
    assert newest["payload"]["reason"] == "compromise-detected"
    assert host.agtp("audit", "verify").returncode == 0


def test_sigterm_ends_with_status_zero(tmp_path: Path) -> None:
    """A host that is told to stop finishes, ends its children and exits 0."""
    with running(sample(tmp_path, eager=True)) as host:
        assert host.stop() == 0
    assert "Traceback" not in host.output


def test_a_named_local_host_is_known_by_its_configuration(host: Host) -> None:
    """In a deployment's directory, naming its own address finds the same authority and identity as not naming it."""
    for uri in (host.uri, f"agtp://localhost:{host.port}", "-"):
        done = host.agtp("call", uri, "DISCOVER", "/methods")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert "ECHO" in done.stdout or "agent-retired" in done.stdout + done.stderr
    foreign = host.agtp("call", "agtp://localhost:1", "DISCOVER", "/methods")
    assert foreign.returncode == 3
