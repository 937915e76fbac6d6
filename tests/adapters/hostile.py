"""An HTTP server that misbehaves: real sockets, one fault at a time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from twisted.internet import reactor, task
from twisted.internet.protocol import Factory, Protocol

Script = Callable[["Connection"], None]


def reply(
    connection: Connection, body: bytes, status: str = "200 OK", kind: str = "application/json", more: str = ""
) -> None:
    """A whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    connection.send(head.encode() + body)


class Connection(Protocol):
    """Reads a request and answers by the script of its path."""

    def __init__(self, pages: dict[str, Script], fault: Script, seen: list[bytes]) -> None:
        self.pages, self.fault, self.seen = pages, fault, seen
        self._heard = b""
        self.open = True
        self._loops: list[task.LoopingCall] = []

    def dataReceived(self, data: bytes) -> None:
        self._heard += data
        head, end, body = self._heard.partition(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if not end or (length and len(body) < int(length[0].split(b":")[1])):
            return
        self.seen.append(self._heard)
        self._heard = b""
        path = head.split(b" ")[1].decode()
        self.pages.get(path.partition("?")[0], self.fault)(self)

    def send(self, octets: bytes) -> None:
        """Some octets, if anybody listens."""
        transport: Any = self.transport
        if self.open and transport is not None:
            transport.write(octets)

    def every(self, seconds: float, octets: bytes) -> None:
        """The same octets again and again."""
        loop = task.LoopingCall(self.send, octets)
        self._loops.append(loop)
        loop.start(seconds)

    def hang_up(self) -> None:
        """End the connection."""
        transport: Any = self.transport
        transport.loseConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self.open = False
        for loop in self._loops:
            if loop.running:
                loop.stop()


class Server:
    """One hostile server."""

    def __init__(self) -> None:
        self.pages: dict[str, Script] = {}
        self.seen: list[bytes] = []
        self.fault: Script = lambda connection: None
        self.connections: list[Connection] = []
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = self._build  # type: ignore[method-assign]
        self._listening: Any = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.port: int = self._listening.getHost().port

    def _build(self, address: Any) -> Connection:
        connection = Connection(self.pages, lambda connection: self.fault(connection), self.seen)
        self.connections.append(connection)
        return connection

    def page(self, path: str, value: Any) -> None:
        """A path that is answered well."""
        self.pages[path] = lambda connection: reply(connection, json.dumps(value).encode())

    async def stop(self) -> None:
        """Listen no more, and drop everybody."""
        await self._listening.stopListening()
        for connection in self.connections:
            if connection.open:
                transport: Any = connection.transport
                transport.abortConnection()


@asynccontextmanager
async def hostile() -> AsyncIterator[Server]:
    """A server, gone afterwards."""
    server = Server()
    try:
        yield server
    finally:
        await server.stop()


def _partial(octets: bytes) -> Script:
    def script(connection: Connection) -> None:
        connection.send(octets)
        connection.hang_up()

    return script


def _then_every(octets: bytes, seconds: float, again: bytes) -> Script:
    def script(connection: Connection) -> None:
        connection.send(octets)
        connection.every(seconds, again)

    return script


def _all(body: bytes, **options: Any) -> Script:
    return lambda connection: reply(connection, body, **options)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DEEP = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 200 + b"]" * 200 + b"}"


def deadline(status: int) -> float:
    """Seconds for a call whose fault ends with ``status``: few only where it is the deadline that has to end it."""
    return 0.5 if status == 408 else 30.0


FAULTS: dict[str, tuple[Script, int]] = {
    "silent": (lambda connection: None, 408),
    "hangs up": (lambda connection: connection.hang_up(), 503),
    "slow drip of the head": (_then_every(b"HTTP/1.1 200 OK\r\n", 0.05, b"X-A: b\r\n"), 408),
    "slow drip of the body": (_then_every(HEAD + b"Content-Length: 100000\r\n\r\n", 0.05, b" "), 408),
    "cut in the body": (_partial(HEAD + b"Content-Length: 100\r\n\r\n{"), 503),
    "cut in the head": (_partial(b"HTTP/1.1 200 OK\r\nContent-"), 503),
    "huge": (_all(b'{"a":"' + b"x" * (5 << 20) + b'"}'), 500),
    "endless body": (
        _then_every(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", 0, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        500,
    ),
    "endless interim responses": (_then_every(b"", 0, b"HTTP/1.1 100 Continue\r\n\r\n" * 64), 503),
    "redirect": (_all(b"", status="302 Found", more="Location: http://169.254.169.254/\r\n"), 503),
    "unauthorized": (_all(b"{}", status="401 Unauthorized"), 503),
    "server error": (_all(b"oops", status="500 Error", kind="text/plain"), 503),
    "no HTTP": (_partial(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"), 503),
    "no JSON": (_all(b"<html>"), 500),
    "of another type": (_all(b"<html>", kind="text/html"), 500),
    "empty": (_all(b""), 500),
    "no object": (_all(b"[1]"), 500),
    "twice the same member": (_all(b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}'), 500),
    "nested": (_all(DEEP), 500),
    "not a number": (_all(b'{"jsonrpc":"2.0","id":1,"result":NaN}'), 500),
    "compressed": (_all(b"\x1f\x8b\x08\x00garbage", more="Content-Encoding: gzip\r\n"), 500),
    "a stream unasked": (_all(b"data: {}\n\n", kind="text/event-stream"), 500),
}
"""Each fault, and the status that it is answered with."""

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

STREAM_FAULTS: dict[str, tuple[Script, int]] = {
    "silent stream": (lambda connection: connection.send(STREAM), 408),
    "endless comments": (_then_every(STREAM, 0.05, b": still here\n\n"), 408),
    "garbage": (_then_every(STREAM, 0.05, b"data: garbage\n\n"), 500),
    "endless event": (_then_every(STREAM, 0, b"data: " + b"x" * 65536 + b"\n"), 500),
    "nothing": (_partial(STREAM), 500),
}
"""The same where a stream was asked for."""
