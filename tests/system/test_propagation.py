"""Subscribers hear of lifecycle events: over HTTPS and over AGTP, also after they were down."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate

from agtphost.identity import jws
from agtphost.identity.keys import VerifyingKey
from tests.system.hosting import agtp, free_port, running, sample, until


class Registry:
    """An HTTPS server that fails at first."""

    def __init__(self, state: Path, port: int, failures: int) -> None:
        self.taken: list[dict[str, Any]] = []
        self.refused = 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if registry.refused < failures:
                    registry.refused += 1
                    self.send_response(503)
                else:
                    registry.taken.append(json.loads(body))
                    self.send_response(204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(state / "server.pem", state / "server.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def config(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A host that tells a registry, and itself over AGTP in the name of demo."""
    config = sample(tmp_path)
    with running(config):
        pass
    found = re.search(r"^port = ([0-9]+)", config.read_text(), re.MULTILINE)
    assert found is not None
    port = free_port()
    lines = [
        "",
        "[lifecycle]",
        f'notify = ["https://localhost:{port}/events", "agtp://127.0.0.1:{found[1]}"]',
        'notify_ca = "state/ca.pem"',
        'notify_cert = "state/agents/demo/agent.pem"',
        'notify_key = "state/agents/demo/agent.key"',
        "",
    ]
    config.write_text(config.read_text() + "\n".join(lines))
    yield config, port


def test_each_subscriber_gets_the_signed_event(config: tuple[Path, int]) -> None:
    """AGTP-237: within 60 s though the registry fails twice, and after a restart what waited while it was down."""
    file, port = config
    with running(file) as host:
        key = VerifyingKey.load(host.state / "signing.pub")
        registry = Registry(host.state, port, failures=2)
        done = host.agtp_json("agent", "deprecate", "librarian", "--reason", "drill")
        until(lambda: registry.taken, 60)
        assert registry.refused == 2
        [notice] = registry.taken
        registry.close()
        payload = jws.verify(notice["events"][0]["signed"], {key.kid: key})
        assert notice["events"][0]["audit_id"] == done["audit_id"]
        assert (payload["event_type"], payload["new_status"]) == ("agent-lifecycle-deprecated", "deprecated")
        assert payload["agent_id"] == notice["agent_id"] == done["agent_id"]

        until(lambda: _told(host.config.parent))
        [told] = _told(host.config.parent)
        assert told["content"]["events"] == notice["events"] and told["topic"] == "agent-lifecycle"

        # Nobody is there: the notice waits, over a restart.
        assert host.agtp("agent", "reinstate", "librarian").returncode == 0
        until(lambda: "a lifecycle notice waits" in host.output)
    registry = Registry(file.parent / "state", port, failures=0)
    try:
        with running(file) as host:
            until(lambda: registry.taken)
            assert host.agtp("agent", "deprecate", "librarian").returncode == 0
            until(lambda: len(registry.taken) > 1)
            # What was taken is not sent again.
            assert [notice["status"] for notice in registry.taken] == ["active", "deprecated"]
    finally:
        registry.close()
    assert agtp("audit", "verify", cwd=file.parent).returncode == 0


