"""
One QUIC connection of a client and its calls, one at a time, without I/O and without a clock.

The rules, besides those of :mod:`agtphost.client.conversation`, which hold within a stream:

- Nothing of a request is sent before the server's certificate was verified.
- Each call has its own stream, which ends after the request. A call that is given up is cancelled on its stream,
  and the connection goes on.
- A server that has not answered any datagram within :data:`ANSWER_SECONDS` does not answer by UDP: networks that drop
  UDP say nothing.
- While a call waits, the server is sent a PING every :data:`PING_SECONDS`: address translators forget UDP after 30.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aioquic.quic import events

from agtphost.client.conversation import Conversation
from agtphost.client.errors import CannotConnect, ClientError, TLSRefused
from agtphost.client.quic.core import WINDOW, ClientCore, QuicCredentials
from agtphost.client.quic.errors import Unanswered, convert_end, convert_reset, to_loss
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire.codec import Limits

ANSWER_SECONDS = 3.0
"""For the first datagram of a server: five transmissions."""

PING_SECONDS = 15.0

MOST_UNREACHABLE = 3
"""Reports that the port is closed, one after the other, which end a connection: a single one is easily forged."""


def choose_patience(seconds: float) -> float:
    """
    Return how long the first datagram of a server may take.

    :param seconds: for connecting: half of them are left for other addresses, and to find out what answers by TCP.
    """
    return min(ANSWER_SECONDS, seconds / 2)


class QuicSession:
    """
    A connection to one server; it begins with its handshake.

    :param address: of the server, as datagrams are sent to it.
    :param now: seconds, never going back.
    :param patience: seconds that the first datagram of the server may take.
    """

    def __init__(
        self,
        destination: Destination,
        credentials: QuicCredentials,
        limits: Limits,
        address: Any,
        now: float,
        patience: float = ANSWER_SECONDS,
    ) -> None:
        self._destination = destination
        self._limits = limits
        self._address = address
        self._core = ClientCore(credentials, destination.host)
        self._silent_until = now + patience
        self._ping_at = math.inf
        self._unreachable = 0
        self._conversation: Conversation | None = None
        self._stream = -1
        self._consumed = 0
        self._is_out = False
        self._was_answered = False
        self._is_ending = False
        self._replies: list[Reply] = []
        self._failure: ClientError | None = None
        self.is_ready = False
        """Whether the handshake is over and the server verified."""

        self.fault: ClientError | None = None
        """Why the connection is over; None while it is not."""

        try:
            self._core.connect(address, now=now)
        except ValueError as error:
            raise CannotConnect(f"{destination.host} cannot be the name of a TLS server.") from error

    @property
    def reusable(self) -> bool:
        """Whether another call may be made."""
        return self.is_ready and not (self.fault or self._is_ending or self._is_out or self._has_surplus)

    @property
    def _has_surplus(self) -> bool:
        """Whether octets arrived behind the answer of the last call."""
        return self._conversation is not None and not self._is_out and not self._conversation.reusable

    # Datagrams and time

    def receive(self, datagram: bytes, now: float) -> None:
        """Take a datagram of the server."""
        self._unreachable = 0
        if self.fault is None and self._core.is_reset(datagram):
            self._end(self._to_loss("does not know this connection any more: it was started again"))
            return
        self._run_core(self._core.receive_datagram, datagram, self._address, now=now)

    def note_unreachable(self) -> None:
        """Note that the network says that nothing listens at the server's port."""
        self._unreachable += 1
        if self._core.is_fresh:
            self._end(Unanswered(f"Nothing listens at UDP port {self._destination.port} of {self._destination.host}."))
        elif self._unreachable >= MOST_UNREACHABLE:
            self._end(self._to_loss("is gone"))

    def datagrams(self, now: float) -> list[bytes]:
        """Return the datagrams that have to be sent."""
        found: list[tuple[bytes, Any]] = []
        self._run_core(lambda: found.extend(self._core.datagrams_to_send(now=now)))
        return [octets for octets, _ in found]

    @property
    def due(self) -> float:
        """The next moment for :meth:`act_on_time`."""
        timer = self._core.get_timer()
        due = min(math.inf if timer is None else timer, self._ping_at)
        return min(due, self._silent_until) if self._core.is_fresh else due

    def act_on_time(self, now: float) -> None:
        """Do what the time asks for: send again what was lost, keep the way open, or give up."""
        if self.fault is not None:
            return
        if self._core.is_fresh and now >= self._silent_until:
            self._end(Unanswered(f"No answer by UDP from {self._destination}."))
            return
        if now >= self._ping_at:
            self._ping_at = now + PING_SECONDS
            self._core.send_ping(0)
        self._run_core(self._core.handle_timer, now=now)

    def _run_core(self, function: Callable[..., object], *arguments: Any, **more: Any) -> None:
        """Run a function of the library, and handle what it brings; an exception that is none of QUIC's ends it all."""
        try:
            function(*arguments, **more)
        except Exception as error:
            self._core.close(Code.INTERNAL)
            self._end(self._to_loss("sent what the QUIC library cannot handle", error))
            return
        while (event := self._core.next_event()) is not None:
            if self.fault is None:
                self._handle(event)
        ended = self._core.termination
        if ended is not None and self.fault is None:
            refusal = self._core.refusal
            state = {"is_ready": self.is_ready, "was_used": self._was_answered, "answered": self._is_answered}
            self._end(convert_end(ended, **state) if refusal is None else refusal)

    # Calls

    def ask(self, call: PreparedCall, now: float) -> None:
        """Begin a call on a new stream; only while :attr:`reusable`."""
        if not self.reusable:
            raise AssertionError("a call is made on a connection that is ready, in order, and has no other call")
        conversation = Conversation(self._limits)
        octets = conversation.ask(call)
        self._stream = self._core.get_next_available_stream_id()
        self._conversation, self._consumed, self._failure = conversation, 0, None
        self._replies.clear()
        self._is_out = True
        self._ping_at = now + PING_SECONDS
        self._core.send_stream_data(self._stream, octets, end_stream=True)

    def take(self) -> list[Reply]:
        """
        Return the replies that have arrived; the last is final if :attr:`.Reply.interim` is false.

        :raises agtphost.client.errors.ClientError: if no further reply will arrive.
        """
        replies, self._replies = self._replies, []
        if not replies:
            failure = self._failure or self.fault
            if failure is not None:
                raise failure
        return replies

    def give_up(self) -> None:
        """Cancel the call that is out, if any: its answer is not read."""
        if not self._is_out:
            return
        self._finish()
        self._replies.clear()
        self._conversation = None
        if self.fault is None and self._core.is_open(self._stream):
            self._core.reset_stream(self._stream, Code.CANCELLED)
            if not self._core.has_received_all(self._stream):
                self._core.stop_stream(self._stream, Code.CANCELLED)

    def close(self) -> None:
        """End the connection: the last datagrams say so."""
        self._core.close(Code.DONE)

    def _finish(self) -> None:
        self._is_out, self._ping_at = False, math.inf

    # Events

    def _handle(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.HandshakeCompleted):
            if not self._core.is_verified:  # Never: the library would have skipped the check of the certificate.
                self._core.close(Code.INTERNAL)
                self._end(TLSRefused("The server has shown no certificate.", "Call without QUIC."))
                return
            self.is_ready = True
        elif isinstance(event, events.StreamDataReceived) and event.stream_id == self._stream:
            self._take_octets(event.data, ends=event.end_stream)
        elif isinstance(event, events.StreamReset) and event.stream_id == self._stream:
            self._take_reset(event.error_code)

    def _take_octets(self, octets: bytes, *, ends: bool) -> None:
        conversation = self._conversation
        if conversation is None:
            return
        try:
            if octets:
                self._was_answered = True
                self._consumed += len(octets)
                self._core.widen(self._stream, self._consumed + WINDOW)
                self._note_replies(conversation.receive(octets))
            if ends and self._is_out:
                self._note_replies(conversation.receive(b""))
        except ClientError as error:
            self._fail(error)

    def _note_replies(self, replies: list[Reply]) -> None:
        self._replies.extend(replies)
        if replies and not replies[-1].interim:
            self._finish()

    def _take_reset(self, code: int) -> None:
        conversation = self._conversation
        if conversation is None or not self._is_out:
            return
        self._is_ending = code == Code.ENDING
        self._fail(convert_reset(code, answered=conversation.answered))

    def _fail(self, error: ClientError) -> None:
        """End the call that is out."""
        self._failure = error
        self.give_up()

    # The end

    def _end(self, error: ClientError) -> None:
        if self.fault is None:
            self.fault = error
            self._finish()

    @property
    def _is_answered(self) -> bool:
        """Whether any octet of an answer to the last call arrived."""
        return self._conversation is not None and self._conversation.answered

    def _to_loss(self, what: str, cause: BaseException | None = None) -> ClientError:
        return to_loss(what, answered=self._is_answered, cause=cause)
