"""Large answers that a peer does not read, and one that it reads slowly, from a real host."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.protocols.limits import HASTE, STALL
from agtphost.protocols.listener import SWEEP_INTERVAL
from tests.measuring import measured
from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink, request

LARGE = 14 << 20
"""Octets of an answer: what systems keep of it is less by far."""

HANDLER = f'''
"""QUERY /large: a long text."""


def large(ctx):
    return {{"text": "x" * {LARGE}, "words": 1}}
'''


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("unread"))
    folder: Path = config.parent
    (folder / "handlers" / "large.py").write_text(HANDLER)
    text = (folder / "endpoints" / "text.toml").read_text()
    other = text.replace('path = "/text"', 'path = "/large"').replace("handlers.text.echo", "handlers.large.large")
    (folder / "endpoints" / "large.toml").write_text(other)
    with running(config) as started:
        yield started


def asked(host: Host) -> RawLink:
    """A peer whose answer has begun; nothing of it is read."""
    link = RawLink(host, receive_buffer=4096)
    link.send(request("ECHO", "/large", {"text": "x"}))
    select.select([link.tls], [], [], 20)
    return link


def ended(link: RawLink, seconds: float) -> float | None:
    """After how many seconds the host has cut a connection; None: it has not."""
    poll, begun = select.poll(), time.monotonic()
    poll.register(link.tls, select.POLLERR | select.POLLHUP)
    return time.monotonic() - begun if poll.poll(seconds * 1000) else None


@measured
def test_who_reads_nothing_is_cut_after_a_moment(host: Host) -> None:
    """Long before the time that a smaller answer has."""
    begun = time.monotonic()
    with asked(host) as link:
        seconds = ended(link, STALL + 2)
    # From before it was asked, as nobody knows when the first octets came: only when they were seen.
    assert time.monotonic() - begun > HASTE / 2
    assert seconds is not None and seconds < STALL - 2 * SWEEP_INTERVAL


@measured
def test_a_slow_reader_is_not_cut(host: Host) -> None:
    """It takes 100 KiB a second: our system says once in many seconds only that it takes more."""
    for _ in range(5):
        with asked(host) as link:
            taken, longest = slowly(link, STALL + 3)
            if taken is None:
                # Who gets nothing done for so long on a busy machine has read nothing, and is rightly cut.
                assert longest > HASTE / 2, "cut in the middle"
                continue
            assert taken < LARGE / 4
            link.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            while taken < LARGE:
                octets = link.tls.recv(65_536)
                assert octets, f"cut after {taken} octets"
                taken += len(octets)
            return
    raise AssertionError("this machine does nothing else")


def slowly(link: RawLink, seconds: float) -> tuple[int | None, float]:
    """Read a little at a time: how much was read, None if it was cut; the longest time in which nothing was read."""
    link.tls.settimeout(30)
    begun = last = time.monotonic()
    taken, longest = 0, 0.0
    while (left := begun + seconds - last) > 0:
        since = last
        try:
            octets = len(link.tls.recv(16_384))
        except ConnectionError:
            octets = 0
        last = time.monotonic()
        longest, taken = max(longest, last - since), taken + octets
        if not octets or ended(link, min(0.15, left)) is not None:
            return None, max(longest, time.monotonic() - last)
    return taken, longest
