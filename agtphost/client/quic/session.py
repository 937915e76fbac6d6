"""
One QUIC connection of a client and its calls, without I/O and without a clock.

The rules, besides those of :mod:`agtphost.client.conversation`, which hold within a stream:

- Nothing of a request is sent before the server's certificate was verified.
- Each call has its own stream, which ends after the request. A call that is given up is cancelled on its stream,
  and the others go on.
- As many calls run at a time as the server allows streams; the others wait, the first first. A connection on which
  many were cancelled takes no new ones, see :class:`.ResetBudget`.
- A server that shuts down answers the calls that it has begun with. No further ones are made on the connection.
- A server that has not answered any datagram within :data:`ANSWER_SECONDS` does not answer by UDP: networks that drop
  UDP say nothing.
- A server that does not take the proof of the client's address that it has asked for is asked for a connection once
  more, without the proof.
- While a call waits, the server is sent a PING every :data:`PING_SECONDS`: address translators forget UDP after 30. One
  that takes a connection for idle within less than four times as long gets it as much earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from aioquic.quic import events
from aioquic.quic.packet import QuicErrorCode

from agtphost.client.errors import CannotConnect, ClientError, TLSRefused
from agtphost.client.quic.calls import QuicCall
from agtphost.client.quic.core import WINDOW, ClientCore, QuicCredentials
from agtphost.client.quic.errors import Unanswered, convert_end, convert_reset, convert_unsent, is_quics_own, to_loss
from agtphost.client.quic.reset_budget import ResetBudget
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire.codec import Limits

ANSWER_SECONDS = 3.0
"""For the first datagram of a server: five transmissions."""

PING_SECONDS, LEAST_PING_SECONDS = 15.0, 0.5

MOST_UNREACHABLE = 3
"""Reports that the port is closed, one after the other, which end a connection: a single one is easily forged."""


LEAST_SECONDS = 2.0
"""For connecting: in half of less there are not three transmissions, and silence says nothing of the network."""


def choose_patience(seconds: float, *, alone: bool) -> float:
    """
    Return how long the first datagram of a server may take.

    :param seconds: for connecting: half of them are left for other addresses, and to find out what answers by TCP.
    :param alone: whether nothing else is tried: then a time too short to find out anything is used up by connecting.
    """
    return math.inf if alone and seconds < LEAST_SECONDS else min(ANSWER_SECONDS, seconds / 2)


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
        self._credentials = credentials
        self._patience = patience
        self._has_begun_again = False
        self._ping_at = math.inf
        self._heard_at = now
        self._unreachable = 0
        self._waiting: dict[QuicCall, None] = {}
        """The calls without a stream, the oldest first."""

        self._calls: dict[int, QuicCall] = {}
        """The calls whose streams have not ended, by stream."""

        self._changed: dict[QuicCall, None] = {}
        self._resets = ResetBudget()
        self._is_ending = False
        self.was_answered = False
        """Whether the server has answered a call."""

        self.is_ready = False
        """Whether the handshake is over and the server verified."""

        self.fault: ClientError | None = None
        """Why the connection is over; None while it is not."""

        self._begin(now)

    def _begin(self, now: float) -> None:
        self._silent_until = now + self._patience
        self._core = ClientCore(self._credentials, self._destination.host)
        try:
            self._core.connect(self._address, now=now)
        except ValueError as error:
            raise CannotConnect(f"{self._destination.host} cannot be the name of a TLS server.") from error

    @property
    def reusable(self) -> bool:
        """Whether further calls may be made."""
        under_way = len(self._calls) + len(self._waiting)
        return self.is_ready and not (self.fault or self._is_ending) and self._resets.takes_call(under_way)

    # Datagrams and time

    def receive(self, datagram: bytes, now: float) -> None:
        """Take a datagram of the server."""
        self._heard_at = now
        self._unreachable = 0
        if self.fault is None and self._core.is_reset(datagram):
            self._end(partial(to_loss, "does not know this connection any more (after a restart, or a long outage)"))
            return
        self._run_core(self._core.receive_datagram, datagram, self._address, now=now)

    def note_unreachable(self) -> None:
        """Note that the network says that nothing listens at the server's port."""
        self._unreachable += 1
        if self._core.is_fresh:
            place = self._destination
            self._end_with(Unanswered(f"Nothing listens at UDP port {place.port} of {place.host}."))
        elif self._unreachable >= MOST_UNREACHABLE:
            self._end(partial(to_loss, "is gone"))

    def count_silence(self, now: float) -> float:
        """Return for how many seconds no datagram of the server has come; 0 once the connection is over."""
        return now - self._heard_at if self.fault is None else 0.0

    def datagrams(self, now: float) -> list[bytes]:
        """Return the datagrams that have to be sent."""
        found: list[tuple[bytes, Any]] = []
        self._run_core(lambda: found.extend(self._core.datagrams_to_send(now=now)))
        if found and not self.was_answered:
            # The library stops at the first frame that has no room behind the end of the handshake in its datagram: the
            # first request would wait for a round trip.
            self._run_core(lambda: found.extend(self._core.datagrams_to_send(now=now)))
        self._resets.update(now, self._core.is_open)
        return [octets for octets, _ in found]

    @property
    def due(self) -> float:
        """The next moment for :meth:`act_on_time`."""
        timer = self._core.get_timer()
        due = min(math.inf if timer is None else timer, self._ping_at, self._resets.due)
        return min(due, self._silent_until) if self._core.is_fresh else due

    def act_on_time(self, now: float) -> None:
        """Do what the time asks for: send again what was lost, keep the way open, or give up."""
        if self.fault is not None:
            return
        if self._core.is_fresh and now >= self._silent_until:
            self._end_with(Unanswered(f"No answer by UDP from {self._destination}."))
            return
        if now >= self._ping_at:
            self._ping_at = now + self._ping_pause
            self._core.send_ping(0)
        self._resets.update(now, self._core.is_open)
        self._run_core(self._core.handle_timer, now=now)

    def _run_core(self, function: Callable[..., object], *arguments: Any, **more: Any) -> None:
        """Run a function of the library, and handle what it brings; an exception that is none of QUIC's ends it all."""
        try:
            function(*arguments, **more)
        except Exception as error:
            self._core.close(Code.INTERNAL)
            self._end(partial(to_loss, "sent what the QUIC library cannot handle", cause=error))
            return
        while (event := self._core.next_event()) is not None:
            if self.fault is None:
                self._handle(event)
        ended = self._core.termination
        if ended is not None and self.fault is None:
            if self._has_lost_proof(ended):
                self._has_begun_again = True
                self._begin(self._heard_at)
            elif self._core.refusal is not None:
                self._end_with(self._core.refusal)
            else:
                known = {
                    "by_peer": self._core.is_ended_by_peer,
                    "is_ready": self.is_ready,
                    "is_confirmed": self._core.is_confirmed,
                }
                self._end(partial(convert_end, ended, **known, was_used=self.was_answered))
        self._send_waiting()

    def _has_lost_proof(self, ended: events.ConnectionTerminated) -> bool:
        """Return whether the server did not take the proof that it had asked for: without it, it may ask once more."""
        is_refused = self._core.is_ended_by_peer and is_quics_own(ended, QuicErrorCode.INVALID_TOKEN)
        return is_refused and not (self.is_ready or self._has_begun_again)

    @property
    def _ping_pause(self) -> float:
        """Return the seconds from one PING to the next."""
        return min(PING_SECONDS, max(LEAST_PING_SECONDS, self._core.idle_seconds / 4))

    # Calls

    def ask(self, call: PreparedCall, now: float) -> QuicCall:
        """Begin a call, as soon as the server allows another stream; only while :attr:`reusable`."""
        if not self.reusable:
            raise AssertionError("a call is made on a connection that is ready and in order")
        begun = QuicCall(call, self._limits)
        if self._ping_at == math.inf:
            self._ping_at = now + self._ping_pause
        self._waiting[begun] = None
        self._send_waiting()
        return begun

    def _send_waiting(self) -> None:
        """Send the requests that wait for a stream, within what the server allows."""
        while (
            self._waiting
            and self.fault is None
            and self._core.may_open_stream
            and self._resets.allows_call(len(self._calls))
        ):
            call = next(iter(self._waiting))
            del self._waiting[call]
            call.stream = self._core.get_next_available_stream_id()
            self._calls[call.stream] = call
            self._core.send_stream_data(call.stream, call.request, end_stream=True)

    def take_changed(self) -> list[QuicCall]:
        """Return the calls that something has happened to since they were last returned."""
        changed, self._changed = self._changed, {}
        return list(changed)

    def take(self, call: QuicCall) -> list[Reply]:
        """
        Return the replies of a call that have arrived; see :meth:`.QuicCall.take`.

        Only then the server may send more: what it sends ahead of its reader is bounded.
        """
        replies = call.take()
        if replies and call.stream in self._calls:  # No octet comes on one that has ended.
            self._core.widen(call.stream, call.consumed + WINDOW)
        return replies

    def give_up(self, call: QuicCall) -> None:
        """Forget a call, and cancel it if its answer is not complete."""
        self._waiting.pop(call, None)
        self._changed.pop(call, None)
        if call.is_out:
            call.is_out = False
            self._cancel_stream(call)
        self._note_end()

    def _cancel_stream(self, call: QuicCall) -> None:
        if call.stream is None or self._calls.pop(call.stream, None) is None or self.fault is not None:
            return
        if self._core.is_open(call.stream):
            self._core.reset_stream(call.stream, Code.CANCELLED)
            self._resets.add(call.stream)
            if not self._core.has_received_all(call.stream):
                self._core.stop_stream(call.stream, Code.CANCELLED)

    def close(self) -> None:
        """End the connection: the last datagrams say so."""
        self._core.close(Code.DONE)

    def _note_end(self) -> None:
        """Keep the way open no longer once no call is out."""
        if not self._waiting and not any(call.is_out for call in self._calls.values()):
            self._ping_at = math.inf

    # Events

    def _handle(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.HandshakeCompleted):
            if not self._core.is_verified:  # Never: the library would have skipped the check of the certificate.
                self._core.close(Code.INTERNAL)
                self._end_with(TLSRefused("The server has shown no certificate.", "Call without QUIC."))
                return
            self.is_ready = True
        elif isinstance(event, events.StreamDataReceived) and event.stream_id in self._calls:
            self._take_octets(self._calls[event.stream_id], event.data, ends=event.end_stream)
        elif isinstance(event, events.StreamReset) and event.stream_id in self._calls:
            self._take_reset(self._calls[event.stream_id], event.error_code)

    def _take_octets(self, call: QuicCall, octets: bytes, *, ends: bool) -> None:
        assert call.stream is not None
        self.was_answered |= bool(octets)
        try:
            call.receive(octets, ends=ends)
        except ClientError as error:
            self._fail(call, error)
            return
        if not call.has_replies:
            self._core.widen(call.stream, call.consumed + WINDOW)
        self._changed[call] = None
        if call.has_surplus:
            self._retire()
        if ends:
            self._calls.pop(call.stream, None)
        self._note_end()

    def _take_reset(self, call: QuicCall, code: int) -> None:
        if code == Code.ENDING:
            self._retire()
        self._fail(call, convert_reset(code, answered=call.is_answered))

    def _fail(self, call: QuicCall, error: ClientError) -> None:
        """End a call without a reply."""
        self._changed[call] = None
        call.fail(error)
        self._cancel_stream(call)
        self._note_end()

    def _retire(self) -> None:
        """Make no further calls, those that wait for a stream included; those that have one may end."""
        self._is_ending = True
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            self._fail(call, convert_reset(Code.ENDING, answered=False))

    # The end

    def _end_with(self, error: ClientError) -> None:
        self._end(lambda *, answered: error)

    def _end(self, to_error: Callable[..., ClientError]) -> None:
        """
        End the connection.

        :param to_error: makes the error of a call, given whether any octet of its answer had arrived.
        """
        if self.fault is not None:
            return
        self.fault = to_error(answered=False)
        for call in (*self._calls.values(), *self._waiting):
            if call.is_out:
                error = to_error(answered=call.is_answered)
                call.fail(convert_unsent(error) if call.stream is None else error)
                self._changed[call] = None
        self._calls.clear()
        self._waiting.clear()
        self._ping_at = math.inf
