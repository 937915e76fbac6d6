"""One connection to a host in memory: real octets both ways, and no socket."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from agtphost.client.conversation import Conversation
from agtphost.client.reply import Reply
from agtphost.client.requests import PreparedCall
from agtphost.identity import jws
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import Peer
from agtphost.protocols.server import AGTPServerFactory
from agtphost.wire.headers import Headers


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back; its record is genuine and the record of this very exchange, or there is no Answer."""

    reply: Reply
    """The same as the client library gives it."""

    record: Mapping[str, Any] = field(repr=False)
    """What the Attribution-Record says: ``status``, ``reason``, ``caller_id``, ``identity_assurance`` and others."""

    interim: tuple[Reply, ...] = ()
    """What a streaming handler sent ahead."""

    @property
    def status(self) -> int:
        """The three-digit code."""
        return self.reply.status

    @property
    def result(self) -> Any:
        """``result`` of the body, else the whole body; None where it is no JSON."""
        return self.reply.result

    @property
    def document(self) -> Mapping[str, Any]:
        """The whole body where it is a JSON object; otherwise empty."""
        return self.reply.document

    @property
    def reason(self) -> str:
        """The token of a refusal; empty where there is none."""
        return self.reply.reason

    @property
    def explanation(self) -> str:
        """One sentence on a refusal; may be empty."""
        return self.reply.explanation

    @property
    def remedy(self) -> str:
        """What would make a refused call succeed; may be empty."""
        return self.reply.remedy

    @property
    def headers(self) -> Headers:
        """All fields; ``headers.get("task-id")``."""
        return self.reply.headers

    @property
    def body(self) -> bytes:
        """The octets."""
        return self.reply.body


class _Transport:
    """What the host's side of a connection writes to."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection

    def write(self, octets: bytes) -> None:
        self._connection._received(octets)

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Everything is taken at once: nobody is told to wait."""

    def unregisterProducer(self) -> None:
        """See above."""

    def pauseProducing(self) -> None:
        """What is sent is there already."""

    def resumeProducing(self) -> None:
        """See above."""

    def loseConnection(self) -> None:
        self._connection.close()

    def abortConnection(self) -> None:
        self._connection.close()


class MemoryConnection:
    """
    One caller's connection, which the host's own protocol serves.

    :param factory: makes the host's side.
    :param clock: when the other side is told of the end.
    :param peer: who connects.
    :param keys: whose records are believed, by ``kid``; none believes unsigned ones.
    """

    def __init__(
        self, factory: AGTPServerFactory, clock: IReactorTime, peer: Peer, keys: Mapping[str, VerifyingKey]
    ) -> None:
        self._clock = clock
        self._keys = keys
        self._conversation = Conversation()
        self._waiting: deque[Deferred[Answer]] = deque()
        self._interim: list[Reply] = []
        self.peer = peer
        self.received = bytearray()
        """Every octet that the host sent."""

        self.closed = False
        """Whether either side has ended it."""

        self._protocol = factory.buildProtocol(IPv4Address("TCP", peer.address, 0))
        assert self._protocol is not None, "the host admits no further connection"
        self._protocol.makeConnection(_Transport(self))
        self._protocol.accept_peer(peer)

    def send(self, octets: bytes) -> None:
        """Send anything at all; what comes back is in :attr:`received`."""
        self._protocol.dataReceived(octets)

    def ask(self, call: PreparedCall) -> Deferred[Answer]:
        """Send a request; one at a time."""
        answer: Deferred[Answer] = Deferred()
        self._waiting.append(answer)
        self._interim = []
        self.send(self._conversation.ask(call))
        return answer

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return not self.closed and self._conversation.reusable

    def close(self) -> None:
        """End it, whatever goes on."""
        if not self.closed:
            self.closed = True
            self._clock.callLater(0, self._protocol.connectionLost, Failure(ConnectionDone()))  # type: ignore[no-untyped-call]

    def _received(self, octets: bytes) -> None:
        self.received += octets
        if not self._waiting:
            return
        for reply in self._conversation.receive(octets):
            if reply.interim:
                self._interim.append(reply)
            else:
                waiting = self._waiting.popleft()
                try:
                    answer = self._answer(reply)
                except Exception:
                    # Whoever waits hears it, and not the host, whose turn it may be.
                    waiting.errback(Failure())  # type: ignore[no-untyped-call]
                else:
                    waiting.callback(answer)

    def _answer(self, reply: Reply) -> Answer:
        checked = reply.verify(self._keys, require_signature=bool(self._keys))
        assert checked.ok, checked.failures
        assert reply.record is not None
        return Answer(reply=reply, record=jws.parse_unverified(reply.record), interim=tuple(self._interim))
