"""
Octets that trickle in, one in a portion: heads, bodies, handshakes, pieces of TLS records, records without content.

What a peer says in one go costs the host one read, a record and a pass of a parser. Cut into single octets it costs
hundreds of each, and from hundreds of peers at once.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import addresses, fewer, hello, plain
from tests.system.raw_link import client_context

PEERS = 300
"""From 40 addresses: eight each, far below their share."""

ROUNDS = 240
"""Octets of each, or portions: fewer than a head may have."""

HEAD = b"AGTP/1.0 ECHO /text\r\nRequest-ID: " + b"z" * ROUNDS
BODY = b"AGTP/1.0 QUERY /\r\nContent-Type: application/vnd.agtp+json\r\nContent-Length: 900000\r\n\r\n"


class Sealed:
    """
    A connection whose TLS records are made here, and sent when and in which pieces it is wished.

    :param port: of the listener.
    """

    def __init__(self, target: Target, context: ssl.SSLContext, source: str, port: int = 0) -> None:
        self.socket = plain(target, source, port=port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        try:
            self._shake_hands()
        except BaseException:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._outgoing.read())
                octets = self.socket.recv(65_536)
                if not octets:
                    raise ConnectionError("the host ended the handshake") from None
                self._incoming.write(octets)
            else:
                self.socket.sendall(self._outgoing.read())
                return

    def record(self, octets: bytes) -> bytes:
        """One record, still to be sent."""
        self._tls.write(octets)
        return self._outgoing.read()


def _drip(peers: Sequence[tuple[socket.socket, Iterable[bytes]]], seconds: float, *, patience: float = 0.0) -> None:
    """
    A portion of each peer, again and again, until all is said or the time is over; then they leave.

    :param patience: seconds that they wait for an answer before, once each has said what is left at once; 0: they say
        no more.
    """
    end = time.monotonic() + seconds
    turns = [(link, iter(portions)) for link, portions in peers]
    while turns and time.monotonic() < end:
        left = []
        for link, portions in turns:
            portion = next(portions, None)
            if portion is None:
                continue
            with contextlib.suppress(BlockingIOError, ConnectionError):
                link.send(portion)
                left.append((link, portions))
        turns = left
    if patience:
        for link, portions in turns:
            with contextlib.suppress(OSError):
                link.send(b"".join(portions))
        _wait([link for link, _ in peers], patience)
    for link, _ in peers:
        link.close()


def _wait(links: Sequence[socket.socket], seconds: float) -> None:
    """Until the host has said something to each, or ended it."""
    end = time.monotonic() + seconds
    for link in links:
        with contextlib.suppress(OSError):
            link.settimeout(max(0.001, end - time.monotonic()))
            link.recv(1)


def _sealed(link: Sealed, say: bytes, then: bytes) -> Iterator[bytes]:
    if say:
        yield link.record(say)
    for at in range(len(then)):
        yield link.record(then[at : at + 1])


def _records(say: bytes, then: bytes, port: Callable[[Target], int]) -> Callable[[Target, float], None]:
    """Peers that say something at once, and then one octet a record."""

    def run(target: Target, seconds: float) -> None:
        context = client_context(target, identified=False)
        peers: list[tuple[socket.socket, Iterable[bytes]]] = []
        for source in islice(addresses(), fewer(PEERS, seconds)):
            with contextlib.suppress(OSError):
                link = Sealed(target, context, source, port(target))
                peers.append((link.socket, _sealed(link, say, then)))
        _drip(peers, seconds)

    return run


def tiny_records(target: Target, seconds: float) -> None:
    """Records of one octet each, as many as the system takes, in segments of any length."""
    context, end = client_context(target, identified=False), time.monotonic() + seconds
    peers: dict[Sealed, bytes] = {}
    for source in islice(addresses(), fewer(PEERS, seconds)):
        with contextlib.suppress(OSError):
            link = Sealed(target, context, source)
            link.socket.setblocking(False)
            peers[link] = link.record(BODY)
    while time.monotonic() < end and peers:
        for link, owed in list(peers.items()):
            try:
                sent = link.socket.send(owed)
            except BlockingIOError:
                continue
            except OSError:
                del peers[link]
                continue
            # Never as much as the body should have.
            peers[link] = owed[sent:] or b"".join(link.record(b"z") for _ in range(500))
    for link in peers:
        link.socket.close()


def split_records(target: Target, seconds: float) -> None:
    """One head in one record, and each octet of that record in a segment of its own."""
    context = client_context(target, identified=False)
    peers: list[tuple[socket.socket, Iterable[bytes]]] = []
    for source in islice(addresses(), fewer(PEERS, seconds)):
        with contextlib.suppress(OSError):
            link = Sealed(target, context, source)
            record = link.record(HEAD[:-20])
            peers.append((link.socket, [record[at : at + 1] for at in range(len(record))]))
    _drip(peers, seconds)


def split_handshakes(target: Target, seconds: float) -> None:
    """A greeting octet by octet, at all three listeners; those who have not said all of it in time say the rest."""
    first = hello(client_context(target, identified=False))
    peers: list[tuple[socket.socket, Iterable[bytes]]] = []
    ports = (target.port, target.front, target.wellknown)
    for number, source in zip(range(fewer(PEERS, seconds)), addresses(), strict=False):
        with contextlib.suppress(OSError):
            link = plain(target, source, port=ports[number % 3])
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setblocking(False)
            peers.append((link, [first[at : at + 1] for at in range(len(first))]))
    _drip(peers, seconds, patience=5.0)


def _expanded(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label without a context (RFC 8446 section 7.1)."""
    name = b"tls13 " + label
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return HKDFExpand(algorithm=SHA384(), length=length, info=info).derive(secret)


