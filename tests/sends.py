"""What goes out of this process's sockets, send by send: whether a message leaves in one piece, and at once."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass(frozen=True)
class Send:
    """One."""

    local: int
    """The port that it went out of."""

    peer: int
    """The port that it went to."""

    octets: int
    nodelay: bool
    """Whether the system waits for nothing before it sends them."""


@dataclass
class Sends:
    """All of them, in order."""

    seen: list[Send] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held from before a send until it is noted: whoever has its octets in another thread finds it here."""

    def note(self, link: socket.socket, octets: int) -> None:
        """One more; nothing, and what is no TCP, is none."""
        if not octets or link.family not in (socket.AF_INET, socket.AF_INET6):
            return
        nodelay = bool(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        self.seen.append(Send(link.getsockname()[1], link.getpeername()[1], octets, nodelay))

    def of_server(self, port: int) -> list[Send]:
        """Those of who listens there, since the last look."""
        return self._taken(lambda send: send.local == port)

    def of_client(self, port: int) -> list[Send]:
        """Those to who listens there, since the last look."""
        return self._taken(lambda send: send.peer == port)

    def _taken(self, wanted: Callable[[Send], bool]) -> list[Send]:
        with self.lock:
            found = [send for send in self.seen if wanted(send)]
            self.seen = [send for send in self.seen if not wanted(send)]
        return found


@contextmanager
def recorded() -> Iterator[Sends]:
    """While it lasts."""
    sends = Sends()
    plain, secure = socket.socket.send, ssl.SSLSocket.send

    def send(self: Any, data: Any, *flags: int) -> int:
        with sends.lock:
            sent = plain(self, data, *flags)
            sends.note(self, sent)
        return sent

    def send_secure(self: Any, data: Any, *flags: int) -> int:
        with sends.lock:
            sent = secure(self, data, *flags)
            sends.note(self, sent)
        return sent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "send", send)
        patch.setattr(ssl.SSLSocket, "send", send_secure)
        yield sends


def in_one(sends: list[Send]) -> bool:
    """Whether it was one send, which nothing delays."""
    return len(sends) == 1 and sends[0].nodelay
