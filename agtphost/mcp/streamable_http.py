"""
Streamable HTTP: one endpoint, in both eras of MCP.

A request that names a revision with handshakes, or none, belongs to a session, which ``initialize`` opens
(:mod:`.sessions`). Every other is an independent request of 2026-07-28: one POST, one answer, which is JSON, or a
stream if there are notifications before it. A client of that era that leaves cancels its request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.http.refusals import TurnedAway, refuse
from agtphost.http.request_heads import spell_text
from agtphost.http.status import FIELD
from agtphost.mcp import messages
from agtphost.mcp.connection import fault_of
from agtphost.mcp.context import ClientConversation, Context, Fields
from agtphost.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    McpFault,
    Message,
    RequestId,
)
from agtphost.mcp.request_checks import PARAM, check_envelope, require_served
from agtphost.mcp.revisions import HANDSHAKE, MODERN
from agtphost.mcp.server import Server
from agtphost.mcp.stream import EventStreamAnswer, Heartbeats
from agtphost.protocols.coroutines import Cancellable
from agtphost.vocabulary.reasons import Reason

LONGEST_BODY = 4 << 20
"""Octets of a message."""

STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""HTTP statuses for errors of 2026-07-28; others are 200."""

JSON = "application/json"
EVENTS = "text/event-stream"


def fields_of(request: BoundedRequest) -> Fields:
    """Return a function that gives the values of a request's field."""

    def values(name: str) -> list[str]:
        found = request.requestHeaders._rawHeaders.get(spell_text(name)) or ()
        return [value.decode("ascii", "replace") for value in found]

    return values


def is_of_a_session(request: BoundedRequest) -> bool:
    """Return whether a request is of the handshake era; unknown revisions count as the era without sessions."""
    said = field_of(request, "mcp-protocol-version")
    return said is None or said in HANDSHAKE


def accepts(request: BoundedRequest) -> tuple[bool, bool]:
    """Return whether a client takes JSON, and whether it takes events."""
    return _parse_accept(field_of(request, "accept") or "")


@lru_cache(256)
def _parse_accept(field: str) -> tuple[bool, bool]:
    said = field.lower()
    kinds = {part.partition(";")[0].strip() for part in said.split(",")}
    everything = "*/*" in kinds
    return (
        everything or JSON in kinds or "application/*" in kinds,
        everything or EVENTS in kinds or "text/*" in kinds,
    )


def refuse_unfit(request: BoundedRequest) -> bytes | None:
    """Return the refusal of a POST whose client takes no answer, or whose body is not JSON; None for every other."""
    if not all(accepts(request)):
        return refusal(request, 406, McpFault(INVALID_REQUEST, f"Accept both {JSON} and {EVENTS}."))
    if (field_of(request, "content-type") or "").partition(";")[0].strip().lower() != JSON:
        return refusal(request, 415, McpFault(INVALID_REQUEST, f"Send {JSON}."))
    return None


