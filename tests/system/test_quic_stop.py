"""Calls over QUIC while their host stops, is killed or gets other certificates, and while their client moves."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agtphost.client import ClientError, sync
from agtphost.client.errors import CannotConnect, ConnectionLost
from agtphost.client.local_identities import certified_agent
from agtphost.identity.certificates import load_certificate
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR
from tests.attacks.quic_caller import QuicCaller
from tests.conformance.conftest import QUIC
from tests.protocols.quic.blocking import BlockingQuic
from tests.system.clocks import SetClock, shifted
from tests.system.hosting import Host, agtp, running, sample, until
from tests.system.raw_link import request as encode_request
from tests.system.test_quic import request
from tests.system.trail import database, finish, marks, stored, traced, verified

REVOKED = 44
"""An alert of TLS."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """The sample host with ``BOOK /stay``, which a test may end."""
    with running(traced(tmp_path, append=QUIC)) as host:
        yield host


def book(client: sync.Client, mark: str, **more: str) -> str:
    """Make a keyed call that leaves a mark; return the ID of its record."""
    answer = client.call("BOOK", "/stay", {"mark": mark, **more}, idempotency_key=mark)
    assert answer.status == 200 and answer.audit_id
    return answer.audit_id


def recorded(host: Host) -> set[str]:
    """The IDs of all records, after their chains were verified."""
    records = stored(database(host))
    assert verified(host, records).faults == []
    return {each.audit_id for each in records}


def test_a_keyed_call_that_runs_is_answered_before_the_stop(host: Host) -> None:
    """SIGTERM waits for it: its answer arrives, its record is kept, and the host exits with 0."""
    with sync.Client.of(host.config, quic=True) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(book, client, "long", awaited="end")
        until(lambda: marks(host.config)["long"])
        host.process.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: stopping after the running calls" in host.output)
        finish(host.config, "end")
        audit_id = call.result(60)
    assert host.process.wait(60) == 0, host.output
    assert audit_id in recorded(host) and marks(host.config) == {"long": 1}
    assert "Traceback" not in host.output and "Unhandled" not in host.output


def test_a_call_that_comes_during_a_stop_is_told_why(host: Host) -> None:
    """A new command over QUIC is refused in the host's words, and one over TLS in the system's; the stop goes on."""
    with sync.Client.of(host.config, quic=True) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(book, client, "long", awaited="end")
        until(lambda: marks(host.config)["long"])
        host.process.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: stopping after the running calls" in host.output)
        words = ("call", "-", "DESCRIBE", "--config", str(host.config))
        over_quic = agtp(*words, "--quic", cwd=host.config.parent)
        over_tls = agtp(*words, cwd=host.config.parent)
        finish(host.config, "end")
        assert call.result(60)
    assert (over_quic.returncode, over_tls.returncode) == (3, 3)
    assert "error: The host takes no more connections: it shuts down." in over_quic.stderr
    assert "nothing listens there" in over_tls.stderr
    assert host.process.wait(60) == 0, host.output


def test_a_call_over_quic_holds_up_a_stop_no_longer_than_one_over_tls(tmp_path: Path) -> None:
    """Meanwhile neither carrier takes a connection; after ``drain_timeout`` the call is cut, and the host ends."""
    config = traced(tmp_path, append=QUIC + "\n[limits]\ndrain_timeout = 1\n")
    with running(config) as host, sync.Client.of(config, quic=True) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(book, client, "long", awaited="never")
        until(lambda: marks(config)["long"])
        host.process.send_signal(signal.SIGTERM)
        until(lambda: "SIGTERM: stopping after the running calls" in host.output)
        with sync.Client.of(config) as other, pytest.raises(CannotConnect):
            other.call("DESCRIBE")
        with pytest.raises(ConnectionLost):
            call.result(120)
        assert host.process.wait(60) == 0, host.output


def test_what_was_acknowledged_outlives_a_kill(host: Host) -> None:
    """The record of each answer is in the store of a host that was killed while four clients called it."""
    acknowledged: list[str] = []

    def call_until_killed(number: int) -> None:
        with sync.Client.of(host.config, quic=True) as client, pytest.raises(ClientError):
            while True:
                acknowledged.append(book(client, f"{number}-{len(acknowledged)}"))

    with ThreadPoolExecutor() as pool:
        callers = [pool.submit(call_until_killed, number) for number in range(4)]
        until(lambda: len(acknowledged) >= 50)
        host.kill()
        for caller in callers:
            caller.result(120)
    assert set(acknowledged) <= recorded(host)


def test_a_killed_host_ends_connections_from_before_its_rotations(host: Host) -> None:
    """Their clients know the stateless resets that it sends with the signing key of today, and connect again."""
    with sync.Client.of(host.config, quic=True) as client:
        assert client.call("DESCRIBE").status == 200
        assert all(host.agtp_json("key", "rotate")["adopted"] for _ in range(2))
        [before] = [each.connection for found in client.client._calls._pool._entries.values() for each in found]
        assert before.reusable
        host.kill()
        with running(host.config):
            assert client.call("DESCRIBE").status == 200
        assert not before.reusable


@pytest.mark.parametrize("ahead", [0.0, 40.0, -40.0])
def test_a_client_that_a_killed_host_asked_for_its_address_is_served_by_the_next(tmp_path: Path, ahead: float) -> None:
    """Its proof, of a Retry, counts at a host that was started again, also if the clock was set meanwhile."""
    config, clock = sample(tmp_path, append=QUIC + 'retry = "always"\n'), SetClock(tmp_path / "clock")
    clock.set(ahead)
    with shifted(config, clock) as host:
        clock.set(0.0)
        client = QuicCaller(host, "127.0.0.1")
        asked = client.socket.recv(1_500)
        host.kill()
    with running(config):
        client.core.receive_datagram(asked, ("127.0.0.1", host.port), now=time.monotonic())
        assert client.connect(60)
        answer = client.answer(client.begin(encode_request("ECHO", "/text", {"text": "x"})), 60)
        client.close()
    assert answer.startswith(b"AGTP/1.0 200 ")


class Translator(threading.Thread):
    """An address translator that may forget: it then sends what comes from its client from another address."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._host = ("127.0.0.1", port)
        self._near = self._bind("127.0.0.1")
        self._far = self._bind("127.0.0.1")
        self._ends = threading.Event()
        self.uri = f"agtp://127.0.0.1:{self._near.getsockname()[1]}"

    def _bind(self, address: str) -> socket.socket:
        made = socket.socket(type=socket.SOCK_DGRAM)
        made.bind((address, 0))
        made.settimeout(0.01)
        return made

    def move(self, address: str) -> None:
        """Forget; from now on the client seems to be at this address."""
        self._far = self._bind(address)

    def run(self) -> None:
        client = None
        while not self._ends.is_set():
            try:
                octets, client = self._near.recvfrom(65536)
                self._far.sendto(octets, self._host)
            except TimeoutError:
                pass
            try:
                octets = self._far.recv(65536)
                self._near.sendto(octets, client)
            except TimeoutError:
                pass

    def end(self) -> None:
        self._ends.set()
        self.join()
        self._near.close()
        self._far.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.7"])
