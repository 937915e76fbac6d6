"""Floods, reduced (P11, P12): silent, slow and non-reading peers cost little, are cut in time, and harm nobody."""

from __future__ import annotations

import resource
import selectors
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.measuring import measured
from tests.programmes import length
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import RawLink, client_context, request

FAULTY = Path(__file__).with_name("faulty_host.py")
TIMES = length(1, 5)
SILENT = SLOW = length(60, 1_500)
UNREADING = length(8, 20)
IDLE = length(150, 1000)
LIMIT = 3
"""Seconds: what the tests set the timers to."""

LATE = 2.0
"""Seconds: half a second until the sweep notices, and a machine that is busy with the flood itself."""

KIB = 1024
PER_CONNECTION = 48 * KIB
SLACK = 16 * 1024 * KIB
"""Not of any connection: allocator, statement cache, the log of the store."""


def limits(seconds: int) -> str:
    names = ("handshake_timeout", "header_timeout", "write_timeout")
    return "\n[limits]\n" + "".join(f"{name} = {seconds}\n" for name in names)


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> None:
    """One for each peer, and some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(SILENT + SLOW, IDLE) * 2 + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the floods take {wanted} file descriptors, and this machine allows {hard}")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all floods, with short timers; the memory of one flood is there for the next."""
    with running(sample(tmp_path_factory.mktemp("floods"), append=limits(LIMIT))) as host:
        with RawLink(host) as link:
            for _ in range(200):
                assert link.ask("ECHO", "/text", {"text": "warm"}).status == 200
        yield host


def resident(host: Host) -> int:
    """Octets of the host that lie in memory."""
    return int(psutil.Process(host.process.pid).memory_info().rss)


@dataclass
class Watch:
    """What an honest caller and the operating system saw meanwhile."""

    base: int
    peak: int = 0
    calls: list[float] = field(default_factory=list)
    """Seconds of each call, a new connection included every tenth time."""

    failures: list[str] = field(default_factory=list)

    @property
    def growth(self) -> int:
        return self.peak - self.base


@contextmanager
def watching(host: Host) -> Iterator[Watch]:
    """Call honestly and measure until the block ends."""
    watch, over, context = Watch(base=resident(host)), threading.Event(), client_context(host)

    def measure() -> None:
        while not over.wait(0.1):
            watch.peak = max(watch.peak, resident(host))

    def call() -> None:
        link: RawLink | None = None
        while not over.wait(0.02):
            since = time.monotonic()
            try:
                if link is None or not len(watch.calls) % 10:
                    if link is not None:
                        link.close()
                    link = RawLink(host, context=context)
                status = link.ask("ECHO", "/text", {"text": "honest"}).status
                if status != 200:
                    watch.failures.append(f"status {status}")
            except (OSError, AssertionError) as failure:
                watch.failures.append(repr(failure))
                link = None
            watch.calls.append(time.monotonic() - since)
        if link is not None:
            link.close()

    threads = [threading.Thread(target=target, daemon=True) for target in (measure, call)]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        over.set()
        for thread in threads:
            thread.join(120)


@dataclass
class Slow:
    """A peer that says too little, and what came of it."""

    link: socket.socket
    since: float
    ended: float | None = None
    heard: bytes = b""


def hear(peers: list[Slow], seconds: float) -> None:
    """Read whatever comes until all have ended, or the time is over."""
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            peer.link.setblocking(False)
            selector.register(peer.link, selectors.EVENT_READ, peer)
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                if _heard_the_end(key.data):
                    key.data.ended = time.monotonic()
                    selector.unregister(key.fileobj)
    for peer in peers:
        peer.link.close()


def _heard_the_end(peer: Slow) -> bool:
    while True:
        try:
            octets = peer.link.recv(65_536)
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except OSError:
            return True
        if not octets:
            return True
        peer.heard += octets


def silent(host: Host, number: int) -> list[Slow]:
    """TCP connections on which no handshake begins."""
    return [Slow(socket.create_connection(("127.0.0.1", host.port), 30), time.monotonic()) for _ in range(number)]


def half_header(host: Host, number: int) -> list[Slow]:
    """TLS connections on which a header begins and does not go on."""
    context, peers = client_context(host), []
    for _ in range(number):
        link = RawLink(host, context=context)
        link.send(b"AGTP/1.0 ECHO /text\r\nRequest-ID: ")
        peers.append(Slow(link.tls, time.monotonic()))
    return peers


@measured
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(300 * TIMES)
def test_silent_and_slow_peers_are_cut_and_cost_little(host: Host) -> None:
    """P11, T-DS: silent TCP and half-header TLS connections, 1,500 each, shortened 60; honest callers are well."""
    with watching(host) as watch:
        slow = half_header(host, SLOW)
        mute = silent(host, SILENT)
        heard = time.monotonic()
        hear(slow + mute, 60 * TIMES)
    late = LATE + TIMES + max(watch.calls)
    for peer in slow:
        assert peer.heard.startswith(b"AGTP/1.0 408 "), peer.heard[:80]
        assert peer.ended is not None
        assert peer.ended - peer.since > LIMIT - 0.1
        # What ended while the others still connected is heard afterwards.
        assert peer.ended < max(peer.since + LIMIT, heard) + late
    for peer in mute:
        assert peer.heard == b""
        assert peer.ended is not None
        assert peer.ended - peer.since > LIMIT - 0.1
        # What ended while the others still connected is heard afterwards.
        assert peer.ended < max(peer.since + LIMIT, heard) + late
    assert watch.growth < (SILENT + SLOW) * PER_CONNECTION + SLACK
    assert_unharmed(watch)