def _sealing(keys: Path) -> Callable[[int], bytes]:
    """Makes the n-th record of the client: without content, which no TLS library sends (RFC 8446 section 5.2)."""
    lines = keys.read_text().split("\n")
    secret = bytes.fromhex([line for line in lines if line.startswith("CLIENT_TRAFFIC_SECRET_0")][-1].split()[2])
    cipher, base = AESGCM(_expanded(secret, b"key", 32)), int.from_bytes(_expanded(secret, b"iv", 12), "big")

    def record(number: int) -> bytes:
        # Every 20th has an octet: OpenSSL ends a connection after 32 empty ones in a row.
        content = HEAD[number // 20 :][:1] + b"\x17" if number % 20 == 19 else b"\x17"
        head = b"\x17\x03\x03" + (len(content) + 16).to_bytes(2, "big")
        return head + cipher.encrypt((base ^ number).to_bytes(12, "big"), content, head)

    return record


def empty_records(target: Target, seconds: float) -> None:
    """Records without content, each in a segment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        context = client_context(target, identified=False)
        context.keylog_filename = str(keys)
        peers: list[tuple[socket.socket, Iterable[bytes]]] = []
        for source in islice(addresses(), fewer(PEERS, seconds)):
            with contextlib.suppress(OSError):
                link = Sealed(target, context, source)
                record = _sealing(keys)
                peers.append((link.socket, map(record, range(ROUNDS))))
        _drip(peers, seconds)


def _greeted(port: Callable[[Target], int]) -> Callable[[Target, float], None]:
    """Greetings by the hundred, sent in the same moment: what follows of them is the host's work."""

    def run(target: Target, seconds: float) -> None:
        first, end, source = hello(client_context(target, identified=False)), time.monotonic() + seconds, addresses()
        while time.monotonic() < end:
            links = []
            for _ in range(100):
                with contextlib.suppress(OSError):
                    links.append(plain(target, next(source), port=port(target)))
            for link in links:
                with contextlib.suppress(OSError):
                    link.sendall(first)
            for link in links:
                with contextlib.suppress(OSError):
                    link.recv(1)
                link.close()

    return run


def _http(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-A: ".encode() + b"z" * ROUNDS


def _attack(name: str, says: str, run: Callable[[Target, float], None], memory: int = 32) -> Attack:
    return Attack(name=name, who="stranger", says=says, run=run, memory=memory * MIB)


_PORTS: dict[str, Callable[[Target], int]] = {
    "agtp": lambda target: target.port,
    "a2a": lambda target: target.front,
    "wellknown": lambda target: target.wellknown,
}
_PATHS = {"a2a": "/.well-known/agent-card.json", "wellknown": "/.well-known/agtp"}

ATTACKS = (
    _attack("slow-headers", "300 peers say a head an octet at a time.", _records(b"", HEAD, _PORTS["agtp"])),
    _attack("slow-bodies", "300 peers say a body an octet at a time.", _records(BODY, b" " * ROUNDS, _PORTS["agtp"])),
    *(
        _attack(
            f"{name}-slow-heads",
            f"300 peers say a head an octet at a time to the {name} listener.",
            _records(b"", _http(path), _PORTS[name]),
            # Two thirds more than a connection of AGTP: Twisted's HTTP is larger.
            48,
        )
        for name, path in _PATHS.items()
    ),
    _attack("tiny-records", "300 peers send records of one octet, as many as they can.", tiny_records),
    _attack("split-records", "300 peers cut a TLS record into segments of one octet.", split_records),
    _attack("empty-records", "300 peers send TLS records without content.", empty_records),
    _attack("split-handshakes", "300 peers greet an octet at a time, at all listeners.", split_handshakes),
    *(
        _attack(f"{name}-greetings", f"Handshakes begun by the hundred at the {name} listener.", _greeted(port), 24)
        for name, port in _PORTS.items()
    ),
)
