"""
The incident: an agent misbehaves, its issuer revokes it while calls run, and the evidence holds without the host.

``agtp agent revoke`` is what the issuer types; the other side is plain TLS and
a verifier of exports that shares no line with the program.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.export import ExportError, verify_export
from agtphost.identity.keys import VerifyingKey
from tests.audit import independent
from tests.measuring import measured
from tests.programmes import length
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import Answer, RawLink, Truncated, client_context, request

CONNECTIONS = 50
SLOW = 10
"""Connections with a call that runs while the revocation comes."""

SECONDS = 4.0
"""How long such a call takes if nobody ends it."""

STOPPED_WITHIN = 1.0
"""And as long again as all connections take one after the other: the machine may have other things to do."""

FLIPS = length(60, 200)

_ENDPOINT = """
method = "QUERY"
path = "/slowly"
description = "Answers after a while."
namespace = "samples"
errors = []
required_scopes = ["documents:query"]

[handler]
type = "registered_function"
function = "handlers.slowly.wait"

[semantic]
intent = "Wait."
actor = "agent"
outcome = "Time has passed."
capability = "discovery"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
required = ["seconds"]

[input_schema.properties]
seconds = { type = "number", minimum = 0 }

[output_schema]
type = "object"
additionalProperties = true
"""

_HANDLER = """
from twisted.internet import task


async def wait(ctx):
    from twisted.internet import reactor

    await task.deferLater(reactor, ctx.input["seconds"])
    return {"waited": ctx.input["seconds"]}
"""


@dataclass
class Incident:
    """What was seen from outside."""

    demo: str
    export: Path
    key: VerifyingKey
    revocation: str = ""
    """The signed time of the revocation."""

    answers: list[tuple[bytes, Answer, float]] = field(default_factory=list)
    """Every answer that any connection got: the request's octets, the answer, when."""

    refused: dict[int, float] = field(default_factory=dict)
    """When each idle connection was first refused, or closed."""

    ended: dict[int, tuple[float, int]] = field(default_factory=dict)
    """When each running call ended, and with which status; 0 where the connection was closed."""

    rounds: list[float] = field(default_factory=list)
    """How long it took to ask every idle connection once, before the revocation."""

    after: dict[int, int] = field(default_factory=dict)
    """The status of the request that was waiting behind each running call; 0 where the connection was closed."""

    @property
    def revoked_at(self) -> float:
        """The same in seconds since the Unix epoch."""
        return datetime.fromisoformat(self.revocation).timestamp()

    @property
    def within(self) -> float:
        return STOPPED_WITHIN + 2 * max(self.rounds)

    @property
    def lines(self) -> list[bytes]:
        return self.export.read_bytes().splitlines(keepends=True)


CALLS = (
    request("ECHO", "/text", {"text": "quietly"}),
    request("QUERY", "/library/9780142437230"),
    request("QUERY", "/library/0000000000000"),
    request("BOOK", "/nowhere", {"all": "rooms"}),
)
"""What the agent is up to: some of it is refused."""


class Watch:
    """The agent's connections."""

    def __init__(self, host: Host, incident: Incident) -> None:
        context = client_context(host)
        self._incident = incident
        self._links = [RawLink(host, context=context) for _ in range(CONNECTIONS)]
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def misbehave(self) -> None:
        for number, link in enumerate(self._links):
            assert self._ask(link, CALLS[number % len(CALLS)]) is not None

    def start(self) -> list[threading.Thread]:
        """Slow calls on some connections, one request after the other on all others."""
        threads = [threading.Thread(target=self._wait, args=(number,), daemon=True) for number in range(SLOW)]
        threads.append(threading.Thread(target=self._hammer, daemon=True))
        for thread in threads:
            thread.start()
        return threads

    def close(self) -> None:
        self._stop.set()
        for link in self._links:
            link.close()

    def _ask(self, link: RawLink, octets: bytes) -> Answer | None:
        link.send(octets)
        return self._answer(link, octets)

    def _answer(self, link: RawLink, octets: bytes) -> Answer | None:
        try:
            answer = link.answer()
        except (OSError, Truncated):
            return None
        if answer is not None:
            with self._lock:
                self._incident.answers.append((octets, answer, time.time()))
        return answer

    def _wait(self, number: int) -> None:
        """A call that takes a while, and one that waits behind it on the same connection."""
        link, slow = self._links[number], request("QUERY", "/slowly", {"seconds": SECONDS})
        link.send(slow + CALLS[0])
        answer = self._answer(link, slow)
        self._incident.ended[number] = (time.time(), 0 if answer is None else answer.status)
        following = None if answer is None else self._answer(link, CALLS[0])
        self._incident.after[number] = 0 if following is None else following.status

    def _hammer(self) -> None:
        left = set(range(SLOW, CONNECTIONS))
        while left and not self._stop.wait(0.1):
            begun = time.monotonic()
            for number in sorted(left):
                try:
                    answer = self._ask(self._links[number], CALLS[0])
                except OSError:
                    answer = None
                if answer is None or answer.status == 410:
                    self._incident.refused[number] = time.time()
                    left.discard(number)
            if not self._incident.refused:
                self._incident.rounds.append(time.monotonic() - begun)


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    """The whole story, once; the tests look at what is left of it."""
    config = sample(tmp_path_factory.mktemp("incident"))
    (config.parent / "endpoints" / "slowly.toml").write_text(_ENDPOINT)
    (config.parent / "handlers" / "slowly.py").write_text(_HANDLER)
    export = config.parent / "incident.jsonl"
    with running(config) as host:
        demo = json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
        seen = Incident(
            demo=demo,
            export=export,
            key=VerifyingKey.load(host.state / "signing.pub"),
        )
        watch = Watch(host, seen)
        try:
            watch.misbehave()
            threads = watch.start()
            until(lambda: bool(seen.rounds))
            revoked = host.agtp_json("agent", "revoke", "demo", "--reason", "compromise-detected")
            for thread in threads:
                thread.join(120)
        finally:
            watch.close()
        done = host.agtp("audit", "export", "--since", "1h", "--proofs", "-o", str(export))
        assert done.returncode == 0, done.stderr
        key = str(host.state / "signing.pub")
        assert host.agtp("audit", "verify", "--file", str(export), "--signing-key", key).returncode == 0
    seen.revocation = payloads(seen)[revoked["audit_id"]]["issued_at"]
    yield seen


