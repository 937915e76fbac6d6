"""Agents issued while a host runs, and domains that expire: what operators do, by their commands."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agtphost.cli import root
from agtphost.cli.agent import admission
from agtphost.identity import jws
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from agtphost.identity.keys import VerifyingKey
from tests.system.hosting import Host, free_port, running, sample, until


@cache
def https_port() -> int:
    """Of the host for all."""
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all; the tests use agents of their own."""
    here = f'\n[wellknown]\nlisten = "ssl:{https_port()}:interface=127.0.0.1"\n'
    with running(sample(tmp_path_factory.mktemp("admission"), append=here)) as started:
        yield started


def hang_up(host: Host, word: str) -> list[str]:
    """SIGHUP, wait for a line that has the word, and what was said up to there."""
    seen = len(host.lines)
    host.process.send_signal(signal.SIGHUP)
    until(lambda: any(word in line for line in host.lines[seen:]))
    return host.lines[seen:]


def body(host: Host, *words: str) -> Any:
    """The body of an answer of the host."""
    return host.agtp_json("call", "-", *words)["body"]


def namespace(host: Host) -> list[str]:
    """The labels of the signed namespace document, its signature checked."""
    document = body(host, "DESCRIBE", "/agents")
    signature = document.pop("signature")
    key = VerifyingKey.load(host.state / "signing.pub")
    assert key.verify(decode(signature["value"]), canonical(document))
    return [entry["agent_label"] for entry in document["agents"]]


def events(host: Host, agent_id: str) -> list[dict[str, Any]]:
    """The agent's lifecycle stream, oldest first, each verified."""
    key = VerifyingKey.load(host.state / "signing.pub")
    stream = body(host, "INSPECT", "/", "target=lifecycle", f"agent_id={agent_id}")["result"]["events"]
    return [jws.verify(one["jws"], {key.kid: key}) for one in reversed(stream)]


def document_version(host: Host) -> str:
    """Of the manifest."""
    shown = host.agtp_json("manifest", "show", "-")
    return str(shown.get("manifest", shown)["document_version"])


def test_agents_are_taken_up_while_the_host_runs(host: Host) -> None:
    """
    AGTP-170: after SIGHUP a new caller calls, a new hosted agent is addressed, and both chains begin with their issue.

    The namespace document is signed anew with the agent in it, and the manifest, which names the agents, has
    another version; open calls and other agents are not concerned.
    """
    before = document_version(host)
    clerk = host.agtp_json("agent", "new", "clerk", "--hosted", "--description", "Files.")
    buyer = host.agtp_json("agent", "new", "buyer", "--scope", "booking:*")
    refused = host.agtp("call", "-", "DISCOVER", "/methods", "--as", "buyer", "--json")
    assert refused.returncode == 1 and json.loads(refused.stdout)["body"]["reason"] == "agent-unauthenticated"
    assert namespace(host) == ["librarian"]
    hang_up(host, "buyer (")
    until(lambda: any("clerk (" in line for line in host.lines))
    assert namespace(host) == ["clerk", "librarian"]
    assert body(host, "DISCOVER", "/methods", "--as", "buyer")
    assert body(host, "DESCRIBE", "/agents/clerk")["agent_id"] == clerk["agent_id"]
    assert document_version(host) != before
    for agent in (clerk, buyer):
        [entry] = events(host, agent["agent_id"])
        assert (entry["event_type"], entry["new_status"]) == ("agent-genesis-issued", "active")
        genesis = Path(agent["directory"], "genesis.json").read_bytes()
        assert entry["genesis_sha256"] == entry["evidence"]["genesis_sha256"] == sha256(genesis).hexdigest()
        assert entry["evidence"]["label_unique"] is True
    assert host.agtp("audit", "verify").returncode == 0


