"""Limits below the HTTP client: heads of any kind are short, bodies as long as they may be."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransportWithDisconnection

from agtphost.upstream.octet_limit import MOST_HEAD, LimitedFactory
from tests.rows import each_row

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"


class Taking(Protocol):
    """Takes whatever comes."""

    taken = 0

    def dataReceived(self, data: bytes) -> None:
        self.taken += len(data)


def connection(most: float = 1 << 20) -> Any:
    """A limited connection on which something was asked."""
    found: Any = LimitedFactory(Factory.forProtocol(Taking), most).buildProtocol(None)
    transport = StringTransportWithDisconnection()
    transport.protocol = found
    found.makeConnection(transport)
    found.write(b"GET / HTTP/1.1\r\n\r\n")
    return found


def feed(found: Any, octets: bytes, times: int, size: int) -> bool:
    """Whether it is still open after those octets, so many times, in pieces."""
    whole = octets * times
    for start in range(0, len(whole), size):
        found.dataReceived(whole[start : start + size])
        if not found.transport.connected:
            return False
    return True


@each_row("size", [1, 7, 65536])
@each_row("octets", [b"x", b"X-A: b\r\n", INTERIM], ids=["one field", "many fields", "interim"])
def test_a_head_without_end_is_cut(octets: bytes, size: int) -> None:
    """T-UP-10, T-UP-11: header fields and interim responses count, in whatever pieces they come."""
    found = connection()
    taking = found.wrappedProtocol
    beginning = b"" if octets == INTERIM else b"HTTP/1.1 200 OK\r\n"
    assert not feed(found, beginning + octets * (2 * MOST_HEAD // len(octets)), 1, size)
    assert taking.taken <= MOST_HEAD


HEADS = {"plain": OK, "after interim": INTERIM + OK, "bare LF": OK.replace(b"\r\n", b"\n")}


@each_row("size", [1, 7, 65536])
@each_row("head", HEADS.values(), ids=list(HEADS))
def test_a_body_may_be_longer_than_a_head(head: bytes, size: int) -> None:
    """What follows the head is bounded by the connection's own limit, and by that alone."""
    found = connection()
    assert feed(found, head + b"x" * (3 * MOST_HEAD), 1, size)
    assert not feed(found, b"x" * 65536, 16, 65536)


def test_another_request_begins_anew() -> None:
    """A kept connection has the whole limit for each answer."""
    found = connection(100_000)
    for _ in range(5):
        found.write(b"GET / HTTP/1.1\r\n\r\n")
        assert feed(found, OK + b"x" * 90_000, 1, 4096)


def test_nothing_is_logged_for_each_connection() -> None:
    """The factory of the HTTP client is silenced: a line at the start and the end of each would fill the log."""
    factory = Factory.forProtocol(Taking)
    LimitedFactory(factory)
    assert factory.noisy is False
