"""Sessions of the handshake era over Streamable HTTP: opened by ``initialize``, ended by DELETE or by disuse."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import NOT_DONE_YET

from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.mcp import messages
from agtphost.mcp.connection import NO_STREAM, ClientConnection
from agtphost.mcp.journal import SessionEvents, StreamJournal
from agtphost.mcp.messages import INVALID_REQUEST, McpFault, Message
from agtphost.mcp.request_checks import is_enveloped
from agtphost.mcp.revisions import RESUMABLE, UNNAMED, is_since
from agtphost.mcp.server import Server
from agtphost.mcp.stream import EventStreamAnswer, Heartbeats
from agtphost.mcp.streamable_http import EVENTS, JSON, SESSION_REMEDY, accepts, fields_of, proof, refusal, refuse_unfit

SESSION = "mcp-session-id"
RETRY_MILLISECONDS = 500
"""Milliseconds that clients whose stream broke should wait before they resume it."""


class McpSession:
    """
    A session of one client.

    :param owner: the client that it belongs to; others do not find it.
    :param place: the server that it was opened for; None: all servers.
    :param beats: keep its streams open.
    """

    def __init__(
        self, session_id: str, owner: str, place: str | None, server: Server, events: SessionEvents, beats: Heartbeats
    ) -> None:
        self.session_id, self.owner, self.place = session_id, owner, place
        self._beats, self._clock = beats, beats.clock
        self._events = events
        self._numbers = itertools.count(1)
        self._streams: dict[str, EventStreamAnswer] = {}
        self._answers_left: dict[str, int] = {}  # number of answers still to come, of streams with several
        self.connection = ClientConnection(server, self.deliver, tells_cancelled=True)
        self.last_used = self._clock.seconds()
        self.has_ended = False

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The header fields of every answer."""
        return (("Mcp-Session-Id", self.session_id),)

    def is_idle(self, seconds: float) -> bool:
        """Return whether the session was unused for so long; an open stream counts as use."""
        return not self._streams and not self.connection.running and self._clock.seconds() - self.last_used > seconds

    # Messages of its client

    def post(self, request: BoundedRequest, found: Sequence[Message]) -> bytes | int:
        """Handle one message, or those of a batch, whose answers come on one stream."""
        self.last_used = self._clock.seconds()
        asked = [message for message in found if message.is_request]
        enveloped = next((message for message in asked if is_enveloped(message)), None)
        if enveloped is not None:
            fault = McpFault(INVALID_REQUEST, "This session began with a handshake: requests have no envelope in it.")
            return tail_of(request, 400, messages.encode_error(enveloped.id, fault), *self.fields, kind=JSON)
        for message in found:
            if not message.is_request:
                (self.connection.take_notification if message.method else self.connection.take_answer)(message)
        if not asked:
            return tail_of(request, 202, b"", *self.fields)
        name = str(next(self._numbers))
        stream = self._attach(request, name)
        revision = field_of(request, "mcp-protocol-version") or UNNAMED
        stream.begin(*self.fields)
        if is_since(revision, RESUMABLE):
            stream.send(b"", self._events.add(name, b""), retry=RETRY_MILLISECONDS)
        if len(asked) > 1:
            self._answers_left[name] = len(asked)
        for message in asked:
            self.connection.request(message, name, fields_of(request))
        return NOT_DONE_YET

    def get(self, request: BoundedRequest) -> bytes | int:
        """Open the stream of messages that belong to no request; or resume a stream that broke."""
        self.last_used = self._clock.seconds()
        if not accepts(request)[1]:
            return refusal(request, 406, McpFault(INVALID_REQUEST, f"Accept {EVENTS}."), *self.fields)
        last = field_of(request, "last-event-id")
        if last:
            return self._resume(request, last)
        if NO_STREAM in self._streams:
            fault = McpFault(INVALID_REQUEST, "Conflict: a session has one such stream at a time.")
            return refusal(request, 409, fault, *self.fields)
        self._attach(request, NO_STREAM).begin(*self.fields)
        return NOT_DONE_YET

    def _resume(self, request: BoundedRequest, last: str) -> int:
        event = self._events.find(last)
        if event is None or event.last:
            # A complete stream has no further messages, and ids of another session are unknown here.
            stream = EventStreamAnswer(request, self._beats)
            stream.begin(*self.fields)
            stream.finish()
            return NOT_DONE_YET
        former = self._streams.pop(event.stream, None)
        if former is not None:
            former.finish()
        stream = self._attach(request, event.stream)
        stream.begin(*self.fields)
        for key, missed in self._events.list_after(last):
            if missed.message:
                stream.send(missed.message, key)
            if missed.last:
                self._detach(event.stream, stream)
                stream.finish()
        return NOT_DONE_YET

    # Messages to its client

    def _attach(self, request: BoundedRequest, name: str) -> EventStreamAnswer:
        stream = EventStreamAnswer(request, self._beats, lambda: self._detach(name, stream))
        self._streams[name] = stream
        return stream

    def _detach(self, name: str, stream: EventStreamAnswer) -> None:
        self.last_used = self._clock.seconds()
        if self._streams.get(name) is stream:
            del self._streams[name]

    def deliver(self, name: str, octets: bytes, last: bool) -> None:
        """Deliver a message of a stream to its client, or keep it for the client's return."""
        if self.has_ended:
            return
        if last and (owed := self._answers_left.pop(name, 1)) > 1:
            self._answers_left[name] = owed - 1
            last = False
        key = self._events.add(name, octets, last=last)
        stream = self._streams.get(name)
        if stream is not None and last:
            self._detach(name, stream)
            stream.finish(octets, key)
        elif stream is not None:
            stream.send(octets, key)

    def end_listening(self) -> None:
        """End the stream of messages that belong to no request."""
        stream = self._streams.pop(NO_STREAM, None)
        if stream is not None:
            stream.finish()

    def end(self) -> None:
        """Cancel its requests and end its streams."""
        if not self.has_ended:
            self.connection.end()
            self.has_ended = True
            for stream in list(self._streams.values()):
                stream.finish()
            self._streams.clear()
            self._events.end()


