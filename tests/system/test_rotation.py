"""A host whose certificate, revocation list and signing key change while it works."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.x509 import load_der_x509_certificate

from agtphost.audit.export import verify_export
from agtphost.identity.certificates import load_certificate
from agtphost.identity.key_history import HostKey, read_history
from agtphost.identity.keys import SigningKey, VerifyingKey
from tests.audit import independent
from tests.programmes import length
from tests.system.hosting import Host, agtp, running, sample, until
from tests.system.raw_link import RawLink, client_context

WITHIN = length(10.0, 1.0)
"""Seconds in which a stop takes effect: one is promised, and measured on a quiet machine (`--programmes`)."""

PACE = 0.02
"""Seconds between two calls of a caller: enough of them for each rotation, and few enough to verify them all again."""

EXTRA = """
[tls]
client_crl = "state/crl.pem"

[[tls.server]]
name = "librarian.localhost"
certificate = "state/named.pem"
key = "state/named.key"

[identity.server_names]
"librarian.localhost" = "librarian"
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample with a revocation list and a second certificate."""
    config = sample(tmp_path_factory.mktemp("rotation"))
    with running(config):
        pass
    here = config.parent
    made = agtp("cert", "crl", "--json", cwd=here)
    assert made.returncode == 0 and json.loads(made.stdout)["read_by_host"] is False, made.stderr
    words = ("cert", "issue", "server", "librarian.localhost", "--ca", "state/ca.pem", "-o", "state/named.pem")
    assert agtp(*words, cwd=here).returncode == 0
    text = config.read_text()
    config.write_text(text + EXTRA)
    assert agtp("check", str(config), cwd=here).returncode == 0
    with running(config) as host:
        yield host


def _serial(host: Host, name: str = "localhost") -> int:
    """Of the certificate that a client gets who asks for a name."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    raw = socket.create_connection(("127.0.0.1", host.port), 10)
    with context.wrap_socket(raw, server_hostname=name) as connection:
        return load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"").serial_number


def _serial_of(file: Path) -> int:
    return load_certificate(file).serial_number


def test_each_name_has_its_certificate(host: Host) -> None:
    """By SNI; every other name gets the host's own, and a name stands for the agent it is configured for."""
    assert _serial(host, "librarian.localhost") == _serial_of(host.state / "named.pem")
    assert _serial(host) == _serial_of(host.state / "server.pem")


def test_a_renewed_certificate_is_used_without_a_restart(host: Host) -> None:
    """A new pair of files is adopted within seconds; connections that are open go on."""
    before = _serial(host)
    with RawLink(host) as link:
        assert link.ask("DISCOVER", "/methods").status == 200
        renewed = host.config.parent / "renewed.pem"
        words = ("cert", "issue", "server", "localhost", "--ca", "state/ca.pem", "-o", str(renewed))
        assert host.agtp(*words).returncode == 0
        renewed.with_suffix(".key").rename(host.state / "server.key")
        renewed.rename(host.state / "server.pem")
        until(lambda: _serial(host) != before)
        assert _serial(host) == _serial_of(host.state / "server.pem")
        assert link.ask("DISCOVER", "/methods").status == 200


