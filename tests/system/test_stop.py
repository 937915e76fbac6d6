"""SIGTERM under load, twice, and SIGHUP: what the host promises about each (P17, interface section 1)."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agtphost.identity.certificates import (
    Authority,
    issue_server_certificate,
    key_pem_of,
    new_tls_key,
    pem_of,
)
from agtphost.identity.jws import parse_unverified
from tests.programmes import length
from tests.rows import each_row
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.raw_link import Answer, RawLink, Truncated, client_context, request
from tests.system.trail import database, stored, traced, verified

STOPS = length(3, 100)
CALLERS = 6
FAULTY = Path(__file__).with_name("faulty_host.py")
MCP = "application/vnd.mcp.tools+json"


LISTING = {
    "parameters": {
        "action": "mcp.tools.call",
        "payload_type": MCP,
        "payload": {"tool": "files.list_files", "arguments": {}},
    }
}


class Caller(threading.Thread):
    """Pipelines bookings, echoes and MCP calls until the host closes the connection."""

    def __init__(self, host: Host, context: Any, seed: int) -> None:
        super().__init__(daemon=True)
        self._link = RawLink(host, context=context)
        self._chance = random.Random(seed)
        self.answered: dict[str, Answer] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while self._burst():
                continue
        except (Truncated, AssertionError, TimeoutError) as failure:
            self.failure = failure
        finally:
            self._link.close()

    def _burst(self) -> bool:
        calls = {uuid.UUID(int=self._chance.getrandbits(128)).hex: self._chance.randrange(4) for _ in range(4)}
        # The host may close meanwhile; what it answered before is still to be read.
        with contextlib.suppress(OSError):
            self._link.send(b"".join(self._octets(number, kind) for number, kind in calls.items()))
        for number in calls:
            answer = self._link.answer()
            if answer is None:
                return False
            assert answer.headers["request-id"] == number
            assert answer.status == 200, answer.body
            self.answered[number] = answer
        return True

    @staticmethod
    def _octets(number: str, kind: int) -> bytes:
        if kind == 0:
            return request("EXECUTE", "/", LISTING, Request_ID=number)
        if kind == 1:
            return request("ECHO", "/text", {"text": "to the end"}, Request_ID=number)
        return request("BOOK", "/stay", {"mark": number, "seconds": 0.02}, Request_ID=number)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What one stop under load left behind."""

    host: Host
    status: int
    acknowledged: dict[str, str]
    """Audit-IDs by Request-ID."""

    recorded: dict[str, str]
    """The same, of the store."""

    failures: list[BaseException]
    """Answers that were cut off, or came wrong."""

    left: list[psutil.Process]
    """Children of the host that outlived it."""


