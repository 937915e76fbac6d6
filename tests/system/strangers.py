"""Strangers who take their time, at any listener: what they do, and what an honest caller sees beside them."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

SLOW_ADDRESS = "127.0.0.1"
OTHER_ADDRESS = "127.0.0.2"
PATIENCE = 20.0
"""Seconds for an answer, on a machine that is busy."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """One listener."""

    name: str
    port: int
    tls: bool
    ask: bytes
    """A whole request that anybody may make, on a connection that stays open."""

    status: bytes
    """What its answer begins with."""

    body: bytes
    """The head of a request with a body that anybody may send; empty where nobody may."""


def http_door(name: str, port: int, path: str, *, tls: bool, post: str = "") -> Door:
    """A listener that speaks HTTP."""
    host = f"Host: 127.0.0.1:{port}\r\n"
    ask = f"GET {path} HTTP/1.1\r\n{host}\r\n"
    body = f"POST {post} HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    return Door(
        name=name, port=port, tls=tls, ask=ask.encode(), status=b"HTTP/1.1 ", body=body.encode() if post else b""
    )


def agtp_door(port: int) -> Door:
    """The port that speaks AGTP."""
    body = b"AGTP/1.0 QUERY /\r\nContent-Type: application/vnd.agtp+json\r\nContent-Length: 900000\r\n\r\n"
    return Door(name="agtp", port=port, tls=True, ask=b"AGTP/1.0 DISCOVER /\r\n\r\n", status=b"AGTP/1.0 ", body=body)


@cache
def context() -> ssl.SSLContext:
    """Trusts anybody: strangers do."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def connect(door: Door, source: str, *, tls: bool | None = None, timeout: float = PATIENCE) -> socket.socket:
    """
    One connection.

    :param tls: whether to shake hands; None: where the listener does.
    :raises OSError: if the listener closes it.
    """
    link = socket.create_connection(("127.0.0.1", door.port), timeout, source_address=(source, 0))
    if door.tls if tls is None else tls:
        try:
            return context().wrap_socket(link)
        except BaseException:
            link.close()
            raise
    return link


def knock(door: Door, source: str, timeout: float = PATIENCE) -> bool:
    """Whether a new connection gets an answer; one that is turned away is told at once."""
    with contextlib.suppress(OSError), connect(door, source, timeout=timeout) as link:
        link.sendall(door.ask)
        got = b""
        while len(got) < len(door.status):
            more = link.recv(len(door.status) - len(got))
            if not more:
                return False
            got += more
        return got == door.status
    return False


class Crowd:
    """
    Many connections that do one thing slowly.

    :param how: one of :data:`WAYS`.
    """

    def __init__(self, door: Door, how: str, source: str = SLOW_ADDRESS) -> None:
        self._door, self._source = door, source
        self._first, self._drip, tls = WAYS[how](door)
        self._tls = door.tls and tls
        self.links: list[socket.socket] = []
        self.refused = 0
        self.ended = 0

    def grow(self, number: int) -> None:
        """So many more try."""
        for _ in range(number):
            try:
                link = connect(self._door, self._source, tls=self._tls)
                link.sendall(self._first)
                link.setblocking(False)
            except OSError:
                self.refused += 1
            else:
                self.links.append(link)

    def drip(self) -> None:
        """Each sends an octet more, where that is what they do; those that were ended are counted."""
        for link in tuple(self.links):
            if self._ended(link):
                self.ended += 1
                self.links.remove(link)
                link.close()

    def _ended(self, link: socket.socket) -> bool:
        try:
            if self._drip:
                link.send(self._drip)
            elif select.select([link], [], [], 0)[0] and self._first[-1:] != b"\n":
                return link.recv(65_536) == b""
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True
        return _reset(link)

    def close(self) -> None:
        """They leave."""
        for link in self.links:
            link.close()
        self.links.clear()


def _reset(link: socket.socket) -> bool:
    """Whether the other end has closed or cut, as far as the system knows, with octets unread before that or not."""
    poller = select.poll()
    poller.register(link.fileno(), select.POLLRDHUP)
    return any(flags & (select.POLLRDHUP | select.POLLHUP | select.POLLERR) for _, flags in poller.poll(0))


WAYS: dict[str, Callable[[Door], tuple[bytes, bytes, bool]]] = {
    "silent-tcp": lambda door: (b"", b"", False),
    "silent-tls": lambda door: (b"", b"", True),
    "slow-head": lambda door: (door.ask[:-2] + b"X-A: ", b"a", True),
    "slow-body": lambda door: (door.body, b" ", True),
    "unread": lambda door: (door.ask * 20, b"", True),
}
"""What is sent at once, what now and then, and whether hands are shaken."""


@contextlib.contextmanager
def crowd(door: Door, how: str, number: int, source: str = SLOW_ADDRESS) -> Iterator[Crowd]:
    """A crowd that is there."""
    made = Crowd(door, how, source)
    try:
        made.grow(number)
        yield made
    finally:
        made.close()


def soon(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