REFUSAL_REASONS = {
    404: (Reason.NOT_FOUND, "Begin a session by initialize."),
    405: (Reason.METHOD_NOT_ALLOWED, "Use a method that the header field Allow lists."),
    406: (Reason.INVALID_HEADER_FIELD, f"Send Accept: {JSON}, {EVENTS}."),
    415: (Reason.UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {JSON}."),
    503: (Reason.HANDLERS_BUSY, "End unused sessions by DELETE."),
}
"""Reason and remedy by HTTP status; all others are malformed messages."""

WELL_FORMED_REMEDY = "Send one JSON-RPC 2.0 message of the MCP revision that MCP-Protocol-Version names."


SESSION_REMEDY = "Begin a session by initialize; requests without one have MCP-Protocol-Version: 2026-07-28."


def refusal(request: BoundedRequest, status: int, fault: McpFault, *fields: tuple[str, str], remedy: str = "") -> bytes:
    """
    Return an error that answers no message.

    :param remedy: a remedy that is more specific than that of the status.
    """
    reason, usual = REFUSAL_REASONS.get(status, (Reason.MALFORMED_BODY, WELL_FORMED_REMEDY))

    def form(turned: TurnedAway) -> tuple[bytes, str]:
        known = fault.data if isinstance(fault.data, dict) else {}
        told = McpFault(fault.code, fault.message, {**known, "agtp": messages.early_refusal_facts(turned)})
        return messages.encode_error(None, told), JSON

    return refuse(request, status, reason, fault.message, *fields, remedy=remedy or usual, form=form)


class _StatelessChannel:
    """The channel of a request of 2026-07-28, whose client cannot be asked."""

    def __init__(self, stream: EventStreamAnswer) -> None:
        self._stream = stream

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; see :class:`agtphost.mcp.context.Channel`."""
        self._stream.send(messages.encode_notification(method, params))

    def ask(self, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        """Refuse to ask: this era has no questions to clients."""
        raise McpFault(INVALID_REQUEST, f"{method} cannot be sent to a client of this revision.")


class StatelessEndpoint:
    """The endpoint for requests of 2026-07-28."""

    def __init__(self, server: Server, conversation: ClientConversation, clock: IReactorTime) -> None:
        self._server = server
        self._conversation = conversation
        self._beats = Heartbeats(clock)
        self.streams: dict[EventStreamAnswer, Callable[[], None]] = {}
        """Answers that are not complete yet, each with the function that cancels its request."""

    def take(self, request: BoundedRequest) -> bytes | int:
        """Answer one HTTP request."""
        if request.method != b"POST":
            return refusal(
                request, 405, McpFault(INVALID_REQUEST, "This revision of MCP takes POST only."), ("Allow", "POST")
            )
        refused = refuse_unfit(request)
        if refused is not None:
            return refused
        number: RequestId | None = None
        fields = fields_of(request)
        try:
            message = messages.read(request.content.read())  # type: ignore[union-attr]
            number = message.id
            if message.method and number is None:
                # This era has no notifications from clients; some clients send them even so, and read no answer.
                require_served(field_of(request, "mcp-protocol-version") or "")
                return tail_of(request, 202, b"")
            if not message.is_request:
                number = None
                raise McpFault(INVALID_REQUEST, "Clients of this revision send requests only, no answers.")
            check_envelope(message, fields)
            self._check_arguments(request, message, fields)
        except McpFault as fault:
            return tail_of(request, STATUSES.get(fault.code, 200), messages.encode_error(number, fault), kind=JSON)
        self._answer(request, message, fields)
        return NOT_DONE_YET

    def _check_arguments(self, request: BoundedRequest, message: Message, fields: Fields) -> None:
        if message.method != "tools/call":
            return
        arguments = message.params.get("arguments")
        arguments = arguments if isinstance(arguments, dict) else {}
        if arguments or any(
            name.lower().startswith(PARAM.encode()) for name, _ in request.requestHeaders.getAllRawHeaders()
        ):
            self._server.relay.check_arguments(str(message.params.get("name")), arguments, fields)

    def _answer(self, request: BoundedRequest, message: Message, fields: Fields) -> None:
        stream = EventStreamAnswer(request, self._beats, lambda: self._give_up(stream))
        context = Context(
            method=message.method,
            params=message.params,
            request_id=message.id,
            revision=MODERN,
            conversation=self._conversation,
            channel=_StatelessChannel(stream),
            fields=fields,
        )
        work = Cancellable(self._respond(request, stream, context))
        if not stream.has_ended:
            # A long silence makes the answer a stream, so that it can be kept open.
            self._beats.add(stream)
            self.streams[stream] = work.cancel

    async def _respond(self, request: BoundedRequest, stream: EventStreamAnswer, context: Context) -> None:
        try:
            octets = messages.encode_result(context.request_id, await self._server.answer(context))
        except Exception:
            self._fail(request, stream, context.request_id, Failure())  # type: ignore[no-untyped-call]
            return
        self._end(request, stream, 200, octets)

    def _fail(
        self, request: BoundedRequest, stream: EventStreamAnswer, number: RequestId | None, failure: Failure
    ) -> None:
        fault = fault_of(failure)
        if fault is None:
            self.streams.pop(stream, None)
            stream.finish()
            return
        self._end(request, stream, STATUSES.get(fault.code, 200), messages.encode_error(number, fault))

    def _end(self, request: BoundedRequest, stream: EventStreamAnswer, status: int, octets: bytes) -> None:
        self.streams.pop(stream, None)
        if stream.has_ended:
            return
        if stream.has_begun:
            stream.finish(octets)
            return
        stream.answer(status, octets, *proof(request))

    def _give_up(self, stream: EventStreamAnswer) -> None:
        give_up = self.streams.pop(stream, None)
        if give_up is not None:
            give_up()

    def end(self) -> None:
        """Cancel every request whose answer is not complete."""
        self._beats.clear()
        for stream, give_up in list(self.streams.items()):
            self.streams.pop(stream, None)
            give_up()
            stream.finish()


def proof(request: BoundedRequest) -> list[tuple[str, str]]:
    """Return the fields that name the record of an answer, if the answer has one."""
    if not request.agtp_status:
        return []
    named = [("Audit-ID", request.audit_id)] if request.audit_id else []
    return [(FIELD, str(request.agtp_status)), *named]
