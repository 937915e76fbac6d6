"""Requests of HTTP listeners: a body that is too long is 413, and nothing of it is read."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.resource import Resource

from agtphost.http.bounded_request import LONGEST_BODY, BoundedRequest
from agtphost.http.channel import BoundedChannel
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mounts
from tests.http.mounted import mounted
from tests.rows import each_row


class Reader(Resource):
    """Remembers what it was given."""

    isLeaf = True
    longest_body = LONGEST_BODY

    def __init__(self) -> None:
        super().__init__()
        self.read: list[bytes] = []

    def admit(self, request: BoundedRequest) -> None:
        """Everybody."""

    def render(self, request: BoundedRequest) -> bytes:
        assert request.content is not None
        self.read.append(request.content.read())
        return b"read"


class Transport(StringTransport):
    """Says that its side has ended."""

    ended = False

    def loseWriteConnection(self) -> None:
        self.ended = True


def asked(octets: bytes, request: Any = BoundedRequest, piece: int = 1 << 16) -> tuple[Reader, Transport]:
    reader, clock = Reader(), Clock()
    channel: BoundedChannel = HttpFactory(
        Mounts([mounted(reader, hosts=frozenset({"x"}))]), HTTP_LIMITS, clock
    ).buildProtocol(None)
    channel.requestFactory = request
    transport = Transport()
    channel.makeConnection(transport)
    for at in range(0, len(octets), piece):
        channel.dataReceived(octets[at : at + piece])
    clock.advance(0)
    return reader, transport


def sized(length: int, said: int | None = None) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (length if said is None else said)
    return head + b"x" * length


def chunked(length: int) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    return head + chunk * (length // 0x8000) + b"0\r\n\r\n"


@each_row("piece", [1 << 24, 1 << 16, 1_000])
@each_row(
    "octets",
    [sized(LONGEST_BODY + 1), sized(10, LONGEST_BODY + 1), chunked(LONGEST_BODY + 0x8000)],
    ids=["too long", "said to be too long", "chunked"],
)
def test_a_cut_body_is_413_and_never_read(octets: bytes, piece: int) -> None:
    """One answer, the connection ends, and the resource sees neither the body nor the part that came."""
    reader, transport = asked(octets, piece=piece)
    assert transport.value().count(b"HTTP/1.1") == 1
    assert transport.value().startswith(b"HTTP/1.1 413 ")
    assert transport.ended
    assert reader.read == []


@pytest.mark.parametrize("octets", [sized(LONGEST_BODY), chunked(LONGEST_BODY)], ids=["sized", "chunked"])
def test_a_body_of_the_longest_length_is_read(octets: bytes) -> None:
    """The control."""
    reader, transport = asked(octets)
    assert reader.read == [b"x" * LONGEST_BODY]
    assert transport.value().startswith(b"HTTP/1.1 200 ")


def test_a_request_that_is_not_ended_is_noticed() -> None:
    """The control: where nothing ends the request, the resource gets what is left of its body."""

    class Careless(BoundedRequest):
        def turn_away(self, *_: object) -> None:
            pass

    reader, _ = asked(chunked(LONGEST_BODY + 0x8000), Careless, piece=1 << 24)
    assert reader.read != []
