"""
One client with a lasting conversation: its requests, its cancellations, and questions to it.

It is a session of the handshake era over HTTP, or the client at the other end of stdin and stdout. The transport writes
messages: each belongs to the stream of a request, or to no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.mcp import messages
from agtphost.mcp.context import ClientConversation, Context, Fields
from agtphost.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, McpFault, Message, RequestId
from agtphost.mcp.server import Server
from agtphost.vocabulary.jsonslices import Encoded

log = Logger()

NO_STREAM = ""
"""The stream of messages that belong to no request."""

MOST_RUNNING = 256
"""Requests of one client at a time."""

BEFORE_THE_HANDSHAKE = frozenset({"initialize", "ping"})

Write = Callable[[str, bytes, bool], None]
"""Takes a stream, a message, and whether it is the last of its stream."""


class ClientConnection:
    """
    The conversation with one client.

    :param server: answers the requests.
    :param revision: the client's revision; empty: ``initialize`` sets it.
    :param tells_cancelled: whether a cancelled request gets an answer, for transports whose stream ends with one.
    """

    def __init__(self, server: Server, write: Write, revision: str = "", *, tells_cancelled: bool) -> None:
        self.server = server
        self.revision = revision
        self.conversation = ClientConversation()
        self._write = write
        self._tells_cancelled = tells_cancelled
        self.running: dict[RequestId, Deferred[None]] = {}
        self._questions: dict[RequestId, Deferred[Mapping[str, Any]]] = {}
        self._number = 0
        self._leave: Callable[[], None] | None = None

    def request(self, message: Message, stream: str, fields: Fields | None = None) -> Deferred[None]:
        """
        Answer a request; fires once it is answered.

        :param stream: the request's own stream.
        """
        number = message.id
        assert number is not None, "it is a request"
        work = Deferred.fromCoroutine(self._answer(message, stream, fields))
        if not work.called:
            self.running[number] = work

        def finish(found: object) -> None:
            if self.running.get(number) is work:
                del self.running[number]
            octets = b""
            if isinstance(found, Failure):
                octets = self._encode_failure(number, found)
            elif isinstance(found, (dict, Encoded)):
                octets = messages.encode_result(number, found)
            if octets:
                self._write(stream, octets, True)

        return work.addBoth(finish)

    async def _answer(self, message: Message, stream: str, fields: Fields | None) -> Any:
        if message.id in self.running:
            raise McpFault(INVALID_REQUEST, "A request with that id is in flight.")
        if len(self.running) >= MOST_RUNNING:
            raise McpFault(INTERNAL_ERROR, f"At most {MOST_RUNNING} requests of a client are in flight at a time.")
        if not self.revision and message.method not in BEFORE_THE_HANDSHAKE:
            raise McpFault(INVALID_PARAMS, "Invalid request parameters: the conversation begins with initialize.")
        context = Context(
            method=message.method,
            params=message.params,
            request_id=message.id,
            revision=self.revision or "initialize",
            conversation=self.conversation,
            channel=_ConnectionChannel(self, stream),
            fields=fields,
        )
        result = await self.server.answer(context)
        if message.method == "initialize" and isinstance(result, dict):
            self.revision = result["protocolVersion"]
            self.conversation.capabilities = message.params["capabilities"]
        return result

    def _encode_failure(self, number: RequestId, failure: Failure) -> bytes:
        fault = fault_of(failure)
        if fault is None:
            return (
                messages.encode_error(number, McpFault(messages.CANCELLED, "Request cancelled"))
                if self._tells_cancelled
                else b""
            )
        return messages.encode_error(number, fault)

    def write_to(self, write: Write) -> None:
        """Send all later messages to another writer."""
        self._write = write

    def take_notification(self, message: Message) -> None:
        """Handle a notification of the client."""
        if message.method == "notifications/cancelled":
            self.cancel(message.params.get("requestId"))
        elif message.method == "notifications/roots/list_changed":
            self.conversation.roots = None
            self.conversation.roots_changes += 1
        elif message.method == "notifications/initialized" and self.revision and self._leave is None:
            self._leave = self.server.subscriptions.greet(self.conversation, _ConnectionChannel(self, NO_STREAM))

    def cancel(self, number: Any) -> None:
        """Cancel a request of the client."""
        work = self.running.get(number) if isinstance(number, (str, int)) else None
        if work is not None:
            work.cancel()

    def take_answer(self, message: Message) -> None:
        """Take the client's answer to a question."""
        asked = None if message.id is None else self._questions.pop(message.id, None)
        if asked is None:
            return
        error = message.error
        if isinstance(error, dict):
            code = error.get("code")
            said = McpFault(code if type(code) is int else INTERNAL_ERROR, str(error.get("message", "")))
            asked.errback(said)
        elif isinstance(message.result, dict):
            asked.callback(message.result)
        else:
            asked.errback(McpFault(INTERNAL_ERROR, "The client's answer is malformed."))

    def send(self, stream: str, octets: bytes) -> None:
        """Send a message that is not an answer."""
        self._write(stream, octets, False)

    def ask(self, stream: str, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        """Ask the client; cancel the Deferred to stop waiting."""
        self._number += 1
        number = self._number

        def forget(_: object) -> None:
            self._questions.pop(number, None)

        asked: Deferred[Mapping[str, Any]] = Deferred(forget)
        self._questions[number] = asked
        self._write(stream, messages.encode_request(number, method, params), False)
        return asked

    def end(self) -> None:
        """Cancel all requests of the client, which is gone."""
        for work in list(self.running.values()):
            work.cancel()
        if self._leave is not None:
            self._leave()
            self._leave = None


class _ConnectionChannel:
    """The channel back to the client on one stream."""

    def __init__(self, connection: ClientConnection, stream: str) -> None:
        self._connection = connection
        self._stream = stream

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; see :class:`agtphost.mcp.context.Channel`."""
        self._connection.send(self._stream, messages.encode_notification(method, params))

    def ask(self, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        """Ask the client; see :class:`agtphost.mcp.context.Channel`."""
        return self._connection.ask(self._stream, method, params)


def fault_of(failure: Failure) -> McpFault | None:
    """Return the error for a request that failed; None for a cancelled one."""
    if isinstance(failure.value, CancelledError):
        return None
    if isinstance(failure.value, McpFault):
        return failure.value
    log.failure("a request of an MCP client cannot be answered", failure)
    return McpFault(INTERNAL_ERROR, "Internal error")