def test_a_second_hang_up_records_nothing_twice(host: Host) -> None:
    """AGTP-170: an issue is recorded once, also across a restart."""
    agent = host.agtp_json("agent", "new", "once", "--scope", "booking:*")
    hang_up(host, "once (")
    hang_up(host, "SIGHUP")
    assert len(events(host, agent["agent_id"])) == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_an_agent_that_is_issued_and_not_admitted_is_named_and_admitted_by_reload(
    host: Host, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """Where the host refuses, --admit says what was issued, and what it prints leads to an agent that calls."""
    monkeypatch.setattr(admission, "PATIENCE", 0.0)
    broken = host.config.parent / "endpoints" / "broken.toml"
    broken.write_text("method = ")
    name = f"late-{as_json}"
    words = ["agent", "new", name, "--admit", "--config", str(host.config), *(["--json"] if as_json else [])]
    try:
        refused = CliRunner().invoke(root.agtp, words)
        assert refused.exit_code == 2, refused.output
        assert f"the agent {name} is issued, but the host does not admit it" in refused.stderr
        assert "`agtp check` names faults" in refused.stderr and "then `agtp reload`" in refused.stderr
        assert host.agtp("reload").returncode == 1
    finally:
        broken.unlink()
    made = host.config.parent / "state" / "agents" / name
    document = json.loads((made / "document.json").read_text())
    if as_json:
        answer = json.loads(refused.stdout)
        assert (answer["agent_id"], answer["directory"]) == (document["agent_id"], str(made))
        assert answer["exit_status"] == 2 and "is issued" in answer["error"]
    else:
        assert document["agent_id"] in refused.stdout and str(made) in refused.stdout
    assert host.agtp("reload").returncode == 0
    assert body(host, "DISCOVER", "/methods", "--as", name)
    assert len(events(host, document["agent_id"])) == 1


@pytest.mark.parametrize(("answer", "is_admitted"), [("\n", True), ("n\n", False)])
def test_a_person_is_asked_whether_a_running_host_admits_the_agent(
    host: Host, monkeypatch: pytest.MonkeyPatch, answer: str, is_admitted: bool
) -> None:
    """The next command that a person types works; who declines is told what admits the agent later."""
    monkeypatch.setattr("agtphost.cli.agent.issue.on_terminal", lambda: True)
    name = f"asked-{is_admitted}"
    words = ["agent", "create", name, "--config", str(host.config)]
    made = CliRunner().invoke(root.agtp, words, input=answer)
    assert made.exit_code == 0 and "admit it now" in made.stderr, made.output
    assert ("`agtp reload`" in made.stderr) is not is_admitted
    called = host.agtp("call", "-", "DISCOVER", "/methods", "--as", name)
    assert (called.returncode == 0) is is_admitted, called.stderr


def test_one_label_is_issued_once(host: Host) -> None:
    """AGTP-170: the second registration of a label is refused, also of an agent of the other kind."""
    assert host.agtp("agent", "new", "twice").returncode == 0
    for words in (("twice",), ("twice", "--hosted"), ("librarian",)):
        refused = host.agtp("agent", "new", *words)
        assert refused.returncode == 2, refused.stdout
        assert "exists" in refused.stderr or "has an agent named" in refused.stderr


def test_the_same_genesis_is_no_new_registration(host: Host) -> None:
    """AGTP-172: submitted again under another name it is refused and logged, and nothing else is adopted with it."""
    agent = host.agtp_json("agent", "new", "original", "--scope", "booking:*")
    hang_up(host, "original (")
    copy = Path(agent["directory"]).with_name("copy")
    shutil.copytree(agent["directory"], copy)
    try:
        said = hang_up(host, "agent_id: another agent has")
        assert any("nothing changed" in line for line in said)
    finally:
        shutil.rmtree(copy)
    assert len(events(host, agent["agent_id"])) == 1
    assert body(host, "DISCOVER", "/methods", "--as", "original")


def test_a_statement_of_somebody_else_is_not_believed(host: Host) -> None:
    """AGTP-170: an agent whose issue.jws its registrar did not sign is not admitted."""
    agent = host.agtp_json("agent", "new", "forged", "--scope", "booking:*")
    other = host.agtp_json("agent", "new", "other", "--scope", "booking:*")
    shutil.copy(Path(other["directory"], "issue.jws"), Path(agent["directory"], "issue.jws"))
    try:
        hang_up(host, "it is about another Genesis")
    finally:
        shutil.rmtree(agent["directory"])
    hang_up(host, "other (")


def test_a_domain_expires_and_is_renewed(host: Host) -> None:
    """AGTP-181: by command; the agents are told, stopped on open connections within the second, and come back."""
    agent = host.agtp_json("agent", "new", "vendor", "--scope", "booking:*", "--org-domain", "shop.example.com")
    hang_up(host, "vendor (")
    assert body(host, "DISCOVER", "/methods", "--as", "vendor")
    told = host.agtp_json("domain", "expire", "example.com", "--actor", "Ops")
    assert [one["name"] for one in told["agents"]] == ["vendor"]

    def stopped() -> bool:
        done = host.agtp("call", "-", "DISCOVER", "/methods", "--as", "vendor", "--json")
        return done.returncode == 1 and json.loads(done.stdout)["body"]["reason"] == "agent-suspended"

    until(stopped)
    [listed] = host.agtp_json("domain", "ls")
    assert (listed["domain"], listed["state"]) == ("example.com", "expired")
    refused = host.agtp("agent", "new", "heir", "--org-domain", "example.com")
    assert refused.returncode == 2 and "expired" in refused.stderr
    refused = host.agtp("agent", "reinstate", "vendor")
    assert refused.returncode == 1 and "org-domain-expired" in refused.stderr
    assert host.agtp("domain", "renew", "example.com").returncode == 0
    until(lambda: not stopped())
    assert [entry["event_type"] for entry in events(host, agent["agent_id"])] == [
        "agent-genesis-issued",
        "org-domain-expired",
        "agent-lifecycle-suspended",
        "org-domain-renewed",
        "agent-lifecycle-reinstated",
    ]
    assert host.agtp("audit", "verify").returncode == 0


def test_the_https_server_shows_a_renewed_certificate(host: Host) -> None:
    """Core v08 section 6.1: after SIGHUP; a broken pair of files changes nothing, and the document is served on."""

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", https_port()))

    before = shown()
    renewed = host.config.parent / "renewed.pem"
    words = ("cert", "issue", "server", "localhost", "--ca", "state/ca.pem", "-o", str(renewed))
    assert host.agtp(*words).returncode == 0
    key = (host.state / "server.key").read_bytes()
    (host.state / "server.pem").write_bytes(renewed.read_bytes())
    hang_up(host, "nothing changed")
    assert shown() == before
    (host.state / "server.key").write_bytes(renewed.with_suffix(".key").read_bytes())
    hang_up(host, "SIGHUP: the TLS certificate")
    until(lambda: shown() != before)
    assert shown().split() == renewed.read_text().split() and key != renewed.with_suffix(".key").read_bytes()
