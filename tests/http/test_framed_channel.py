"""The framing of HTTP in memory: exactly one octet at a time, which no socket promises."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.web.server import NOT_DONE_YET

from agtphost.http import request_heads
from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.http.framed_channel import KEPT_HEAD, FramedChannel
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mounts
from tests.http.framing import CHUNKED, CHUNKS, REFUSED, get, post
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
    named.heard = wire.value()
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
    if statuses[0] != 408:
        head, _, body = named.heard.partition(b"\r\n\r\n")
        assert json.loads(body)["reason"] and f"Content-Length: {len(body)}".encode() in head, "it is told why"


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


class Heard(Named):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__("heard")
        self.heard: list[object] = []

    def render(self, request: BoundedRequest) -> bytes:
        """What a surface can look at."""
        body = request.content.read() if request.content is not None else b""
        fields = list(request.requestHeaders.getAllRawHeaders())
        self.heard.append((request.method, request.uri, request.path, request.clientproto, fields, body))
        return tail_of(request, 200, b"heard")


GOOD = {
    "names in any case": get("x-FORWARDED-for: 1", "ETAG: a", "www-authenticate: b", "dnt: 1"),
    "values with blanks": get("X:\t a  b \t", "Y:", "Z: :"),
    "a field that stands there twice": get("Cookie: a", "X: 1", "cookie: b"),
    "an empty line before": "\r\n" + get(),
    "a body": post("Content-Length: 3", body="abc"),
    "no body, said": post("content-length: 0"),
    "two bodies": post("Content-Length: 3", body="abc") + post("Content-Length: 2", "Expect: 100-continue", body="de"),
    "chunks": post(CHUNKED, body=CHUNKS),
    "a query": get(line="GET {path}?a=b%20c&a=d HTTP/1.1"),
    "octets beyond ASCII": get("X: \xe9"),
    "100 fields": get(*(f"X-{number}: y" for number in range(99))),
    "an older version": get("Connection: keep-alive", line="GET {path} HTTP/1.0"),
}


def heard(text: str, piece: int) -> tuple[list[object], bytes]:
    """What a surface hears, and what is answered."""
    surface, clock = Heard(), Clock()
    channel: Any = HttpFactory(Mounts([mounted(surface)]), HTTP_LIMITS, clock).buildProtocol(None)
    wire = Wire(hostAddress=HERE)
    channel.makeConnection(wire)
    octets = text.replace("{port}", "8080").replace("{path}", "/").encode("latin-1")
    for at in range(0, len(octets), piece):
        channel.dataReceived(octets[at : at + piece])
        clock.advance(0)
    for _ in range(4):
        clock.advance(0)
    return surface.heard, re.sub(rb"Date: [^\r]*", b"Date:", wire.value())


@each_row("case", GOOD)
def test_a_head_is_the_same_however_it_arrives(case: str) -> None:
    """One that is there at once is read at once, and one that comes in pieces line by line."""
    whole = heard(GOOD[case], 1 << 20)
    assert len(whole[0]) == GOOD[case].count(" HTTP/1.")
    for piece in (1, 40):
        assert heard(GOOD[case], piece) == whole


def test_a_head_like_the_one_before_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked again is heard again, with its own body; a head that differs in one octet is another one."""
    parsed: list[bytes] = []
    read = request_heads.read
    monkeypatch.setattr(request_heads, "read", lambda octets: parsed.append(octets) or read(octets))  # type: ignore[func-returns-value]
    asked = [
        post("Content-Length: 3", f"X: {value}", body=body)
        for value, body in (("1", "abc"), ("1", "abd"), ("2", "abe"))
    ]
    found, answered = heard("".join(asked), 1 << 20)
    assert [each[-1] for each in found] == [b"abc", b"abd", b"abe"]  # type: ignore[index]
    assert found[0][:-1] == found[1][:-1] != found[2][:-1]  # type: ignore[index]
    assert len(parsed) == 2 and answered.count(b" 200 ") == 3
    long = get("X: " + KEPT_HEAD * "x")
    assert len(heard(2 * long, 1 << 20)[0]) == 2 and len(parsed) == 4, "a long one is not kept"


def test_a_body_that_is_there_waits_for_nothing_more() -> None:
    """Its connection is owed an answer, and is not cut for another's sake; one that asks more meanwhile may be."""

    class Slow(Named):
        def render(self, request: BoundedRequest) -> Any:
            return NOT_DONE_YET

    asked = post("Content-Length: 3", body="abc").replace("{port}", "8080").replace("{path}", "/").encode()
    for piece in (1 << 20, 1):
        channel: Any = HttpFactory(Mounts([mounted(Slow("slow"))]), HTTP_LIMITS, Clock()).buildProtocol(None)
        channel.makeConnection(Wire(hostAddress=HERE))
        for at in range(0, len(asked), piece):
            channel.dataReceived(asked[at : at + piece])
        assert channel.expendable == 0
        channel.dataReceived(b"G")
        assert channel.expendable > 0


def test_a_whole_head_is_read_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not line by line, which takes three times as long."""
    lines: list[bytes] = []
    monkeypatch.setattr(FramedChannel, "lineReceived", lambda self, line: lines.append(line))
    assert len(heard(GOOD["a body"], 1 << 20)[0]) == 1
    assert not lines
    assert not heard(GOOD["a body"], 1)[0]
    assert lines
