"""The framing of HTTP in memory: exactly one octet at a time, which no socket promises."""

from __future__ import annotations

import re
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.http.mounts import Mounts
from agtphost.http.site import HTTP_LIMITS, HttpFactory
from tests.http.framing import REFUSED, get
from tests.http.mounted import mounted
from tests.http.test_mounts import HERE, Named, Wire
from tests.rows import each_row


def told(text: str, piece: int) -> tuple[list[int], Named]:
    """The statuses that are answered to it, and to the good request behind it."""
    named, clock = Named("a"), Clock()
    channel: Any = HttpFactory(Mounts([mounted(named)]), HTTP_LIMITS, clock).buildProtocol(None)
    wire = Wire(hostAddress=HERE)
    channel.makeConnection(wire)
    octets = (text + get("X-Behind: it")).replace("{port}", "8080").replace("{path}", "/").encode("latin-1")
    for at in range(0, len(octets), piece):
        channel.dataReceived(octets[at : at + piece])
        clock.advance(0)
    for _ in range(100):
        # The deadlines are looked at, as they are while a listener runs.
        clock.advance(0.5)
        channel.sweep(clock.seconds())
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", wire.value())], named


@each_row("piece", [1 << 20, 1])
@each_row("case", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(case: str, piece: int) -> None:
    """One answer, of the refusal; neither the request nor what stands behind it reaches the surface."""
    text, expected = REFUSED[case]
    statuses, named = told(text, piece)
    assert len(statuses) == 1
    assert statuses[0] in expected
    assert named.asked == 0


@pytest.mark.parametrize("piece", [1 << 20, 1])
def test_a_good_one_is_answered_and_what_is_behind_it(piece: int) -> None:
    """The control."""
    statuses, named = told(get(), piece)
    assert statuses == [200, 200]
    assert named.asked == 2


@each_row("said", ["close", "Close", "close, Upgrade", "keep-alive,close", "Upgrade , close"])
def test_a_connection_that_is_to_end_ends(said: str) -> None:
    """Wherever ``close`` stands in the list."""
    assert told(get(f"Connection: {said}"), 1 << 20)[0] == [200]
