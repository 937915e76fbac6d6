"""
Speak JSON-RPC 2.0 over any link, as the host's end of it.

Rules it keeps:

- Ids are integers from 1, used once. An answer counts only if its id is the id of a call in flight, compared by type as
  well as value; all others are ignored and counted.
- A call ends exactly once: by its answer, its deadline, its cancellation, or the end of the link. What comes later is
  dropped.
- A call that ends without an answer is followed by ``notifications/cancelled``, except where the protocol forbids it.
- Requests from the server are answered: ``ping`` with an empty result, others by the handler that takes them, or else
  with -32601.
- Notifications that belong to a call go to that call: progress by its token, which is the call's id, and everything
  else by the stream that it came on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.adapters.mcp.links import HeaderPairs, Message, OpenLink
from agtphost.handlers.deadlines import Deadlines, Late
from agtphost.upstream.failures import (
    CallCancelled,
    ErrorAnswer,
    UnsendableCall,
    UpstreamFailure,
    UpstreamLost,
    UpstreamTimeout,
)

METHOD_NOT_FOUND = -32601

Sink = Callable[[str, Mapping[str, Any]], None]
"""Takes method and params of the notifications that belong to one call."""

Serve = Callable[[str, Mapping[str, Any], "int | str", "int | None"], bool]
"""
Takes a request of the server: method, params, its id, and the call in whose stream it came.

