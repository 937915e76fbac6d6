"""A dispatcher and a transport for tests of connections, without network and without time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.iagtp import IDispatcher
from agtphost.identity.peer import Peer
from agtphost.protocols import AGTPServerFactory, ConnectionLimits
from agtphost.protocols.connection import ServerConnection
from agtphost.vocabulary.reasons import Reason
from agtphost.wire import Connection, Headers, Request, Response, Role, Signal

Handler = Callable[[Request, Peer, Any], Awaitable[Response]]


def reply(request: Request, body: bytes = b"", *, status: int = 200, close: bool = False) -> Response:
    """A response that carries its request's Task-ID."""
    fields = [("Task-ID", request.headers.get("task-id") or "none")]
    if body:
        fields.append(("Content-Type", "text/plain"))
    return Response(status=status, headers=Headers(fields), body=body, close=close)


@implementer(IDispatcher)
class FakeDispatcher:
    """
    Answers as it is told.

    :param handler: None: the test answers, through ``waiting``.
    """

    def __init__(self, handler: Handler | None = None) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        self.peers: list[Peer] = []
        self.interims: list[Any] = []
        self.refusals: list[tuple[str, int, bytes]] = []
        self.waiting: list[Deferred[Response]] = []

    def dispatch(self, request: Request, peer: Peer, interim: Any = None) -> Awaitable[Response]:
        self.requests.append(request)
        self.peers.append(peer)
        self.interims.append(interim)
        if self.handler is not None:
            return self.handler(request, peer, interim)
        answer: Deferred[Response] = Deferred()
        self.waiting.append(answer)
        return answer

    def refuse(self, reason: Reason, explanation: str, peer: Peer, line: bytes = b"") -> Awaitable[Response]:
        status = int(reason.statuses[0])
        self.refusals.append((reason, status, line))
        return succeed(Response(status=status, headers=Headers([("X-Reason", reason)])))

    def turn_away(self, request: Request, refusal: Refusal, peer: Peer) -> Awaitable[Response]:
        return self.refuse(refusal.reason, refusal.explanation, peer)

    def answer(self, body: bytes = b"", **options: Any) -> None:
        """Answer the oldest request that waits."""
        number = len(self.requests) - len(self.waiting)
        self.waiting.pop(0).callback(reply(self.requests[number], body, **options))


def at_once(request: Request, peer: Peer, interim: Any) -> Awaitable[Response]:
    """A handler that has nothing to wait for."""
    return succeed(reply(request))


class Wire(StringTransport):
    """
    A transport whose TLS handshake is complete once the test says so.

    It tells its producer to pause as the real one does, keeps what was
    written one by one, and lists what was asked of it.
    """

    mark = 65_536

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.writes: list[bytes] = []
        self.unsent = 0
        self.certificate: Any = None
        self.server_name: bytes | None = b"Host.Example"
        self.protocol: ServerConnection | None = None

    def getHandle(self) -> Any:
        return SimpleNamespace(get_peer_certificate=lambda: self.certificate, get_servername=lambda: self.server_name)

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes.append(data)
        self.unsent += len(data)
        if self.unsent > self.mark and self.producer is not None:
            self.producer.pauseProducing()

    def take(self) -> None:
        """The peer reads everything that was written."""
        self.unsent = 0
        if self.producer is not None:
            self.producer.resumeProducing()

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        self.calls.append("resume")

    def loseConnection(self) -> None:
        self.calls.append("lose")

    def abortConnection(self) -> None:
        self.calls.append("abort")
        assert self.protocol is not None
        self.protocol.connectionLost(Failure(ConnectionDone()))


class Link:
    """One connection of a factory, on a transport and a clock of the test's."""

    def __init__(
        self,
        dispatcher: FakeDispatcher,
        limits: ConnectionLimits | None = None,
        *,
        secured: bool = True,
        factory: AGTPServerFactory | None = None,
    ) -> None:
        self.clock = Clock()
        self.dispatcher = dispatcher
        self.factory = factory or AGTPServerFactory(dispatcher, limits or ConnectionLimits(), self.clock)
        self.connection: ServerConnection = self.factory.buildProtocol(None)
        self.transport = Wire()
        self.transport.protocol = self.connection
        self.connection.makeConnection(self.transport)
        if secured:
            self.connection.handshakeCompleted()

    def receive(self, octets: bytes) -> None:
        """The peer sends."""
        self.connection.dataReceived(octets)

    def wait(self, seconds: float) -> None:
        """Time passes, with a look at the deadlines."""
        self.clock.advance(seconds)
        self.factory.sweep()

    def responses(self) -> list[Response]:
        """Whole responses written so far."""
        return parse(self.transport.value())

    @property
    def calls(self) -> list[str]:
        """What was asked of the transport."""
        return self.transport.calls


def parse(octets: bytes) -> list[Response]:
    """The responses that ``octets`` are, whoever asked for them."""
    client = Connection(Role.CLIENT)
    for _ in range(octets.count(b"AGTP/1.0 ") + 1):
        client.send(Request(method="QUERY"))
    if octets:
        client.receive(octets)
    found = []
    while isinstance(event := client.next_event(), Response):
        found.append(event)
    assert event is Signal.NEED_DATA, event
    return found


def ask(number: int | str = 1, *, body: bytes = b"", method: str = "QUERY") -> bytes:
    """The octets of one request."""
    fields = f"Task-ID: task-{number}\r\n"
    if body:
        fields += "Content-Type: text/plain\r\n"
    return f"AGTP/1.0 {method} /\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


def task_ids(responses: list[Response]) -> list[str]:
    """What each response answers, ``task-`` cut off."""
    return [(response.headers.get("task-id") or "").removeprefix("task-") for response in responses]
