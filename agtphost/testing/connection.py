"""A connection to a host in memory, with real bytes both ways but without a socket."""

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
    """An answer whose record was verified and belongs to this exchange; otherwise no Answer is made."""

    reply: Reply
    """The answer as the client library returns it."""

    record: Mapping[str, Any] = field(repr=False)
    """The payload of the Attribution-Record: ``status``, ``reason``, ``caller_id``, ``identity_assurance``, ..."""

    interim: tuple[Reply, ...] = ()
    """Interim messages of a streaming handler."""

    @property
    def status(self) -> int:
        """The three-digit status code."""
        return self.reply.status

    @property
    def result(self) -> Any:
        """``result`` of the body, or else the whole body; None if the body is not JSON."""
        return self.reply.result

    @property
    def document(self) -> Mapping[str, Any]:
        """The whole body if it is a JSON object; otherwise empty."""
        return self.reply.document

    @property
    def reason(self) -> str:
        """The reason token of a refusal; empty for other answers."""
        return self.reply.reason

    @property
    def explanation(self) -> str:
        """A sentence that explains a refusal; may be empty."""
        return self.reply.explanation

    @property
    def remedy(self) -> str:
        """Advice on how a refused call could succeed; may be empty."""
        return self.reply.remedy

    @property
    def headers(self) -> Headers:
        """All header fields, as in ``headers.get("task-id")``."""
        return self.reply.headers

    @property
    def body(self) -> bytes:
        """The bytes of the body."""
        return self.reply.body


class _Transport:
    """The transport that the host's side of a connection writes to."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection

    def write(self, octets: bytes) -> None:
        self._connection._receive(octets)

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Do nothing, because this transport accepts everything immediately."""

    def unregisterProducer(self) -> None:
        """Do nothing, because no producer was registered."""

    def pauseProducing(self) -> None:
        """Do nothing, because everything that was sent has arrived."""

    def resumeProducing(self) -> None:
        """Do nothing, because the transport never pauses."""

    def loseConnection(self) -> None:
        self._connection.close()

    def abortConnection(self) -> None:
        self._connection.close()


class MemoryConnection:
    """
    A connection of one caller, served by the host's own protocol.

    :param factory: makes the host's side.
    :param clock: schedules the notice that the connection ended.
    :param peer: address and certificate of the caller.
    :param keys: trusted signing keys of records, by ``kid``; without any, records must be unsigned.
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
        """All bytes that the host sent."""

        self.closed = False
        """Whether either side has closed the connection."""

        self._protocol = factory.buildProtocol(IPv4Address("TCP", peer.address, 0))
        assert self._protocol is not None, "the host admits no further connection"
        self._protocol.makeConnection(_Transport(self))
        self._protocol.accept_peer(peer)

    def send(self, octets: bytes) -> None:
        """Send any bytes; the host's output is in :attr:`received`."""
        self._protocol.dataReceived(octets)

    def ask(self, call: PreparedCall) -> Deferred[Answer]:
        """Send a request; the previous one must have been answered."""
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
        """Close the connection, even during a request."""
        if not self.closed:
            self.closed = True
            self._clock.callLater(0, self._protocol.connectionLost, Failure(ConnectionDone()))  # type: ignore[no-untyped-call]

    def _receive(self, octets: bytes) -> None:
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
                    # Report the failure to the waiting test, not to the host, which may be running this code.
                    waiting.errback(Failure())  # type: ignore[no-untyped-call]
                else:
                    waiting.callback(answer)

    def _answer(self, reply: Reply) -> Answer:
        checked = reply.verify(self._keys, require_signature=bool(self._keys))
        assert checked.ok, checked.failures
        assert reply.record is not None
        return Answer(reply=reply, record=jws.parse_unverified(reply.record), interim=tuple(self._interim))
