"""
One connection's exchanges, one at a time, without I/O.

The rules:

- A request is out until its final response came; then the connection can serve again.
- Interim responses (202 with Continuation-Token) belong to the request that is out.
- Octets while nothing is out, or behind a final response, mean that the two
  sides disagree about where messages end: the connection is not used again.
- Nothing is ever half-closed: the end of a request is its Content-Length.
- A response with ``Connection: close`` is the last one: a further request could be lost unanswered.
"""

from __future__ import annotations

from agtphost.client.errors import ConnectionLost, ProtocolBroken
from agtphost.client.reply import Reply, is_interim, reply_of
from agtphost.client.requests import PreparedCall
from agtphost.client.terminal import escape
from agtphost.errors import RemoteProtocolError
from agtphost.wire.codec import Limits
from agtphost.wire.connection import Connection, Role
from agtphost.wire.events import Response, Signal

CLIENT_LIMITS = Limits(header_line=16384, header_block=65536, body=17 << 20)
"""More than a host takes: records grow with what they name, and results are larger than requests."""


class Conversation:
    """
    The exchanges of one connection.

    :param limits: sizes that the server may make this side hold.
    """

    def __init__(self, limits: Limits = CLIENT_LIMITS) -> None:
        self._wire = Connection(Role.CLIENT, limits)
        self._call: PreparedCall | None = None
        self._interims = 0
        self._usable = True
        self.answered = False
        """Whether any octet arrived since the request that is out, or was last out."""

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._usable and self._call is None

    def ask(self, call: PreparedCall) -> bytes:
        """Return the octets to send; only while :attr:`reusable`."""
        octets = self._wire.send(call.request)
        self._call = call
        self._interims = 0
        self.answered = False
        return octets

    def receive(self, octets: bytes) -> list[Reply]:
        """
        Take what arrived.

        :param octets: ``b""`` says that the server ended the connection.
        :return: complete replies in order; the last is final if :attr:`Reply.interim` is false.
        :raises ProtocolBroken: for octets that are not AGTP.
        :raises ConnectionLost: if the connection ended while a request was out.
        """
        if octets:
            self.answered = True
            if self._call is None:
                self._usable = False
                return []
        self._wire.receive(octets)
        try:
            return self._events()
        except RemoteProtocolError as error:
            self._usable = False
            if error.reason == "incomplete-message":
                raise _lost_error(answered=True) from None
            raise ProtocolBroken(
                f"The server's answer is not AGTP: {escape(error.explanation)}",
                "Check that an AGTP host listens there.",
            ) from error

    def _events(self) -> list[Reply]:
        replies: list[Reply] = []
        while self._call is not None:
            event = self._wire.next_event()
            if isinstance(event, Response):
                replies.append(self._reply(self._call, event))
            elif event is Signal.CLOSED:
                self._usable = False
                raise _lost_error(answered=self.answered)
            else:
                return replies
        if self._wire.buffered_octets:
            self._usable = False
        return replies

    def _reply(self, call: PreparedCall, response: Response) -> Reply:
        request = call.request
        reply = reply_of(
            response,
            line=request.line,
            body=request.body,
            agent_id=call.agent_id,
            caller_id=call.caller_id,
            interims=self._interims,
        )
        if is_interim(response.status, response.headers):
            self._interims += 1
        else:
            self._call = None
            self._usable &= response.headers.get("connection") != "close"
        return reply


def _lost_error(*, answered: bool) -> ConnectionLost:
    what = "within its answer" if answered else "before it answered"
    return ConnectionLost(
        f"The server ended the connection {what}.",
        "Whether it carried the request out is unknown; repeat it with an Idempotency-Key only.",
        answered=answered,
    )
