"""Strangers and agents who hold connections: at the AGTP port and at each listener that speaks HTTP."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator

from tests.attacks.attack import MIB, Attack, Target
from tests.system.raw_link import client_context, request
from tests.system.strangers import Door, agtp_door, connect, crowd, http_door

PEERS = 256
"""As many as closed a listener once."""

PATIENCE = 10.0
"""Seconds in which a host that is busy with others too has closed what is too much."""

READERS = 20
"""Peers that ask for much and read nothing."""


def _doors(target: Target) -> dict[str, Door]:
    card = "/.well-known/agent-card.json"
    return {
        "agtp": agtp_door(target.port),
        "a2a": http_door("a2a", target.front, card, tls=True),
        "wellknown": http_door("wellknown", target.wellknown, "/.well-known/agtp", tls=True),
    }


def _held(listener: str, how: str) -> Callable[[Target, float], None]:
    """All of them do one thing at one listener, and try again where they are cut."""

    def run(target: Target, seconds: float) -> None:
        end = time.monotonic() + seconds
        with crowd(_doors(target)[listener], how, 0) as slow:
            tries = 0
            while time.monotonic() < end:
                if tries < PEERS:
                    slow.grow(16)
                    tries += 16
                slow.drip()
                time.sleep(0.02)
            late = time.monotonic() + PATIENCE
            while len(slow.links) > 64 and time.monotonic() < late:
                slow.drip()
                time.sleep(0.02)
            assert len(slow.links) <= 64, f"one address holds {len(slow.links)} connections"

    return run


def body_unproven(target: Target, seconds: float) -> None:
    """The front answers by the head: nothing of a body of a client without a token is waited for."""
    host = f"Host: 127.0.0.1:{target.front}\r\n"
    head = f"POST /agents/assistant HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    door, end = _doors(target)["a2a"], time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionError, ssl.SSLError), connect(door, "127.0.0.1") as link:
            link.sendall(head.encode())
            answer = link.recv(4096)
            assert not answer or answer.startswith(b"HTTP/1.1 401"), answer[:80]


@contextlib.contextmanager
def _unreading(target: Target, octets: bytes) -> Iterator[list[ssl.SSLSocket]]:
    """Certified peers with a small window that have asked, and read nothing."""
    context, links = client_context(target), list[ssl.SSLSocket]()
    try:
        for _ in range(READERS):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(5)
            plain.connect(("127.0.0.1", target.port))
            link = context.wrap_socket(plain, server_hostname="localhost")
            links.append(link)
            link.setblocking(False)
            with contextlib.suppress(BlockingIOError, ssl.SSLError, ConnectionError):
                link.send(octets)
        yield links
    finally:
        for link in links:
            link.close()


def _wait(links: list[ssl.SSLSocket], octets: bytes, seconds: float) -> None:
    """They go on asking, as long as they are let."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for link in select.select([], links, [], 0.1)[1]:
            with contextlib.suppress(BlockingIOError, ssl.SSLError, ConnectionError):
                link.send(octets)
        time.sleep(0.05)


def _unread(method: str, path: str, body: dict[str, object], times: int) -> Callable[[Target, float], None]:
    def run(target: Target, seconds: float) -> None:
        octets = request(method, path, body) * times
        with _unreading(target, octets) as links:
            _wait(links, octets, seconds)

    return run


def pages(target: Target, seconds: float) -> None:
    """Strangers ask for the longest pages of the host's chain; they get 50 records at the most, or nothing."""
    door, end = agtp_door(target.port), time.monotonic() + seconds
    octets = request("INSPECT", "/", {"target": "chain", "chain": "host", "limit": 500})
    while time.monotonic() < end:
        with contextlib.suppress(OSError), connect(door, "127.0.0.1") as link:
            for _ in range(20):
                link.sendall(octets)
                answer = link.recv(65_536)
                assert not answer or b"AGTP/1.0 5" not in answer, answer[:80]
        time.sleep(0.01)


_SAYS = {
    "silent-tcp": "connect and say nothing",
    "silent-tls": "shake hands and say nothing",
    "slow-head": "send a head octet by octet",
    "unread": "ask many things at once and read no answer",
}

ATTACKS = (
    *(
        Attack(
            name=f"{listener}-{how}",
            who="stranger",
            says=f"{PEERS} peers at the {listener} listener {says}: one address's share, cut in time.",
            run=_held(listener, how),
            connections=how == "silent-tcp",
        )
        for listener in ("agtp", "a2a", "wellknown")
        for how, says in _SAYS.items()
    ),
    Attack(
        name="a2a-body-unproven",
        who="stranger",
        says="Bodies of clients without a token are announced to the A2A front: 401 by the head, none is kept.",
        run=body_unproven,
    ),
    Attack(
        name="large-pages-unread",
        who="agent",
        says=f"{READERS} agents ask for the longest pages of their chain and read nothing: 2 MiB each at the most.",
        run=_unread("INSPECT", "/", {"target": "chain", "limit": 500}, 10),
        memory=(READERS * 2 + 16) * MIB,
    ),
    Attack(
        name="large-pages",
        who="stranger",
        says="Pages of records asked for by strangers, one after the other: refused, or short.",
        run=pages,
    ),
)
