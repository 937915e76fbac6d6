"""Ranges of received octets: those of the library, found by fewer looks."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aioquic.quic import rangeset
from aioquic.quic.rangeset import RangeSet

from agtphost.wire.quic import received_ranges
from agtphost.wire.quic.received_ranges import ReceivedRanges
from tests.programmes import seed_of_chance
from tests.protocols.links import ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
from tests.protocols.quic.test_hostile_frames import number, sealed

GAPS, FRAMES = 240, 150


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def test_ranges_are_those_of_the_library() -> None:
    """Whatever is added, taken from the front or asked for, in any order."""
    chance = random.Random(seed_of_chance())
    for _ in range(300):
        ours, theirs = ReceivedRanges(), RangeSet()
        for _ in range(chance.randrange(1, 60)):
            start = chance.randrange(200)
            stop = chance.choice((None, start + chance.randrange(1, 20)))
            ours.add(start, stop)
            theirs.add(start, stop)
            assert ours == theirs
            if chance.random() < 0.1:
                assert ours.shift() == theirs.shift()


def count_lines(function: Callable[[], object]) -> int:
    """Return how many lines run that add ranges."""
    files, lines = {rangeset.__file__, received_ranges.__file__}, 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines


def test_frames_behind_many_gaps_take_no_look_at_each(site: Site) -> None:
    """A datagram of them takes a few lines for each frame, where a look at each gap would be a thousand."""
    network = Network()
    host: Any = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.call(ask()[:9], ends=False)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    octets = [b"\x0e\0" + number(1_000 + 4 * place) + b"\1x" for place in range(GAPS)]
    for part in (octets[:FRAMES], octets[FRAMES:]):
        link.receive(sealed(client.core, b"".join(part)), client.address)
    copies = sealed(client.core, octets[-1] * FRAMES)
    lines = count_lines(lambda: link.receive(copies, client.address))
    assert not link.is_gone and len(link.core._streams[0].receiver._ranges) == GAPS
    assert FRAMES < lines < 40 * FRAMES