A handler that returns True answers later with :meth:`JsonRpcPeer.respond`; on False the peer refuses the request.
"""

TakeNotification = Sink
"""Takes a notification that belongs to no call in flight."""
MAX_BATCH = 100
"""Messages in one JSON array (protocol 2025-03-26 has batches); more is an attack."""

QUICK_RISE = 1.25
"""The factor by which one answer may raise the estimate of a quick call, so that slow calls do not spoil it."""

_UNCANCELLABLE = frozenset({"initialize", "server/discover"})


_NOTHING_DELIVERED: tuple[Message, bytes] = ({}, b"")


def find_result(octets: bytes, answer: Message) -> bytes:
    """
    Return the part of an answer's text that is its result, in the two forms that servers write.

    :param answer: what the strict decoder made of the text, so that nothing in it is ambiguous.
    :return: nothing for a text of another form.
    """
    if len(answer) != 3 or type(answer["id"]) is not int:
        return b""
    before = b'{"jsonrpc":"2.0","id":%d,"result":' % answer["id"]
    if octets.startswith(before) and octets.endswith(b"}"):
        return octets[len(before) : -1]
    after = b',"jsonrpc":"2.0","id":%d}' % answer["id"]
    if octets.startswith(b'{"result":') and octets.endswith(after):
        return octets[len(b'{"result":') : -len(after)]
    return b""


@dataclass(slots=True)
class PeerCounters:
    """Counters of one link, for the operator."""

    answers: int = 0
    late: int = 0
    """Answers to calls that had ended: after a deadline, or a second answer."""

    unknown: int = 0
    """Answers whose id was never sent."""

    malformed: int = 0
    """JSON texts that are not JSON-RPC messages."""

    notifications: int = 0
    refused: int = 0
    """Requests from the server that were answered with -32601."""

    unanswered: int = 0
    """Requests from the server left unanswered because it does not read."""


class _PendingRequest:
    __slots__ = ("began", "continues", "deferred", "late", "method", "sink")

    def __init__(self, method: str, deferred: Deferred[Any], sink: Sink | None, continues: int | None) -> None:
        self.began = 0.0
        self.continues = continues
        self.method = method
        self.deferred = deferred
        self.sink = sink
        self.late: Late | None = None


class JsonRpcPeer:
    """
    The host's end of a conversation with one MCP server.

    :param clock: times deadlines.
    :param open_link: opens the link; called once, from the constructor.
    :param on_notification: takes each notification that no call takes.
    :param on_lost: takes the reason when the link ends, before the calls in flight fail.
    :param on_request: takes requests of the server; None: all but ``ping`` are refused.
    """

    def __init__(
        self,
        clock: IReactorTime,
        open_link: OpenLink,
        on_notification: TakeNotification,
        on_lost: Callable[[UpstreamLost], None],
        on_request: Serve | None = None,
    ) -> None:
        self._clock = clock
        self._deadlines = Deadlines(clock, lasting=True)
        self._on_request = on_request
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._calls: dict[int, _PendingRequest] = {}
        self._continued: dict[int, int] = {}
        """Calls in flight that continue an earlier one, by the id of that earlier call."""

        self.timed_calls = 0
        """The number of calls in flight that have a deadline; see :class:`agtphost.adapters.mcp.links.Receiver`."""

        self._last_id = 0
        self._loss: UpstreamLost | None = None
        self.quick_seconds = 0.0
        """The duration of quick answers; see :class:`agtphost.adapters.mcp.links.Receiver`."""

        self._delivered: tuple[Message, bytes] = _NOTHING_DELIVERED
        """The answer that its call is receiving, and its text; neither is kept any longer, for they may be large."""

        self.counters = PeerCounters()
        self.link = open_link(self)

    @property
    def last_id(self) -> int:
        """The id of the last call; 0 before the first."""
        return self._last_id

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer yet."""
        return len(self._calls)

    @property
    def only_call(self) -> int | None:
        """The id of the one call in flight; see :class:`agtphost.adapters.mcp.links.Receiver`."""
        return next(iter(self._calls)) if len(self._calls) == 1 else None

    def seconds(self) -> float:
        """Return the reactor's time, which deadlines are measured by."""
        return self._clock.seconds()

    def facts(self) -> dict[str, object]:
        """Return the counters of the conversation."""
        return asdict(self.counters)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        timeout: float | None,
        headers: HeaderPairs = (),
        sink: Sink | None = None,
        continues: int | None = None,
    ) -> Deferred[Any]:
        """
        Call a method of the server.

        :param timeout: seconds until :class:`UpstreamTimeout`; None for a subscription.
        :param headers: additional headers for an HTTP link.
        :param sink: takes the call's notifications; with a sink the server is asked for progress.
        :param continues: the id of an answered call whose work goes on: its progress is this call's.
        :return: the ``result`` member as received. Cancel it to cancel the call.
        :raises UpstreamFailure: through the Deferred, always.
        """
        self._last_id = call_id = self._last_id + 1
        deferred: Deferred[Any] = Deferred(lambda _: self._give_up(call_id, CallCancelled("it was cancelled")))
        message: Message = {"jsonrpc": "2.0", "id": call_id, "method": method}
        if sink is not None:
            params = dict(params or {})
            params["_meta"] = {**params.get("_meta", {}), "progressToken": call_id}
        if params is not None:
            message["params"] = params
        call = _PendingRequest(method, deferred, sink, continues)
        self._calls[call_id] = call
        if continues is not None:
            self._continued[continues] = call_id
        if timeout is not None:
            self.timed_calls += 1
            call.late = partial(self._expire, call_id, timeout)
            call.began = self._deadlines.add(timeout, call.late)
        try:
            if self._loss is not None:
                raise self._loss.copy()
            self.link.send(message, headers)
        except UpstreamFailure as failure:
            self.fail_call(call_id, failure)
        except (ValueError, TypeError, RecursionError) as error:
            self.fail_call(call_id, UnsendableCall(f"the request is not JSON: {error}"))
        return deferred

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; one that cannot be sent is dropped."""
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        try:
            self.link.send(message)
        except UpstreamFailure:
            return

    def respond(self, call_id: int | str, answer: Mapping[str, Any]) -> None:
        """
        Answer a request of the server; an answer that cannot be sent is dropped and counted.

        :param answer: ``{"result": ...}`` or ``{"error": ...}``.
        """
        try:
            self.link.send({"jsonrpc": "2.0", "id": call_id, **answer})
        except UpstreamFailure:
            self.counters.unanswered += 1

    def take_message(self, message: object, within: int | None = None, octets: bytes = b"") -> bool:
        """Take one decoded message: see :class:`agtphost.adapters.mcp.links.Receiver`."""
        if type(message) is dict:
            if "method" in message:
                self._incoming(message, within)
                return False
            if "id" in message and ("result" in message or "error" in message):
                return self._answer(message, octets)
        elif type(message) is list and len(message) <= MAX_BATCH:
            # Every item must be processed, so this cannot be any().
            return sum(self.take_message(item, within) for item in message if type(item) is dict) > 0
        self.counters.malformed += 1
        return False

    def fail_call(self, call_id: int, failure: UpstreamFailure) -> bool:
        """End one call without an answer; see :class:`agtphost.adapters.mcp.links.Receiver`."""
        call = self._take(call_id)
        if call is None:
            return False
        call.deferred.errback(failure)
        return True

    def fail_all(self, failure: UpstreamLost) -> None:
        """End every call; nothing can be sent any more."""
        if self._loss is not None:
            return
        self._loss = failure
        self._deadlines.end()
        # Report the loss before calls fail, so that a failed caller's next step finds the server down.
        self._on_lost(failure)
        for call_id in list(self._calls):
            self.fail_call(call_id, failure.copy())

    def _take(self, call_id: int) -> _PendingRequest | None:
        call = self._calls.pop(call_id, None)
        if call is None:
            return None
        if call.late is not None:
            self.timed_calls -= 1
            self._deadlines.discard(call.late)
        if call.continues is not None:
            self._continued.pop(call.continues, None)
        return call

    def octets_of(self, result: object) -> bytes:
        """
        Return the JSON of a result as the server wrote it, while the call that it ends receives it.

        :return: nothing for any other object, or where the text does not have a known form.
        """
        answer, octets = self._delivered
        if not octets or answer.get("result") is not result:
            return b""
        return find_result(octets, answer)

    def _answer(self, message: Message, octets: bytes) -> bool:
        call_id = message["id"]
        # True == 1 and 1.0 == 1, so only an int can be the id of an answer.
        call = self._take(call_id) if type(call_id) is int else None
        if call is None:
            if type(call_id) is int and 0 < call_id <= self._last_id:
                self.counters.late += 1
            else:
                self.counters.unknown += 1
            return False
        self.counters.answers += 1
        if call.late is not None:
            took = self._clock.seconds() - call.began
            self.quick_seconds = min(took, self.quick_seconds * QUICK_RISE) if self.quick_seconds else took
        error = message.get("error")
        if error is None:
            self._delivered = message, octets
            try:
                call.deferred.callback(message.get("result"))
            finally:
                self._delivered = _NOTHING_DELIVERED
        else:
            known = error if type(error) is dict else {"code": None, "message": str(error)}
            call.deferred.errback(ErrorAnswer(known))
        return True

    def _incoming(self, message: Message, within: int | None) -> None:
        method, params = message["method"], message.get("params")
        known = params if type(params) is dict else {}
        if type(method) is not str:
            self.counters.malformed += 1
        elif "id" in message:
            self._serve(method, known, message["id"], within)
        else:
            self.counters.notifications += 1
            sink = self._sink(method, known, within)
            if sink is None:
                self._on_notification(method, known)
            else:
                sink(method, known)

    def _sink(self, method: str, params: Mapping[str, Any], within: int | None) -> Sink | None:
        if method == "notifications/progress":
            token = params.get("progressToken")
            call = self._calls.get(self._continued.get(token, token)) if type(token) is int else None
        elif method == "notifications/message" and within is not None:
            call = self._calls.get(within)
        else:
            return None
        return None if call is None else call.sink

    def _serve(self, method: str, params: Mapping[str, Any], call_id: Any, within: int | None) -> None:
        if type(call_id) not in (int, str):
            self.counters.malformed += 1
        elif method == "ping":
            self.respond(call_id, {"result": {}})
        elif self._on_request is None or not self._on_request(method, params, call_id, within):
            self.counters.refused += 1
            self.respond(call_id, {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}})

    def _expire(self, call_id: int, timeout: float) -> None:
        self._give_up(call_id, UpstreamTimeout(f"the server did not answer within {timeout:g} s"))

    def _give_up(self, call_id: int, failure: UpstreamFailure) -> None:
        call = self._take(call_id)
        if call is None:
            return
        if call.method not in _UNCANCELLABLE and self._loss is None:
            self.notify("notifications/cancelled", {"requestId": call_id, "reason": str(failure)})
        call.deferred.errback(failure)
