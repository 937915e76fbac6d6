"""People of ``[notify]`` come and go while a host runs: what waits belongs to the name, not to the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.client.sync import Client
from agtphost.identity.certificates import load_certificate, parse_peer_certificate
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, running, sample

KEYS = ("cfo", "heir")
NOTIFY = """
[notify.people]
usr-cfo = "{key}"

[notify.groups]
finance = ["usr-cfo"]
"""


class Office:
    """A host, and whoever calls it."""

    def __init__(self, host: Host, base: str, keys: dict[str, str]) -> None:
        self.host = host
        self._base = base
        self._keys = keys
        folder = host.config.parent
        places = {
            "demo": (host.state / "agents" / "demo" / "agent.pem", host.state / "agents" / "demo" / "agent.key"),
            "registrar": (host.state / "registrar.pem", host.state / "registrar.key"),
            **{name: (folder / f"{name}.pem", folder / f"{name}.key") for name in KEYS},
        }
        self.clients = {
            name: Client(trust=host.state / "ca.pem", cert=cert, key=key) for name, (cert, key) in places.items()
        }

    def ask(self, by: str, method: str, path: str = "/", **given: Any) -> Any:
        """Return an answer's status and body."""
        reply = self.clients[by].call(self.host.uri, method, path, given)
        return reply.status, reply.json()

    def seen(self, by: str) -> tuple[set[str], set[str]]:
        """Return the escalations that somebody sees, and the content of its notifications."""
        escalations = self.ask(by, "QUERY", "/escalations")[1]["result"]["escalations"]
        notices = self.ask(by, "QUERY", "/notifications")[1]["result"]["notifications"]
        return {each["escalation_id"] for each in escalations}, {str(each["content"]) for each in notices}

    def appoint(self, name: str | None) -> None:
        """Give the key of somebody the name, or nobody's, and have the host take it."""
        self.host.config.write_text(self._base + ("" if name is None else NOTIFY.format(key=self._keys[name])))
        done = self.host.agtp("reload")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    config = sample(tmp_path)
    folder, state = config.parent, config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[folder / "agents" / "librarian.agent.json"])
    keys = {}
    for name in KEYS:
        done = agtp("cert", "issue", "client", name, "--ca", str(state / "ca.pem"), "-o", str(folder / f"{name}.pem"))
        assert done.returncode == 0, done.stderr
        octets = load_certificate(folder / f"{name}.pem").public_bytes(Encoding.DER)
        keys[name] = parse_peer_certificate(octets).fingerprint
    base = config.read_text() + '\n[methods]\nstandard = ["REPLY"]\n'
    config.write_text(base + NOTIFY.format(key=keys["cfo"]))
    with running(config) as host:
        made = Office(host, base, keys)
        yield made
        for client in made.clients.values():
            client.close()


def test_a_successor_has_what_waits_and_whoever_left_has_nothing(office: Office) -> None:
    """AGTP-334: escalations and messages to a name are its present holder's, from the reload on."""
    given: dict[str, Any] = {"reason": "scope_limit", "context": {"resource": "vendor-contract-750k"}}
    made = []
    for task, recipient in (("task-1", "usr-cfo"), ("task-2", "finance")):
        status, body = office.ask("demo", "ESCALATE", task_id=task, recipient=recipient, **given)
        assert status == 202 and body["result"]["routed_to"] == recipient
        made.append(body["result"]["escalation_id"])
        status, body = office.ask("demo", "NOTIFY", recipient=recipient, content=f"to {recipient}")
        assert status in (200, 202), body
    waiting = (set(made), {"to usr-cfo", "to finance"})
    assert office.seen("cfo") == waiting and office.seen("heir") == (set(), set())
    (first, *_) = office.ask("cfo", "QUERY", "/notifications")[1]["result"]["notifications"]
    assert first["recipient"] == "usr-cfo"

    office.appoint("heir")
    assert office.seen("cfo") == (set(), set()) and office.seen("heir") == waiting
    for target in (made[0], first["notification_id"]):
        assert office.ask("cfo", "CONFIRM", target_id=target, status="accepted")[0] == 404
        assert office.ask("cfo", "REPLY", in_reply_to=target, content="no")[0] in (401, 404)
        assert office.ask("heir", "CONFIRM", target_id=target, status="accepted")[0] == 200
    assert office.seen("heir") == ({*made}, {"to finance"})

    office.appoint(None)
    assert office.seen("heir") == (set(), set())
    assert office.ask("heir", "CONFIRM", target_id=made[1], status="accepted")[0] == 404
    status, body = office.ask("demo", "ESCALATE", task_id="task-3", recipient="usr-cfo", **given)
    assert (status, body["reason"]) == (404, "recipient-unknown")
    assert set(made) <= office.seen("registrar")[0], "its registrar sees what has no recipient left"
    assert office.ask("registrar", "CONFIRM", target_id=made[1], status="rejected")[0] == 200
