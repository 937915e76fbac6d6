"""
One side of one AGTP connection, without I/O: core v08 section 5.4.1.

How it works. Octets go in by :meth:`Connection.receive`, messages come out of
:meth:`Connection.next_event`, octets to write are what :meth:`Connection.send`
returns. The rules:

- A server gets one request at a time. From a request to its final response nothing
  is parsed, even if more has arrived: answers cannot be reordered, and a peer that
  never reads makes no work.
- A client may have any number of requests out; responses come in order.
- The first framing error ends reading; a connection is never resynchronised. A
  server may then send one response.
- A peer that ended its side is gone. What a server has not parsed by then it never
  parses; a client still gets the responses that arrived whole.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from agtphost.errors import LocalProtocolError, RemoteProtocolError
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.codec import Limits, serialize_request, serialize_response
from agtphost.wire.events import Request, Response, Signal
from agtphost.wire.readers import LENIENT_REQUEST, RESPONSE, STRICT_REQUEST, MessageReader


class Role(Enum):
    """The side of a connection that this program is on."""

    SERVER = "server"
    """Receives requests, sends responses."""

    CLIENT = "client"
    """Sends requests, receives responses."""


class _State(Enum):
    READING = "reads messages; a client also sends"
    ANSWERING = "server: a request is out, its final response is not sent"
    REFUSING = "server: framing is lost, one response may be sent"
    CLOSED = "nothing more in either direction"


_DEFAULTS = Limits()


class Connection:
    """
    The framing of one connection.

    :param role: the side that this program is on.
    :param limits: sizes that the peer may make us hold.
    :param strict_request_line: server only: refuse a request line of two tokens, and a request without
        Content-Length, instead of reading them as path ``/`` and as no body (design decision 2).
    """

    def __init__(self, role: Role, limits: Limits = _DEFAULTS, *, strict_request_line: bool = False) -> None:
        self._server = role is Role.SERVER
        self._state = _State.READING
        self._buffer = bytearray()
        self._ended = False
        self._unanswered = 0
        self._reader: MessageReader[Any, Request] | MessageReader[Any, Response]
        if self._server:
            self._reader = MessageReader(STRICT_REQUEST if strict_request_line else LENIENT_REQUEST, limits)
        else:
            self._reader = MessageReader(RESPONSE, limits)

    @property
    def buffered_octets(self) -> int:
        """The number of octets received that are not yet part of a yielded message."""
        return len(self._buffer)

    @property
    def mid_message(self) -> str | None:
        """
        ``"header"`` or ``"body"`` while the peer owes the rest of a message, else None.

        None also while a request is unanswered: what is buffered then waits for the host.
        """
        if self._state is not _State.READING:
            return None
        if self._reader.in_body:
            return "body"
        return "header" if self._buffer else None

    @property
    def line(self) -> bytes:
        """
        First line, CRLF included, of the message being read; empty while it has not arrived whole.

        After a RemoteProtocolError: that of the refused message.
        """
        return self._reader.line

    @property
    def is_closed(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._state is _State.CLOSED

    def receive(self, octets: bytes) -> None:
        """
        Take what arrived.

        :param octets: as they came; ``b""`` says that the peer ended its side. Dropped after the last event.
        """
        if octets:
            state = self._state
            if state is _State.READING or state is _State.ANSWERING:
                self._buffer += octets
        elif self._server:
            self._close()
        else:
            self._ended = True

    def next_event(self) -> Request | Response | Signal:
        """
        Return the next message, or a signal that tells why there is none now.

        :raises RemoteProtocolError: once; from then on the answer is CLOSED.
        """
        if self._state is _State.READING:
            return self._read()
        return Signal.PAUSED if self._state is _State.ANSWERING else Signal.CLOSED

    def _read(self) -> Request | Response | Signal:
        if self._buffer or self._reader.in_body:
            try:
                message = self._reader.read(self._buffer)
                if message is not None:
                    self._note(message)
                    return message
                self._refuse_truncated()
            except RemoteProtocolError:
                self._buffer.clear()
                self._state = _State.REFUSING if self._server else _State.CLOSED
                raise
        if self._ended:
            self._close()
            return Signal.CLOSED
        return Signal.NEED_DATA

    def _note(self, message: Request | Response) -> None:
        """Remember that a request awaits its response, or that a response came."""
        if isinstance(message, Request):
            self._state = _State.ANSWERING
        elif not self._unanswered:
            raise RemoteProtocolError(Reason.UNEXPECTED_RESPONSE, "No request was sent that this could answer.")
        elif message.status != 202:
            # A 202 may be interim (design decision 11): only the caller of the request knows.
            self._unanswered -= 1

    def _refuse_truncated(self) -> None:
        if self._ended:
            raise RemoteProtocolError(Reason.INCOMPLETE_MESSAGE, "The connection ended within a response.")

    def send(self, message: Response | Request, *, final: bool = True) -> bytes:
        """
        Return the octets to write for ``message``.

        :param final: False for an interim response: the request stays unanswered.
        :raises LocalProtocolError: if it is malformed or out of turn; then nothing has changed.
        """
        if self._state is _State.CLOSED:
            raise LocalProtocolError("The connection is closed.")
        if isinstance(message, Response):
            return self._send_response(message, final)
        if self._server:
            raise LocalProtocolError("A server sends responses only.")
        octets = serialize_request(message)
        self._unanswered += 1
        return octets

    def _send_response(self, response: Response, final: bool) -> bytes:
        if not self._server:
            raise LocalProtocolError("A client sends requests only.")
        ends = response.close or self._state is _State.REFUSING
        if not final and (ends or self._state is not _State.ANSWERING):
            raise LocalProtocolError("An interim response belongs to a request and ends nothing.")
        if self._state is _State.READING and not response.close:
            raise LocalProtocolError("Without a request, the only response is one that ends the connection.")
        octets = serialize_response(response)
        if ends:
            self._close()
        elif final:
            self._state = _State.READING
        return octets

    def _close(self) -> None:
        self._state = _State.CLOSED
        self._buffer.clear()