def test_each_subscriber_hears_of_a_revoked_certificate(config: tuple[Path, int]) -> None:
    """
    Companion section 9.3, AGTP-237: ``certificate_revoked`` within 60 s, by HTTPS and by NOTIFY, with the signed event.

    Of the list's entry, told once, also after a restart; and of the certificates of an agent that is revoked.
    """
    file, port = config
    agent = file.parent / "state" / "agents" / "demo" / "agent.pem"
    serial = f"{load_pem_x509_certificate(agent.read_bytes()).serial_number:x}"
    other = file.parent / "state" / "client.pem"
    with running(file) as host:
        assert host.agtp("cert", "issue", "client", "other", "--ca", "state/ca.pem", "-o", str(other)).returncode == 0
        crl = host.agtp("cert", "crl", "--ca", "state/ca.pem", "--crl", "state/crl.pem")
        assert crl.returncode == 0, crl.stderr
    file.write_text(file.read_text() + '\n[tls]\nclient_crl = ["state/crl.pem"]\n')
    with running(file) as host:
        key = VerifyingKey.load(host.state / "signing.pub")
        registry = Registry(host.state, port, failures=1)
        done = host.agtp("cert", "revoke", str(other), "--reason", "key-compromise")
        assert done.returncode == 0, done.stderr
        until(lambda: registry.taken, 60)
        assert registry.refused == 1
        [notice] = registry.taken
        assert notice["event_type"] == "certificate_revoked" and notice["revocation_reason"] == "key-compromise"
        assert notice["subject_agent_id"] == "" and notice["effective_at"]
        payload = jws.verify(notice["events"][0]["signed"], {key.kid: key})
        assert payload["event_type"] == "certificate_revoked"
        assert payload["certificate_serial"] == notice["certificate_serial"] != serial
        until(lambda: _inbox(host.config.parent, "certificate-revocation"))
        [told] = _inbox(host.config.parent, "certificate-revocation")
        assert told["content"]["events"] == notice["events"] and told["urgency"] == "critical"

        # An agent that is revoked takes its certificates with it.
        revoked = host.agtp_json("agent", "revoke", "demo", "--reason", "compromise-detected")
        until(lambda: any(entry.get("event_type") for entry in registry.taken[1:]))
        [taken] = [entry for entry in registry.taken[1:] if entry.get("event_type") == "certificate_revoked"]
        assert taken["subject_agent_id"] == revoked["agent_id"] and taken["certificate_serial"] == serial
        assert taken["revocation_reason"] == "agent-revoked"
        registry.close()
    registry = Registry(file.parent / "state", port, failures=0)
    try:
        with running(file) as host:
            assert host.agtp("agent", "deprecate", "librarian").returncode == 0
            until(lambda: registry.taken)
            # What was told is not told again.
            assert [notice.get("status") for notice in registry.taken] == ["deprecated"]
    finally:
        registry.close()
    assert agtp("audit", "verify", cwd=file.parent).returncode == 0


def _told(folder: Path) -> list[dict[str, Any]]:
    """What the operator's inbox says of agents that were deprecated."""
    return [entry for entry in _inbox(folder, "agent-lifecycle") if entry["content"]["status"] == "deprecated"]


def _inbox(folder: Path, topic: str) -> list[dict[str, Any]]:
    """What lies in the operator's inbox."""
    done = agtp("call", "-", "QUERY", "/notifications", "--as", "registrar", "--json", cwd=folder)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    found = json.loads(done.stdout)
    listed: list[dict[str, Any]] = found["body"]["result"]["notifications"]
    return [entry for entry in listed if entry["topic"] == topic]


def test_what_is_retained_of_a_revoked_agent(tmp_path: Path) -> None:
    """AGTP-179, AGTP-180: everything the section lists, from the store alone; the host shows none of it to anybody."""
    file = sample(tmp_path)
    with running(file) as host:
        genesis = (host.state / "agents/demo/genesis.json").read_text()
        assert host.agtp("agent", "deactivate", "demo").returncode == 0
        host.agtp_json("agent", "revoke", "demo", "--reason", "compromise-detected", "--actor", "security")
        assert host.agtp_json("agent", "retained")[0]["label"] == "demo"
        for verb in ("deprecate", "reinstate"):
            host.agtp_json("agent", verb, "librarian")
        back = next(one for one in host.agtp_json("agent", "retained") if one["label"] == "librarian")
        assert (back["status"], back["state"], back["label_free_at"]) == ("deprecated", "active", None)
    kept = json.loads(agtp("agent", "retained", "demo", "--json", cwd=file.parent).stdout)
    assert kept["genesis"] == genesis and kept["trust_tier"] and kept["owner_id"] and kept["ended_at"]
    assert (kept["status"], kept["reason"], kept["initiator"]) == ("retired", "compromise-detected", "security")
    assert [event["new_status"] for event in kept["transitions"]] == ["suspended", "retired"]
    assert all(event["issued_at"] for event in kept["transitions"])
    assert not {"scopes", "sessions", "package"} & kept.keys()
    assert agtp("agent", "retained", "nobody", cwd=file.parent).returncode == 2