def payloads(incident: Incident) -> dict[str, dict[str, Any]]:
    """What the export says, by Audit-ID, once somebody else's program has verified all of it."""
    raw = {incident.key.kid: incident.key.raw}
    read = independent.verify(incident.lines, raw)
    names = [json.loads(line)["audit_id"] for line in incident.lines[1:-1]]
    return dict(zip(names, read, strict=True))


@measured
def test_every_open_connection_stops_within_a_second(incident: Incident) -> None:
    """T-LC-70: fifty connections; from the signed time of the revocation on, none gets anything done."""
    assert len(incident.refused) == CONNECTIONS - SLOW
    late = {number: at - incident.revoked_at for number, at in incident.refused.items()}
    assert max(late.values()) < incident.within, late
    # The calls that ran ended with it, sealed as what they are; none was finished.
    assert len(incident.ended) == SLOW
    assert {status for _, status in incident.ended.values()} == {410}, incident.ended
    assert max(at for at, _ in incident.ended.values()) - incident.revoked_at < incident.within, incident.ended
    # Nothing that began after the revocation was carried out: it is 410, or no answer at all.
    assert set(incident.after.values()) <= {0, 410}, incident.after
    assert len(incident.after) == SLOW


def test_no_call_succeeds_after_the_revocation(incident: Incident) -> None:
    """By the signed times of the records: after the revocation there is no success of that agent's quick calls."""
    for payload in payloads(incident).values():
        if payload.get("caller_id") == incident.demo and payload["path"] != "/slowly":
            late = payload["issued_at"] > incident.revocation
            assert not late or payload["status"] == 410, payload


def test_the_export_shows_each_call_caller_decision_and_digest(incident: Incident) -> None:
    """Every answer that arrived at the agent is in the export: who, what, the status and reason, the hashes of both."""
    known = payloads(incident)
    assert len(incident.answers) > CONNECTIONS
    assert {answer.status for _, answer, _ in incident.answers} >= {200, 404, 410}
    for octets, answer, _ in incident.answers:
        record = known[answer.audit_id]
        line, _, _ = octets.partition(b"\r\n")
        body = octets.partition(b"\r\n\r\n")[2]
        assert record["caller_id"] == incident.demo and record["identity_assurance"] == "certificate"
        assert f"AGTP/1.0 {record['method']} {record['path']}" == line.decode()
        assert record["status"] == answer.status and record.get("reason") == (answer.reason or None)
        assert record["result_hash"] == sha256(answer.body).hexdigest()
        assert record["request_hash"] == sha256(line + b"\r\n" + body).hexdigest()


def test_a_selection_of_it_proves_membership(incident: Incident) -> None:
    """Every record of the last hour is in the log that the host's checkpoint commits to, by both verifiers."""
    lines = incident.lines
    proven = independent.members(lines, {incident.key.kid: incident.key.raw})
    assert proven == {json.loads(line)["audit_id"] for line in lines[1:-1]}
    report = verify_export(lines, {incident.key.kid: incident.key})
    assert report.ok and report.proven == len(proven) and not report.whole


@pytest.mark.programme
def test_one_flipped_bit_anywhere_is_found(incident: Incident) -> None:
    """Two hundred bits (shortened, sixty) of the file, each alone, chosen anywhere: noticed by both verifiers."""
    octets, chance = incident.export.read_bytes(), random.Random(20_261_121)
    raw, keys = {incident.key.kid: incident.key.raw}, {incident.key.kid: incident.key}
    for number in range(FLIPS):
        changed = bytearray(octets)
        changed[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
        lines = bytes(changed).splitlines(keepends=True) if number % 2 else _split(bytes(changed))
        with contextlib.suppress(ExportError):
            assert not verify_export(lines, keys).ok
        if number < FLIPS // 4:
            with pytest.raises((independent.Refuted, ValueError)):
                independent.verify(lines, raw)


def _split(octets: bytes) -> list[bytes]:
    """As reading a file line by line splits it: at line feeds alone."""
    return [part + b"\n" for part in octets.split(b"\n")[:-1]] + ([rest] if (rest := octets.split(b"\n")[-1]) else [])
