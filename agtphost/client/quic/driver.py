"""What both clients with an event loop do with a QUIC session: its timers, its datagrams, and its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agtphost.client.attempts import Timer
from agtphost.client.connections import Stream
from agtphost.client.delivery import Done
from agtphost.client.quic.calls import QuicCall
from agtphost.client.quic.errors import ConnectionRefused, Unanswered, explain_silence, tls_place
from agtphost.client.quic.session import QuicSession
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.tls import cannot_connect

C = TypeVar("C")

MISSES = (ConnectionRefused, Unanswered, OSError)
"""The errors after which other addresses of a host are tried; what a host says says more than silence."""

MOST_PLACES = 16
"""Addresses of a name that are tried: while all are silent, twelve handshakes are under way."""

SHORTEST = 0.001
"""Seconds: a timer that is rounded to its own past does not spin."""


class QuicDriver:
    """
    Drives a session on an event loop.

    :param clock: seconds, never going back.
    :param later: calls a function after so many seconds.
    :param send: sends a datagram.
    :param note_ready: called once, when calls may be made.
    :param note_end: called once, when the connection is over and its last datagrams are sent.
    """

    def __init__(
        self,
        session: QuicSession,
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], object]], Timer],
        send: Callable[[bytes], object],
        note_ready: Callable[[], object],
        note_end: Callable[[], object],
    ) -> None:
        self.session = session
        self._clock = clock
        self._later = later
        self._send_datagram = send
        self._note_ready = note_ready
        self._note_end = note_end
        self._calls: dict[QuicCall, tuple[Done, Stream | None]] = {}
        self._timer: Timer | None = None
        self._flushing: Timer | None = None
        self._was_ready = False
        self.is_over = False
        """Whether the connection has ended."""

        self.can_send = True
        """Whether datagrams can be sent now; else they wait."""

    @property
    def reusable(self) -> bool:
        """Whether further calls may be made."""
        return not self.is_over and self.session.reusable

    def count_silence(self) -> float:
        """Return for how many seconds no datagram of the server has come; 0 once the connection is over."""
        return self.session.count_silence(self._clock())

    # Calls

    def begin(self, call: PreparedCall, stream: Stream | None, done: Done) -> QuicCall:
        """
        Make a call; only while :attr:`reusable`.

        :param stream: takes interim replies.
        :param done: called once with the final reply, or with why there is none, unless the call is given up.
        """
        begun = self.session.ask(call, self._clock())
        self._calls[begun] = done, stream
        self._wake()
        return begun

    def give_up(self, call: QuicCall) -> None:
        """Cancel a call, if it has no final reply yet; the others go on."""
        if self._calls.pop(call, None) is not None:
            self.session.give_up(call)
            self._wake()

    def close(self) -> None:
        """End the connection, and tell the server."""
        if not self.is_over:
            self.session.close()
            self._end()

    # What the event loop reports

    def receive(self, datagram: bytes) -> None:
        """Take a datagram of the server."""
        self.session.receive(datagram, self._clock())
        self._act_on_state()

    def note_unreachable(self) -> None:
        """Take a report that nothing listens at the server's port."""
        self.session.note_unreachable()
        self._act_on_state()

    def flush(self) -> None:
        """Send what there is, and set the timer."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self.can_send or self.is_over:
            return
        self._send()
        if self.session.fault is not None:
            self._act_on_state()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._later(max(SHORTEST, self.session.due - self._clock()), self._act_on_time)

    # What happens then

    def _act_on_time(self) -> None:
        self._timer = None
        self.session.act_on_time(self._clock())
        self._act_on_state()

    def _act_on_state(self) -> None:
        """Hand out what has arrived, and end a connection that is over."""
        has_failed = self.session.fault is not None
        if self.session.is_ready and not self._was_ready and not has_failed:
            self._was_ready = True
            self._note_ready()
        for call in self.session.take_changed():
            self._deliver(call)
        if has_failed:
            self._end()
        else:
            self._wake()

    def _deliver(self, call: QuicCall) -> None:
        try:
            for reply in self.session.take(call):
                self._hand_out(call, reply)
        except Exception as error:
            # Also one of the caller's own, of which the call is given up.
            self.session.give_up(call)
            self._finish(call, error)

    def _hand_out(self, call: QuicCall, reply: Reply) -> None:
        if not reply.interim:
            self._finish(call, reply)
            return
        stream = self._calls[call][1] if call in self._calls else None
        if stream is not None:
            stream(reply)

    def _finish(self, call: QuicCall, found: Any) -> None:
        if call in self._calls:
            done, _ = self._calls.pop(call)
            done(found)

    def _wake(self) -> None:
        """Send what there is at the end of this turn of the event loop."""
        if self._flushing is None and not self.is_over:
            self._flushing = self._later(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flushing = None
        self.flush()

    def _send(self) -> None:
        for octets in self.session.datagrams(self._clock()):
            self._send_datagram(octets)

    def _end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        for waiting in (self._timer, self._flushing):
            if waiting is not None:
                waiting.cancel()
        self._timer = self._flushing = None
        if self.can_send:
            self._send()
        self._note_end()


async def await_first(
    first: Awaitable[C],
    destination: Destination,
    answers_by_tcp: Callable[[Destination], Awaitable[bool]],
    tls_port: int | None,
) -> C:
    """
    Return the connection to the first address of a host that answers.

    :param first: has it, or raises one of :data:`MISSES` where no address answers.
    :param answers_by_tcp: finds out whether TLS's place is there, where no address answers.
    :param tls_port: as the ``connect`` of each client has it.
    :raises agtphost.client.errors.CannotConnect: if no server answers there by UDP, or none takes a connection.
    """
    try:
        return await first
    except ConnectionRefused:
        raise
    except MISSES as error:
        silent = error if isinstance(error, Unanswered) else cannot_connect(error, destination)
    if tls_port is None:
        raise silent
    is_there = await answers_by_tcp(tls_place(destination, tls_port))
    raise explain_silence(destination, tls_port, is_there=is_there) from silent
