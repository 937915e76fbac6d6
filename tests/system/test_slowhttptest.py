"""slowhttptest, Debian's own, at a listener: a thousand connections that take their time, in its three ways."""

from __future__ import annotations

import http.client
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.programmes import length, sampled
from tests.system.hosting import Host, free_port, running, until
from tests.system.test_http_listeners import deploy

CONNECTIONS = 1_000
ROOM = 64 << 20
"""Octets that the host may grow by."""

SECONDS = length(4, 60)

LIMITS = """
[limits]
connections = 2000
header_timeout = 20
body_gap_timeout = 20
write_timeout = 20
handshakes_per_second_per_address = 10000

[metrics]
listen = "tcp:{metrics}:interface=127.0.0.1"
"""
MODES = {
    "slow heads": ("-H", "-i", "5", "-x", "24"),
    "slow bodies": ("-B", "-i", "5", "-s", "8192", "-x", "10"),
    "slow reading": ("-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32", "-k", "3"),
}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def front() -> int:
    """Of the listener that takes bodies."""
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, port: int, front: int) -> Iterator[Host]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    listen = f"tcp:{front}:interface=127.0.0.1"
    config = deploy(tmp_path_factory.mktemp("slow"), listen, append=LIMITS.format(metrics=port))
    with running(config) as started:
        until(lambda: started.output.count("is served on port") == 2)
        yield started
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def held(port: int) -> int:
    """Connections that the host's end of a listener has, as the system tells."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


def octets(host: Host) -> int:
    """What the host has in memory."""
    text = Path(f"/proc/{host.process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")))


class Most(threading.Thread):
    """
    Looks how many connections there are at a time, and how large the host is: all the time, since whoever asks
    something of a host with a thousand others may wait until they are gone.
    """

    def __init__(self, host: Host, port: int) -> None:
        super().__init__(daemon=True)
        self._host = host
        self._port = port
        self._over = threading.Event()
        self.connections = self.octets = 0

    def run(self) -> None:
        while not self._over.wait(0.05):
            self.connections = max(self.connections, held(self._port))
            self.octets = max(self.octets, octets(self._host))

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def looking(host: Host, port: int) -> Iterator[Most]:
    """While it lasts."""
    most = Most(host, port)
    most.start()
    try:
        yield most
    finally:
        most.end()


@pytest.mark.release
@pytest.mark.skipif(
    shutil.which("slowhttptest") is None, reason="slowhttptest is not here: apt-get install slowhttptest"
)
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.parametrize("mode", sampled(MODES, 3))
def test_a_thousand_that_take_their_time(host: Host, port: int, front: int, mode: str) -> None:
    """They are held within 64 MiB, and somebody who is not slow is answered meanwhile."""
    before = octets(host)
    bodies = mode == "slow bodies"
    attacked = front if bodies else port
    url = f"http://localhost:{attacked}/{'agents/librarian' if bodies else 'metrics'}"
    words = [
        "slowhttptest",
        *MODES[mode],
        "-c",
        str(CONNECTIONS),
        "-r",
        "1000",
        "-l",
        str(SECONDS),
        "-u",
        url,
        "-p",
        "5",
    ]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as slow,
        looking(host, attacked) as at,
    ):
        slowest, end = 0.0, time.monotonic() + SECONDS
        while time.monotonic() < end and slow.poll() is None:
            asked = time.monotonic()
            link = http.client.HTTPConnection("localhost", port, timeout=20)
            link.request("GET", "/healthz")
            assert link.getresponse().status == 200
            link.close()
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.1)
        said, _ = slow.communicate(timeout=SECONDS + 60)
    most, peak = at.connections, at.octets
    print(f"{mode}: {most} connections, {(peak - before) >> 10} KiB, somebody else waited {slowest * 1000:.0f} ms")
    assert peak - before < ROOM
    assert most >= length(100, CONNECTIONS // 2), said.decode(errors="replace")[-600:]
    until(lambda: held(attacked) < 20, 60)