def stop_under_load(config: Path, chance: random.Random, prefix: Sequence[str] = ()) -> Stop:
    """Start, load, SIGTERM at a random moment."""
    host = Host(config, prefix=prefix).wait()
    context = client_context(host)
    with RawLink(host, context=context) as link:
        until(lambda: link.ask("EXECUTE", "/", LISTING).status == 200, 60)
    before = len(stored(database(host)))
    children = psutil.Process(host.process.pid).children(recursive=True)
    assert children
    callers = [Caller(host, context, chance.getrandbits(32)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    until(lambda: all(caller.answered or caller.failure for caller in callers), 60)
    time.sleep(chance.uniform(0.0, 0.3))
    status = host.stop()
    left = [child for child in children if child.is_running()]
    for caller in callers:
        caller.join(120)
        assert not caller.is_alive()
    records = stored(database(host))
    assert verified(host, records).faults == []
    return Stop(
        host=host,
        status=status,
        acknowledged={number: answer.audit_id for caller in callers for number, answer in caller.answered.items()},
        recorded={str(parse_unverified(one.signed)["request_id"]): one.audit_id for one in records[before:]},
        failures=[caller.failure for caller in callers if caller.failure is not None],
        left=left,
    )


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 20 * STOPS)
def test_sigterm_under_load_ends_everything_in_order(tmp_path: Path) -> None:
    """
    T-GS-1, P17: stops under load of 6 pipelining callers.

    Exit status 0; every answer that was begun arrives whole; what was acknowledged is recorded, and what was
    recorded was acknowledged, so nothing happened behind a caller's back; no MCP server is left.
    """
    config = traced(tmp_path, eager=True)
    chance = random.Random(17)
    for _ in range(STOPS):
        stop = stop_under_load(config, chance)
        assert stop.status == 0, stop.host.output
        assert stop.failures == []
        assert stop.recorded == stop.acknowledged
        assert stop.left == []
        assert "Traceback" not in stop.host.output
        assert "Unhandled" not in stop.host.output


def test_a_host_that_cuts_its_connections_is_caught(tmp_path: Path) -> None:
    """The control: a host that stops without draining has recorded what it never answered."""
    stop = stop_under_load(
        traced(tmp_path, eager=True), random.Random(18), prefix=(sys.executable, str(FAULTY), "abrupt")
    )
    assert stop.recorded.keys() - stop.acknowledged.keys()


def test_a_second_sigterm_ends_at_once(tmp_path: Path) -> None:
    """A host that waits for a long call exits with 1 on the second SIGTERM, and its MCP servers end too."""
    host = Host(traced(tmp_path, eager=True)).wait()
    children = psutil.Process(host.process.pid).children(recursive=True)
    with RawLink(host) as link:
        link.send(request("BOOK", "/stay", {"mark": "long", "seconds": 25}))
        until(lambda: "long" in (host.config.parent / "handlers" / "trail.log").read_text())
        host.process.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: stopping after the running calls" in host.output)
        # It waits for the call, which would take longer than this.
        host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(15) == 1
        assert link.answer() is None
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


def test_a_call_that_runs_is_answered_before_the_stop(tmp_path: Path) -> None:
    """A caller whose call takes two seconds gets its answer although SIGTERM came first; nobody new is let in."""
    host = Host(traced(tmp_path)).wait()
    with RawLink(host) as link:
        link.send(request("BOOK", "/stay", {"mark": "long", "seconds": 2}))
        until(lambda: "long" in (host.config.parent / "handlers" / "trail.log").read_text())
        host.process.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: stopping after the running calls" in host.output)
        with pytest.raises(OSError):
            RawLink(host)
        answer = link.answer()
        assert answer is not None
        assert answer.status == 200
        assert link.answer() is None
    assert host.process.wait(60) == 0
    assert answer.audit_id in {record.audit_id for record in stored(database(host))}


def test_a_host_accepts_while_balancers_learn_that_it_stops(tmp_path: Path) -> None:
    """With ``drain_delay`` it is not ready from SIGTERM on, and takes new connections until it ends."""
    port = free_port()
    more = f'\n[limits]\ndrain_delay = 1.5\n[metrics]\nlisten = "tcp:{port}:interface=127.0.0.1"\n'
    host = Host(sample(tmp_path, append=more)).wait()
    probe = f"http://127.0.0.1:{port}/readyz"
    assert httpx.get(probe).status_code == 200
    host.process.send_signal(signal.SIGTERM)
    until(lambda: "accepts for another 1.5 s" in host.output)
    answer = httpx.get(probe)
    assert (answer.status_code, answer.json()["reasons"]) == (503, [{"what": "host", "why": "it is stopping"}])
    with RawLink(host) as link:
        assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
    assert host.process.wait(60) == 0


def test_a_request_that_listens_holds_no_stop_up(tmp_path: Path) -> None:
    """It ends with an answer, although an hour is left; a host that waits for it takes longer than `stop` does."""
    host = Host(sample(tmp_path, append="\n[limits]\ndrain_timeout = 120\n")).wait()
    payload = {"notifications": {"toolsListChanged": True}, "seconds": 3600}
    listening = {"action": "mcp.subscriptions.listen", "payload_type": MCP, "payload": payload}
    with RawLink(host) as link:
        link.send(request("EXECUTE", "/mcp/files", {"parameters": listening, "context": {"stream": True}}))
        begun = link.answer()
        assert begun is not None and begun.status == 202 and b"acknowledged" in begun.body
        assert host.stop() == 0
        ended = link.answer()
        assert ended is not None and ended.status == 200
        assert link.answer() is None


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for every SIGHUP; each test leaves its files as it found them."""
    with running(sample(tmp_path_factory.mktemp("hang-up"))) as host:
        yield host


def hang_up(host: Host, *reasons: str) -> None:
    """SIGHUP, and until the host says what came of it; each reason is a pattern."""
    seen = len(host.lines)
    host.process.send_signal(signal.SIGHUP)
    until(lambda: all(re.search(reason, "\n".join(host.lines[seen:])) for reason in reasons))


def shown_certificate(host: Host) -> bytes | None:
    """What a new connection is shown."""
    with RawLink(host) as link:
        assert link.ask("ECHO", "/text", {"text": "new"}).status == 200
        return link.tls.getpeercert(True)


BROKEN = [
    (lambda text: text + "\n[listen\n", r"host\.toml:\d+"),
    (lambda text: text.replace("port = ", "prot = "), r"host\.toml:\d+.*prot"),
    (lambda text: text.replace('profile = "development"', 'profile = "staging"'), r"host\.toml:\d+.*profile"),
    (lambda text: text.replace('address = "127.0.0.1"', 'address = "0.0.0.0"'), r"needs a restart: \[listen\]"),
    (lambda text: text + "\n[limits]\nidle_timeout = 5\n", r"needs a restart: \[limits\] idle_timeout"),
]


@each_row(("change", "why"), BROKEN)
def test_sighup_with_a_wrong_configuration_changes_nothing(host: Host, change: Any, why: str) -> None:
    """T-RE-1: what is wrong is said with file and line, and open and new connections are served as before."""
    good = host.config.read_text()
    with RawLink(host) as link:
        assert link.ask("ECHO", "/text", {"text": "before"}).status == 200
        certificate = link.tls.getpeercert(True)
        assert change(good) != good
        host.config.write_text(change(good))
        try:
            hang_up(host, r"SIGHUP: (nothing changed|taken: nothing)", why)
        finally:
            host.config.write_text(good)
        assert link.ask("ECHO", "/text", {"text": "after"}).status == 200
    assert shown_certificate(host) == certificate
    assert host.process.poll() is None


def test_sighup_with_a_broken_endpoint_changes_nothing(host: Host) -> None:
    """A fault in any file that the configuration leads to is found, with its place."""
    file = host.config.parent / "endpoints" / "rooms.toml"
    good = file.read_text()
    file.write_text(good.replace("handlers.rooms.book", "handlers.rooms.build"))
    try:
        hang_up(host, "SIGHUP: nothing changed", r"rooms\.toml:\d+")
    finally:
        file.write_text(good)
    with RawLink(host) as link:
        stay = {"room": "attic", "arrival": "2031-01-01", "departure": "2031-01-02"}
        assert link.ask("BOOK", "/room", stay).status == 200


def test_sighup_with_a_broken_certificate_keeps_the_old_one(host: Host) -> None:
    """A certificate that cannot be read, or whose key is another's, is refused and the old pair is kept."""
    file = host.state / "server.pem"
    good, certificate = file.read_bytes(), shown_certificate(host)
    for wrong in (good[:200], (host.state / "registrar.pem").read_bytes()):
        file.write_bytes(wrong)
        try:
            hang_up(host, "SIGHUP: nothing changed", r"server\.")
        finally:
            file.write_bytes(good)
        assert shown_certificate(host) == certificate


def test_sighup_with_a_renewed_certificate_is_used_by_new_connections(host: Host) -> None:
    """A renewed pair is shown to whoever connects from then on; who is connected notices nothing."""
    state = host.state
    authority = Authority.load(state / "ca.pem", state / "ca.key")
    key = new_tls_key()
    renewed = issue_server_certificate(
        authority, key.public_key(), server_id="localhost", now=datetime.now(UTC) - timedelta(hours=1)
    )
    with RawLink(host) as link:
        before = link.tls.getpeercert(True)
        (state / "server.pem").write_bytes(pem_of(renewed))
        (state / "server.key").write_bytes(key_pem_of(key))
        hang_up(host, "SIGHUP: .* were read again")
        assert link.ask("ECHO", "/text", {"text": "after"}).status == 200
    after = shown_certificate(host)
    assert after is not None
    assert after != before