def assert_unharmed(watch: Watch) -> None:
    calls = sorted(watch.calls)
    worst = calls[int(len(calls) * 0.99)]
    print(f"honest: {len(calls)} calls, p99 {worst * 1000:.0f} ms; memory grew by {watch.growth // KIB} KiB")
    assert watch.failures == []
    assert len(calls) > 20
    assert worst < 2.0


@pytest.mark.slow
def test_peers_are_not_cut_without_timers(tmp_path: Path) -> None:
    """The control: with timers of a minute, all of them are still there when they should be gone."""
    with running(sample(tmp_path, append=limits(60))) as host:
        peers = half_header(host, 10) + silent(host, 10)
        hear(peers, LIMIT + LATE)
        assert [peer for peer in peers if peer.ended is not None] == []


SMALL = (b"AGTP/1.0 QUERY /\r\n\r\n" * 500, b"AGTP/1.0 DISCOVER /\r\n\r\n" * 500)
PAGES = (request("INSPECT", "/", {"target": "chain", "chain": "host", "limit": 500}) * 50,) * 2


def pipeline_without_reading(
    host: Host, number: int, seconds: float, requests: Sequence[bytes] = SMALL
) -> list[float | None]:
    """
    Peers that send requests as fast as they can, and read no answer.

    :param requests: of every other peer, with a certificate and without; less than a TLS record each.
    :return: after how long each was cut; None: never.
    """
    contexts = [client_context(host), client_context(host, identified=False)]
    peers = [RawLink(host, context=contexts[place % 2], receive_buffer=4096) for place in range(number)]
    cut: list[float | None] = [None] * number
    since = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for place, peer in enumerate(peers):
            peer.tls.setblocking(False)
            selector.register(peer.tls, selectors.EVENT_WRITE | selectors.EVENT_READ, place)
        while selector.get_map() and time.monotonic() - since < seconds:
            for key, events in selector.select(0.1):
                # What arrives stays where it is; to be told of the end, one only has to go on writing.
                place = key.data
                if not events & selectors.EVENT_WRITE and not _reset(key.fileobj):
                    selector.modify(key.fileobj, selectors.EVENT_WRITE, place)
                    continue
                try:
                    peers[place].tls.send(requests[place % 2])
                except (ssl.SSLWantWriteError, BlockingIOError):
                    continue
                except OSError:
                    cut[place] = time.monotonic() - since
                    selector.unregister(key.fileobj)
    for peer in peers:
        peer.close()
    return cut


def _reset(link: object) -> bool:
    assert isinstance(link, socket.socket)
    return link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


BOUND = UNREADING * 2 * 1024 * KIB + SLACK
"""P12: 2 MiB each."""


@pytest.mark.programme
@pytest.mark.slow
def test_peers_that_do_not_read_are_cut_and_cost_little(host: Host) -> None:
    """P12, T-PL-10: 20 peers, shortened 8, pipeline requests of 20 octets without reading a single answer."""
    with watching(host) as watch:
        cut = pipeline_without_reading(host, UNREADING, 300)
    ends = [seconds for seconds in cut if seconds is not None]
    assert len(ends) == UNREADING
    print(f"cut after {max(ends):.1f} s at the latest")
    assert max(ends) > LIMIT - 0.1
    assert watch.growth < BOUND
    assert_unharmed(watch)


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
def test_large_pages_that_nobody_reads_cost_little(host: Host) -> None:
    """20 peers, shortened 8, ask for pages of up to 500 records, and read none; 2 MiB each."""
    with RawLink(host) as link:
        for _ in range(500):
            assert link.ask("DISCOVER", "/").status == 200
        page = link.ask("INSPECT", "/", {"target": "chain", "chain": "host", "limit": 500})
        assert len(page.body) > 800_000
    with watching(host) as watch:
        cut = pipeline_without_reading(host, UNREADING, 300, PAGES)
    print(f"the host grew by {watch.growth / 1024 / KIB:.0f} MiB")
    assert None not in cut
    assert watch.growth < BOUND


@pytest.mark.release
@pytest.mark.slow
def test_a_host_that_does_not_stop_for_them_is_caught(tmp_path: Path) -> None:
    """The control: a host whose transport may not pause it answers into its own memory, and cuts nobody."""
    config = sample(tmp_path, append=limits(LIMIT))
    with running(config, prefix=(sys.executable, str(FAULTY), "unpausing")) as host:
        base = resident(host)
        cut = pipeline_without_reading(host, 4, 2 * LIMIT)
        growth = resident(host) - base
        host.kill()
    assert cut == [None] * 4
    assert growth > 4 * 2 * 1024 * KIB


@pytest.mark.programme
@pytest.mark.slow
def test_memory_of_idle_connections(tmp_path: Path, record_testsuite_property: Callable[[str, object], None]) -> None:
    """Idle connections with certificates, 1,000 at full length, take 48 KiB each at most (security invariant 10)."""
    with running(sample(tmp_path)) as host:  # One that holds no memory of former floods.
        context = client_context(host)
        first = [RawLink(host, context=context) for _ in range(50)]
        assert first[-1].ask("ECHO", "/text", {"text": "there"}).status == 200
        for link in first:
            link.close()
        process = psutil.Process(host.process.pid)
        until(lambda: not [each for each in process.net_connections() if each.status == psutil.CONN_ESTABLISHED])
        base = resident(host)
        links = [RawLink(host, context=context) for _ in range(IDLE)]
        # Whoever came last was let in last: the others are.
        assert links[-1].ask("ECHO", "/text", {"text": "there"}).status == 200
        each = (resident(host) - base) / IDLE
        assert links[0].ask("ECHO", "/text", {"text": "still there"}).status == 200
        for link in links:
            link.close()
    print(f"{each / KIB:.1f} KiB for each idle TLS connection")
    record_testsuite_property("kib_per_idle_connection", round(each / KIB, 1))
    assert 0 < each < PER_CONNECTION
