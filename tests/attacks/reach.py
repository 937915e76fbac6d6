"""
How much of an attack reaches the host: what is refused at the door attacks nothing, and withstanding it says nothing.

While a block runs, the connections that this process opens to the host's ports are watched. A message is a handshake
or one ``send``. It has reached the host where the host's program reacted on that connection: it finished a handshake or
answered one with an alert, or sent octets, or ended a connection that had been accepted and written to. What admission
closes before a handshake has reached nothing.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Link:
    messages: int = 0
    heard: bool = False


class Reach:
    """
    Counts, thread-safe.

    :param ports: where the host listens, on loopback.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = frozenset(ports)
        # A lock of its thread: collecting garbage inside of it may end a connection, which is counted here too.
        self._lock = threading.RLock()
        self._links: dict[int, _Link] = {}
        self.connections = 0
        self._sent = self._reached = 0

    @property
    def sent(self) -> int:
        """Messages, also those that reached nothing."""
        return self._sum()[0]

    @property
    def reached(self) -> int:
        """Those that the host has taken up."""
        return self._sum()[1]

    def _sum(self) -> tuple[int, int]:
        with self._lock:
            open_now = list(self._links.values())
            sent = self._sent + sum(link.messages for link in open_now)
            return sent, self._reached + sum(link.messages for link in open_now if link.heard)

    def opened(self, number: int, address: Any) -> None:
        """A connection has been accepted."""
        if isinstance(address, tuple) and address[1] in self._ports:
            self.ended(number)
            with self._lock:
                self.connections += 1
                self._links[number] = _Link()

    def ended(self, number: int) -> None:
        """A connection is closed, or its number is used again."""
        with self._lock:
            link = self._links.pop(number, None)
            if link is not None:
                self._sent += link.messages
                self._reached += link.messages if link.heard else 0

    def told(self, number: int, *, heard: bool = False) -> None:
        """A message went out."""
        link = self._links.get(number)
        if link is not None:
            with self._lock:
                link.messages += 1
                link.heard = link.heard or heard

    def heard(self, number: int) -> None:
        """The host reacted."""
        link = self._links.get(number)
        if link is not None:
            link.heard = True


def _handshaking(reach: Reach, original: Callable[..., Any]) -> Callable[..., Any]:
    def do_handshake(self: ssl.SSLSocket, *given: Any, **named: Any) -> Any:
        number = self.fileno()
        try:
            value = original(self, *given, **named)
        except (ssl.SSLEOFError, OSError) as failure:
            # An alert is the host's own word; the end of the connection is admission's.
            alert = isinstance(failure, ssl.SSLError) and not isinstance(failure, ssl.SSLEOFError)
            reach.told(number, heard=alert)
            raise
        reach.told(number, heard=True)
        return value

    return do_handshake


def _sending(reach: Reach, original: Callable[..., Any]) -> Callable[..., Any]:
    def send(self: socket.socket, *given: Any) -> Any:
        value = original(self, *given)
        reach.told(self.fileno())
        return value

    return send


def _reading(reach: Reach, original: Callable[..., Any]) -> Callable[..., Any]:
    def recv(self: socket.socket, *given: Any) -> Any:
        value = original(self, *given)
        reach.heard(self.fileno())
        return value

    return recv


def _connecting(reach: Reach, original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(self: socket.socket, address: Any) -> Any:
        value = original(self, address)
        reach.opened(self.fileno(), address)
        return value

    return connect


def _closing(reach: Reach, original: Callable[..., Any]) -> Callable[..., Any]:
    def close(self: socket.socket) -> Any:
        number = self.fileno()
        if number in reach._links:
            if type(self) is socket.socket:
                _look(reach, self, number)
            reach.ended(number)
        return original(self)

    return close


def _look(reach: Reach, link: socket.socket, number: int) -> None:
    """Whether something waits that nobody has read."""
    with contextlib.suppress(OSError, ValueError):
        link.setblocking(False)
        _PLAIN_RECV(link, 1, socket.MSG_PEEK)
        reach.heard(number)


_PLAIN_RECV = socket.socket.recv


@contextlib.contextmanager
def watched(ports: Iterable[int]) -> Iterator[Reach]:
    """Count while the block runs."""
    reach = Reach(ports)
    patches: list[tuple[type, str, Callable[[Reach, Callable[..., Any]], Callable[..., Any]]]] = [
        (socket.socket, "connect", _connecting),
        (socket.socket, "close", _closing),
        *((socket.socket, name, _sending) for name in ("send", "sendall")),
        *((socket.socket, name, _reading) for name in ("recv", "recv_into")),
        (ssl.SSLSocket, "do_handshake", _handshaking),
        (ssl.SSLSocket, "send", _sending),
    ]
    before = [(kind, name, kind.__dict__.get(name)) for kind, name, _ in patches]
    for kind, name, wrapped in patches:
        setattr(kind, name, wrapped(reach, getattr(kind, name)))
    try:
        yield reach
    finally:
        for kind, name, original in before:
            if original is None:
                delattr(kind, name)
            else:
                setattr(kind, name, original)