def test_the_signing_key_is_followed_while_calls_run(host: Host) -> None:
    """Three rotations under load: no call fails, all verifies, the export does with all public keys and not without."""
    first = VerifyingKey.load(host.state / "signing.pub")
    statuses: list[int] = []
    stop = threading.Event()

    def work() -> None:
        with RawLink(host) as link:
            while not stop.wait(PACE):
                statuses.append(link.ask("ECHO", "/text", {"text": "on and on"}).status)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    rotations = [host.agtp_json("key", "rotate") for _ in range(3)]
    answered = len(statuses)
    until(lambda: len(statuses) > answered + 20)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert all(rotation["adopted"] for rotation in rotations)
    assert set(statuses) == {200}
    until(lambda: host.output.count("are signed with") == 3)

    current = VerifyingKey.load(host.state / "signing.pub")
    assert current.kid == rotations[-1]["new_kid"]
    history = read_history(host.state / "keys", current)
    assert [link.old.kid for link in history] == [rotation["old_kid"] for rotation in reversed(rotations)]
    assert history[-1].old == first

    # The manifest publishes all of them; a client that knows nothing else verifies its calls.
    with RawLink(host, context=client_context(host, identified=False)) as link:
        published = link.ask("DISCOVER", "/").json()["server"]["signing_keys"]
    assert [entry["kid"] for entry in published] == [current.kid, *(link.old.kid for link in history)]
    assert "not_after" not in published[0] and all(entry["not_after"] for entry in published[1:])
    with RawLink(host) as link:
        kid = json.loads(independent.b64(link.ask("ECHO", "/text", {"text": "now"}).record.split(".")[0]))["kid"]
    assert kid == current.kid

    verified = host.agtp("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    export = host.config.parent / "all.jsonl"
    assert host.agtp("audit", "export", "--proofs", "-o", str(export)).returncode == 0
    lines = export.read_bytes().splitlines(keepends=True)
    keys = {key.kid: key for key in (current, *(link.old for link in history))}
    assert verify_export(lines, keys).ok
    payloads = independent.verify(lines, {kid: key.raw for kid, key in keys.items()})
    events = [payload for payload in payloads if payload.get("event_type") == "signing-key-rotated"]
    assert [(event["old_kid"], event["new_kid"]) for event in events] == [
        (rotation["old_kid"], rotation["new_kid"]) for rotation in rotations
    ]
    # An auditor who has the first key and the file needs nothing else, whatever was selected.
    export.with_name("first.pub").write_bytes(first.pem)
    checked = host.agtp("audit", "verify", "--file", "all.jsonl", "--signing-key", "first.pub")
    assert checked.returncode == 0 and "signing keys: " in checked.stdout, checked.stdout + checked.stderr
    assert len(independent.verify(lines, {first.kid: first.raw})) == len(payloads)
    assert host.agtp("audit", "export", "--agent", "librarian", "-o", "one.jsonl").returncode == 0
    assert host.agtp("audit", "verify", "--file", "one.jsonl", "--signing-key", "first.pub").returncode == 0
    # The control: without one of the earlier keys, its records are signature_unverified.
    assert not verify_export(lines, {kid: key for kid, key in keys.items() if kid != first.kid}).ok


def test_a_reload_asks_for_no_restart_because_of_a_rotated_key(host: Host) -> None:
    """The running host signs with the new key; a file that it does not sign with waits for a restart."""
    assert host.agtp_json("key", "rotate")["adopted"] is True
    assert host.agtp_json("reload", "--check")["waiting"] == []
    file = host.state / "signing.key"
    good = file.read_bytes()
    try:
        file.write_bytes(SigningKey.generate().pem)
        assert host.agtp_json("reload", "--check")["waiting"] == ["signing key (signing.key)"]
    finally:
        file.write_bytes(good)


@pytest.mark.release
def test_a_revoked_certificate_is_refused_on_every_open_connection(host: Host) -> None:
    """T-TL-75, companion section 9.3: 200 connections; from the next request on each gets 401, and no new one opens."""
    context = client_context(host)
    links = [RawLink(host, context=context) for _ in range(200)]
    try:
        since = time.monotonic()
        assert {link.ask("ECHO", "/text", {"text": "before"}).status for link in links} == {200}
        usual = time.monotonic() - since
        said = len(host.output)
        done = host.agtp_json("cert", "revoke", "state/agents/demo/agent.pem", "--reason", "key-compromise")
        assert done["read_by_host"] is True and done["revoked"][0]["reason"] == "key-compromise"
        until(lambda: "the changed TLS files are in use" in host.output[said:] and "crl.pem" in host.output[said:])
        since = time.monotonic()
        answers = [link.ask("ECHO", "/text", {"text": "after"}) for link in links]
        assert time.monotonic() - since < WITHIN + 2 * usual
        assert {(answer.status, answer.reason) for answer in answers} == {(401, "certificate-revoked")}
    finally:
        for link in links:
            link.close()
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        RawLink(host, context=context).ask("DISCOVER", "/methods")
    # Another certificate of the same authority is not concerned.
    assert host.agtp("agent", "deactivate", "librarian").returncode == 0
    assert host.agtp("agent", "reinstate", "librarian").returncode == 0


def test_a_list_that_cannot_be_read_fails_closed(host: Host) -> None:
    """No client certificate counts while the list is damaged; those without one go on; a good list ends it."""
    crl = host.state / "crl.pem"
    good = crl.read_bytes()
    crl.write_bytes(good[:-40])
    until(lambda: "a revocation list went out of use" in host.output)
    assert host.agtp("agent", "deactivate", "librarian").returncode != 0
    with RawLink(host, context=client_context(host, identified=False)) as link:
        assert link.ask("DISCOVER", "/methods").status == 200
    crl.write_bytes(good)
    until(lambda: host.agtp("agent", "reinstate", "librarian").returncode == 0)


def test_a_restart_goes_on_with_the_newest_key(host: Host) -> None:
    """The witness file and the checkpoints of earlier keys are believed; a rotation that waited is taken at start."""
    before = VerifyingKey.load(host.state / "signing.pub").kid
    assert host.stop() == 0
    waiting = host.agtp_json("key", "rotate", "--wait", "0")
    assert waiting["adopted"] is False and waiting["old_kid"] == before
    assert host.agtp("key", "rotate", "--wait", "0").returncode == 2, "one at a time"
    with running(host.config) as again:
        until(lambda: VerifyingKey.load(again.state / "signing.pub").kid == waiting["new_kid"])
        until(lambda: "are signed with" in again.output)
        assert HostKey.of_host(again.state / "signing.key", again.state).kid == waiting["new_kid"]
        assert len(again.agtp_json("key", "history")) >= 2
    assert host.agtp("audit", "verify").returncode == 0
