"""
A load generator that never sleeps: request, response, request, on many TLS connections.

It polls instead of waiting, so that waking it costs the server nothing, and
it counts latencies per request. Run on a core of its own.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_ANSWER = 30.0
"""Seconds that the last answers of a round may take."""


@dataclass
class Tally:
    """What one round measured."""

    requests: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    bad: int = 0
    example: bytes = b""
    """A bad answer."""

    @property
    def rate(self) -> float:
        """Requests per second of wall time."""
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds below which ``share`` of the latencies lie."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def content_length_end(buffer: bytearray) -> int | None:
    """Where the first message of ``buffer`` ends; None while it is incomplete."""
    head = buffer.find(b"\r\n\r\n")
    if head < 0:
        return None
    lower = bytes(buffer[:head]).lower()
    at = lower.find(b"content-length:")
    if at < 0:
        if b"transfer-encoding: chunked" in lower:
            end = buffer.find(b"0\r\n\r\n", head)
            return None if end < 0 else end + 5
        return head + 4
    line_end = lower.find(b"\r\n", at)
    length = int(lower[at + 15 : line_end if line_end > 0 else None])
    total = head + 4 + length
    return total if len(buffer) >= total else None


class Client:
    """One connection with one request out at a time; without a context it is plain TCP."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None, requests: Callable[[], bytes]) -> None:
        self._address = address
        self._context = context
        self._requests = requests
        self.buffer = bytearray()
        self.started = 0.0
        self.connect()

    def connect(self) -> None:
        raw = socket.create_connection(self._address)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls: socket.socket = (
            raw if self._context is None else self._context.wrap_socket(raw, server_hostname="localhost")
        )
        self.tls.setblocking(False)
        self.buffer.clear()

    def send(self) -> None:
        self.started = time.perf_counter()
        self.tls.send(self._requests())

    def receive(self) -> bytes | None:
        """The whole answer, or None while it is incomplete."""
        try:
            while True:
                octets = self.tls.recv(65536)
                if not octets:
                    raise ConnectionError("closed")
                self.buffer += octets
                if not isinstance(self.tls, ssl.SSLSocket) or self.tls.pending() == 0:
                    break
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        end = content_length_end(self.buffer)
        if end is None:
            return None
        answer = bytes(self.buffer[:end])
        del self.buffer[:end]
        return answer


def client_context(ca: Path, cert: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """TLS 1.3 with the given trust anchor and client certificate."""
    context = ssl.create_default_context(cafile=str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def answer_to(port: int, context: ssl.SSLContext | None, octets: bytes) -> bytes:
    """One answer."""
    client = Client(("127.0.0.1", port), context, lambda: octets)
    client.send()
    answer = None
    while answer is None:
        answer = client.receive()
    client.tls.close()
    return answer


def run(
    address: tuple[str, int],
    context: ssl.SSLContext | None,
    requests: Callable[[], bytes],
    *,
    connections: int,
    seconds: float,
    good: bytes,
    mark: Callable[[], None] = lambda: None,
) -> Tally:
    """
    Load a server for a while.

    :param good: what every good answer starts with.
    :param mark: called when all are connected and nothing was sent, and at the end before any of them leaves.
    """
    clients = [Client(address, context, requests) for _ in range(connections)]
    poll = select.epoll()
    by_number = {}
    for client in clients:
        by_number[client.tls.fileno()] = client
        poll.register(client.tls.fileno(), select.EPOLLIN)
    tally = Tally()
    mark()
    for client in clients:
        client.send()
    begun = time.perf_counter()
    until = begun + seconds
    waiting = set(clients)
    # Who has a request out gets its answer, so that nothing of this round is left for the next one.
    while waiting and time.perf_counter() < until + LONGEST_ANSWER:
        for number, _ in poll.poll(0):
            client = by_number[number]
            try:
                answer = client.receive()
            except ConnectionError:
                # A server may end a connection after so many requests; that is not part of the figure.
                poll.unregister(number)
                client.connect()
                del by_number[number]
                by_number[client.tls.fileno()] = client
                poll.register(client.tls.fileno(), select.EPOLLIN)
                client.send()
                continue
            if answer is None:
                continue
            now = time.perf_counter()
            tally.latencies.append(now - client.started)
            tally.requests += 1
            if not answer.startswith(good):
                tally.bad += 1
                tally.example = answer[:400]
            if now < until:
                client.send()
            else:
                waiting.discard(client)
    tally.seconds = time.perf_counter() - begun
    mark()
    for client in clients:
        client.tls.close()
    return tally
