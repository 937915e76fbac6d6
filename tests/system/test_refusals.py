"""
Strangers who are refused by the thousand, and what they leave on the disk and in the log (T-ST-50).

The sample host with the limits of the production profile, attacked from loopback.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.summaries import EVENT, READS
from agtphost.identity.jws import parse_unverified, verify
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import Answer, RawLink, client_context, request
from tests.system.test_disk import book, fill, small_disk, with_store
from tests.system.trail import database, keys, stored, verified

__all__ = ["small_disk"]

LIMITS = """
[audit]
refusal_records_per_address = 10
refusal_records_of_strangers = 20
refusal_records_per_agent = 60
read_records_per_address = 15
read_records_of_strangers = 30
refusal_summary_seconds = {seconds}
"""
LINKS = 8
EACH = 40


def limited(tmp_path: Path, seconds: int = 3_600, more: str = "") -> Path:
    return sample(tmp_path, append=LIMITS.format(seconds=seconds) + more)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """With summaries that are only written at the end, or when asked for."""
    with running(limited(tmp_path)) as host:
        yield host


def flood(host: Host, octets: bytes, *, identified: bool = False) -> list[Answer]:
    """The same request over several connections at once."""
    context, answers = client_context(host, identified=identified), []

    def ask() -> None:
        with RawLink(host, context=context) as link:
            for _ in range(EACH):
                link.send(octets)
                answer = link.answer()
                assert answer is not None
                answers.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(LINKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == LINKS * EACH
    return answers


def summaries(file: Path, event: str = EVENT) -> list[dict[str, Any]]:
    """Those in the store."""
    payloads = [parse_unverified(record.signed.decode()) for record in stored(file) if record.format == "jws"]
    return [payload for payload in payloads if payload.get("event_type") == event]


def test_conformance_copes_with_refusals_that_are_summed_up(host: Host) -> None:
    """A case that reads the record of a refusal back is not run where the refusal has none, and none fails of it."""
    flood(host, request("FROBNICATE", "/"))
    told = host.agtp_json("conformance", "--only", "inspect.audit-*", "--only", "status.logged")
    unread = {case["id"] for case in told["cases"] if "summed up" in case["message"]}
    assert {"inspect.audit-of-malformed", "status.logged"} <= unread
    assert told["failed"] == 0
    assert told["passed"] >= 5


def test_unknown_identities_are_summed_up(host: Host) -> None:
    """The first few have a record each; all others are in one, which says who they said they were."""
    answers = flood(host, request("DISCOVER", "/agents", Agent_ID="e" * 64))
    assert {answer.status for answer in answers} == {401}
    known = {record.audit_id for record in stored(database(host))}
    alone = [answer for answer in answers if answer.audit_id in known]
    assert 10 <= len(alone) <= 15, "ten, and what grew back meanwhile"
    for answer in answers:
        payload = verify(answer.record, keys(host))
        assert payload["status"] == 401
        assert (payload.get("durable") is False) == (answer not in alone)
        assert payload.get("summary_id") == answer.headers.get("audit-summary")
    host.stop()
    [summary] = summaries(database(host))
    assert summary["count"] == len(answers) - len(alone)
    assert {answer.headers["audit-summary"] for answer in answers if answer not in alone} == {summary["summary_id"]}
    assert summary["origin"] == {"kind": "address", "name": "127.0.0.1"}
    assert summary["claimed"] == [{"agent_id": "e" * 64, "count": summary["count"]}]
    assert verified(host, stored(database(host))).faults == []


def test_what_strangers_read_is_summed_up(host: Host) -> None:
    """
    Anonymous DISCOVER and DESCRIBE are answered on and on; few have a record, and the rest is in one that names them.

    Beside them an agent with its certificate reads with a record each.
    """
    answers = flood(host, request("DISCOVER", "/methods")) + flood(host, request("DESCRIBE", "/"))
    assert {answer.status for answer in answers} == {200}
    with RawLink(host) as link:
        # DESCRIBE is no list, of which repeated reads are counted (tests/system/test_list_reads.py).
        own = [link.ask("DESCRIBE", "/") for _ in range(50)]
    known = {record.audit_id for record in stored(database(host))}
    assert {answer.audit_id for answer in own} <= known
    alone = [answer for answer in answers if answer.audit_id in known]
    assert 15 <= len(alone) <= 25, "fifteen, and what grew back meanwhile"
    for answer in answers:
        payload = verify(answer.record, keys(host))
        assert payload["status"] == 200
        assert (payload.get("durable") is False) == (answer not in alone)
        assert payload.get("summary_id") == answer.headers.get("audit-summary")
    host.stop()
    [summary] = summaries(database(host), READS)
    assert summary["count"] == len(answers) - len(alone)
    assert {answer.headers["audit-summary"] for answer in answers if answer not in alone} == {summary["summary_id"]}
    assert summary["origin"] == {"kind": "address", "name": "127.0.0.1"}
    assert {(entry["method"], entry["path"]) for entry in summary["outcomes"]} <= {
        ("DISCOVER", "/methods"),
        ("DESCRIBE", "/"),
    }
    assert sum(entry["count"] for entry in summary["outcomes"]) == summary["count"]
    assert summary["since"] < summary["until"]
    assert verified(host, stored(database(host))).faults == []


def test_garbage_is_summed_up(host: Host) -> None:
    """Octets that are no request, a connection each: no record each, and no line in the log each."""
    context = client_context(host, identified=False)
    before = len(host.lines)
    for _ in range(100):
        with RawLink(host, context=context) as link:
            link.send(b"\x16garbage\r\n\r\n")
            answer = link.answer()
            assert answer is not None and answer.status == 400
    assert len(stored(database(host))) < 30
    host.stop()
    [summary] = summaries(database(host))
    assert summary["count"] >= 80
    assert len(host.lines) - before < 25, host.output


def test_an_agent_is_recorded_one_by_one_beside_it(host: Host) -> None:
    """Dozens of refusals a minute of an agent with its certificate stay one record each, also during a flood."""
    flooding = threading.Thread(target=flood, args=(host, request("DISCOVER", "/agents", Agent_ID="e" * 64)))
    flooding.start()
    with RawLink(host) as link:
        answers = [link.ask("QUERY", "/nowhere") for _ in range(50)]
    flooding.join()
    known = {record.audit_id for record in stored(database(host))}
    assert {answer.audit_id for answer in answers} <= known
    # Its own flood is summed up as its own.
    flood(host, request("QUERY", "/nowhere"), identified=True)
    host.stop()
    assert {summary["origin"]["kind"] for summary in summaries(database(host))} == {"address", "agent"}


def test_the_operator_sees_what_was_summed_up(tmp_path: Path) -> None:
    """Reading the host's chain writes what waits; walk and explain tell of it in words."""
    config = limited(tmp_path)
    with running(config) as host:
        shown = host.agtp("cert", "show", "state/registrar.pem", "--json")
        assert shown.returncode == 0, shown.stderr
        fingerprint = json.loads(shown.stdout)["key_fingerprint"]
    config.write_text(config.read_text().replace("[audit]", f'[audit]\noperators = ["{fingerprint}"]'))
    with running(config) as host:
        flood(host, request("DISCOVER", "/agents", Agent_ID="e" * 64))
        assert not summaries(database(host))
        walked = host.agtp("audit", "walk", "host", "-n", "3", "--as", "registrar")
        assert re.search(r"\d+ refusals of agent-unauthenticated between", walked.stdout), walked.stdout + walked.stderr
        [summary] = summaries(database(host))
        entries = host.agtp_json("audit", "walk", "host", "-n", "20", "--as", "registrar")
        [audit_id] = [entry["audit_id"] for entry in entries if entry["payload"].get("event_type") == EVENT]
        told = host.agtp("explain", audit_id).stdout
        assert f"{summary['count']} refusals of agent-unauthenticated" in told
        flood(host, request("DISCOVER", "/methods"))
        walked = host.agtp("audit", "walk", "host", "-n", "3", "--as", "registrar")
        assert re.search(r"\d+ reads of DISCOVER /methods between", walked.stdout), walked.stdout + walked.stderr
        assert "origin   address 127.0.0.1" in told and "claimed  " + "e" * 64 in told
        assert host.agtp("audit", "verify").returncode == 0