def test_a_keyed_call_whose_client_moves_is_carried_out_once(host: Host, address: str) -> None:
    """Its answer reaches the client at another port or address, and a repetition runs nothing."""
    relay = Translator(host.port)
    relay.start()
    with sync.Client.of(host.config, uri=relay.uri, quic=True) as client, ThreadPoolExecutor() as pool:
        call = pool.submit(book, client, "moved", awaited="end", padding="x" * 5000)
        until(lambda: marks(host.config)["moved"])
        relay.move(address)
        # What a client sends shows the host where it is; a silent one sends a PING after 15 seconds.
        assert book(client, "noticed")
        finish(host.config, "end")
        first = call.result(60)
        assert book(client, "moved", awaited="end", padding="x" * 5000)
        [open_link] = [each.connection for found in client.client._calls._pool._entries.values() for each in found]
        assert open_link.has_served
    relay.end()
    assert marks(host.config) == {"moved": 1, "noticed": 1} and first in recorded(host)


@pytest.fixture
def listing_host(host: Host) -> Iterator[Host]:
    """The same host with a revocation list."""
    assert host.agtp("cert", "crl").returncode == 0
    assert host.stop() == 0
    host.config.write_text(host.config.read_text() + '\n[tls]\nclient_crl = "state/crl.pem"\n')
    with running(host.config) as again:
        yield again


def test_open_connections_follow_certificates(listing_host: Host) -> None:
    """Only new clients see the host's new certificate; a client's revoked one is refused on open connections too."""
    host = listing_host
    folder, trust = host.state / "agents" / "demo", host.state / "ca.pem"

    def connect() -> BlockingQuic:
        return BlockingQuic(trust, host.port, certificate=folder / "agent.pem", key=folder / "agent.key")

    def shown(client: BlockingQuic) -> int:
        core: Any = client._core
        return int(core.tls._peer_certificate.serial_number)

    asked = request(str(certified_agent(folder / "agent.pem")), 1)
    with connect() as client:
        assert client.call(asked).startswith(b"AGTP/1.0 200")
        renewed = host.config.parent / "renewed.pem"
        words = ("cert", "issue", "server", "localhost", "--ca", "state/ca.pem", "-o", str(renewed))
        assert host.agtp(*words).returncode == 0
        renewed.with_suffix(".key").rename(host.state / "server.key")
        renewed.rename(host.state / "server.pem")
        until(lambda: "the changed TLS files are in use" in host.output)
        with connect() as another:
            assert another.call(asked).startswith(b"AGTP/1.0 200")
            assert shown(another) == load_certificate(host.state / "server.pem").serial_number != shown(client)
        assert client.call(asked).startswith(b"AGTP/1.0 200")
        before = len(host.output)
        assert host.agtp("cert", "revoke", str(folder / "agent.pem"), "--reason", "key-compromise").returncode == 0
        until(lambda: "crl.pem" in host.output[before:])
        assert client.call(asked).startswith(b"AGTP/1.0 401")
        with connect() as refused, pytest.raises(ConnectionError, match=f"error_code={CRYPTO_ERROR + REVOKED}"):
            refused.call(asked)