class McpSessions:
    """
    The table of the sessions of all callers.

    :param most: the most at a time; one more is answered 503.
    :param most_of_one: the most of one caller.
    :param idle: seconds that one may be unused.
    """

    def __init__(self, clock: IReactorTime, *, most: int, most_of_one: int, idle: float) -> None:
        self._clock, self._beats = clock, Heartbeats(clock)
        self._most, self._most_of_one, self._idle = most, most_of_one, idle
        self._sessions: dict[str, McpSession] = {}
        self.journal = StreamJournal()
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._sessions)

    def list_of_owner(self, owner: str) -> list[McpSession]:
        """Return the sessions of one caller."""
        return [session for session in self._sessions.values() if session.owner == owner]

    def take(self, request: BoundedRequest, owner: str, place: str | None, server: Callable[[], Server]) -> bytes | int:
        """
        Answer one HTTP request of the handshake era.

        :param owner: the caller.
        :param place: the server that it is for; a session is valid for one place only.
        """
        if request.method not in (b"POST", b"GET", b"DELETE"):
            said = McpFault(INVALID_REQUEST, "A session takes POST, GET and DELETE only.")
            return refusal(request, 405, said, ("Allow", "GET, POST, DELETE"))
        named = field_of(request, SESSION)
        session = None
        if named is not None:
            session = self._sessions.get(named)
            if session is None or (session.owner, session.place) != (owner, place):
                return refusal(request, 404, McpFault(INVALID_REQUEST, "Session not found"))
        if request.method == b"POST":
            return self._post(request, session, owner, place, server)
        if session is None:
            missing = McpFault(INVALID_REQUEST, "Bad Request: Mcp-Session-Id is missing.")
            return refusal(request, 400, missing, remedy=SESSION_REMEDY)
        if request.method == b"GET":
            return session.get(request)
        self.end(session)
        return tail_of(request, 200, b"", *session.fields)

    def _post(
        self,
        request: BoundedRequest,
        session: McpSession | None,
        owner: str,
        place: str | None,
        server: Callable[[], Server],
    ) -> bytes | int:
        refused = refuse_unfit(request)
        if refused is not None:
            return refused
        try:
            revision = "" if session is None else session.connection.revision
            found = messages.read_any(request.content.read(), revision)  # type: ignore[union-attr]
        except McpFault as fault:
            return refusal(request, 400, fault)
        if session is not None:
            return session.post(request, found)
        (message,) = found
        if is_enveloped(message):
            wrong = McpFault(
                messages.HEADER_MISMATCH, "MCP-Protocol-Version is not the revision of the request's envelope."
            )
            return tail_of(request, 400, messages.encode_error(message.id, wrong), kind=JSON)
        if message.method != "initialize" or message.id is None:
            missing = McpFault(INVALID_REQUEST, "Bad Request: Mcp-Session-Id is missing.")
            return refusal(request, 400, missing, remedy=SESSION_REMEDY)
        if len(self._sessions) >= self._most or len(self.list_of_owner(owner)) >= self._most_of_one:
            wrong = McpFault(
                messages.INTERNAL_ERROR,
                f"Too many sessions are open: at most {self._most_of_one} of one client, and {self._most} in all.",
            )
            return refusal(request, 503, wrong, ("Retry-After", "60"))
        session_id = secrets.token_hex(16)
        session = McpSession(session_id, owner, place, server(), self.journal.session(), self._beats)
        self._sessions[session_id] = session
        self._open(request, session, message)
        return NOT_DONE_YET

    def _open(self, request: BoundedRequest, session: McpSession, message: Message) -> None:
        """Carry out the handshake; if it fails, no session is left."""
        stream = EventStreamAnswer(request, self._beats, lambda: self.end(session))

        def write(_: str, octets: bytes, __: bool) -> None:
            session.connection.write_to(session.deliver)
            if not session.connection.revision:
                self.end(session)
            fields = session.fields if session.connection.revision else ()
            stream.answer(200, octets, *fields, *proof(request))

        session.connection.write_to(write)
        session.connection.request(message, NO_STREAM, fields_of(request))
        if not self._sweeping:
            self._sweeping = True
            self._clock.callLater(self._idle / 4, self._sweep)

    def end(self, session: McpSession) -> None:
        """End and remove a session."""
        self._sessions.pop(session.session_id, None)
        session.end()

    def end_all(self) -> None:
        """End all sessions, since what serves them stops."""
        for session in list(self._sessions.values()):
            self.end(session)
        self._beats.clear()

    def end_listening(self) -> None:
        """End the streams of all sessions that belong to no request."""
        for session in self._sessions.values():
            session.end_listening()

    def _sweep(self) -> None:
        for session in list(self._sessions.values()):
            if session.is_idle(self._idle):
                self.end(session)
        self._sweeping = bool(self._sessions)
        if self._sweeping:
            self._clock.callLater(self._idle / 4, self._sweep)