def test_a_summary_is_written_when_its_time_is_over(tmp_path: Path) -> None:
    """Without anybody's asking."""
    with running(limited(tmp_path, seconds=1)) as host:
        answers = flood(host, request("DISCOVER", "/agents", Agent_ID="e" * 64))
        counted = sum("audit-summary" in answer.headers for answer in answers)
        assert counted, "every refusal has a record of its own"
        until(lambda: sum(summary["count"] for summary in summaries(database(host))) == counted)


def test_control_with_large_limits_every_refusal_is_a_record(tmp_path: Path) -> None:
    """What the tests above count is what limits make of it: the development profile's are large."""
    with running(sample(tmp_path)) as host:
        flood(host, request("DISCOVER", "/agents", Agent_ID="e" * 64))
        assert len(stored(database(host))) >= LINKS * EACH


def call(host: Host, *words: str) -> Any:
    done = host.agtp("call", host.uri, *words, "--json", "--config", str(host.config))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["body"]


def changes(host: Host, number: int) -> list[int]:
    """The registrar suspends the caller and reinstates it, so many times; the statuses, up to the first 503."""
    context = client_context(host, identified=False)
    context.load_cert_chain(host.state / "registrar.pem", host.state / "registrar.key")
    demo = json.loads((host.state / "agents" / "demo" / "document.json").read_text())["agent_id"]
    statuses: list[int] = []
    with RawLink(host, context=context) as link:
        while len(statuses) < number and 503 not in statuses:
            method = "REINSTATE" if len(statuses) % 2 else "DEACTIVATE"
            statuses.append(link.ask(method, "/", {"agent_id": demo, "reason": "x" * 200}).status)
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("reserve", [16 << 20, 0], ids=["reserve", "control-without"])
def test_revocation_works_on_a_full_disk(tmp_path: Path, small_disk: Path, reserve: int) -> None:
    """
    Somebody else takes the last octet: ordinary calls are 503, REVOKE and CONFIRM are done and on record.

    The control is a host that holds nothing back: it cannot write the revocation either.
    """
    file = small_disk / "records.sqlite3"
    config = with_store(tmp_path, file, 24 << 20)
    config.write_text(config.read_text() + f"free_space_reserve = {reserve}\n")
    with running(config) as host, RawLink(host) as link:
        assert book(link, "before").status == 200
        escalated = call(host, "ESCALATE", "task_id=t-1", "reason=scope_limit", "context:={}")["result"]
        ballast = fill(small_disk, 0)
        for number in range(30):
            answer = book(link, f"full-{number}")
            if answer.status == 503:
                break
        answers = changes(host, 200)
        if not reserve:
            assert 503 in answers, "the log of the store had room for all of it"
            return
        assert set(answers) == {200}
        revoked = host.agtp("agent", "revoke", "demo", "--reason", "compromise-detected")
        assert revoked.returncode == 0, revoked.stdout + revoked.stderr + host.output
        target = f"target_id={escalated['escalation_id']}"
        assert call(host, "CONFIRM", target, "status=accepted", "--as", "registrar")["status"] == 200
        assert link.ask("ECHO", "/text", {"text": "no"}).status == 503
        # A stranger's CONFIRM takes nothing of the reserve.
        before = len(stored(file))
        with RawLink(host, context=client_context(host, identified=False)) as stranger:
            for _ in range(20):
                stranger.ask("CONFIRM", "/", {"target_id": "x", "status": "accepted"})
        assert len(stored(file)) == before
        host.kill()
    # It was durable.
    ballast.unlink()
    with running(config) as host, RawLink(host) as link:
        assert link.ask("ECHO", "/text", {"text": "late"}).status == 410
        assert verified(host, stored(file)).faults == []


def test_connections_beyond_a_limit_log_nothing_each(tmp_path: Path) -> None:
    """Closed before a word of TLS, and not spoken of."""
    limits = "\n[limits]\nconnections = 4\nconnections_per_address = 4\n"
    with running(sample(tmp_path, append=limits)) as host:
        before = len(host.lines)
        links = [socket.create_connection(("127.0.0.1", host.port)) for _ in range(200)]
        for link in links[10:]:
            link.settimeout(10)
            assert link.recv(1) == b""
        for link in links:
            link.close()
        assert len(host.lines) - before <= 2, host.output
