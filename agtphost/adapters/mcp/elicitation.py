"""
Relay questions of servers to callers.

A server of the handshake era asks in the middle of a call, whereas AGTP asks a caller between two requests. A pending
call is one call of a process, or HTTP session, that works for one caller only. When the server asks, the call is
suspended: its caller gets the questions as ``input_required``, and the call goes on with the answers (adapters rules G3
and G5, design decision 11).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from agtphost.upstream.failures import UpstreamTimeout

GATHER_SECONDS = 0.02
"""Seconds to wait for further questions before the caller is asked, since servers may ask several."""

KINDS = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""The requests that a server may send, and the capability that each needs."""

MOST = 16
"""Requests of one call that can wait for answers; further ones are refused."""

DECLINED = {"error": {"code": -1, "message": "The caller did not answer."}}

Respond = Callable[["int | str", Mapping[str, Any]], None]


class PendingCall:
    """
    A call that its server may interrupt.

    :param clock: times its deadlines.
    :param respond: answers a request of the server.
    :param working: the call's result; cancelling it notifies the server.
    :param call_id: its JSON-RPC id.
    :param capabilities: the kinds of questions that its caller can answer.
    """

    def __init__(
        self,
        clock: IReactorTime,
        respond: Respond,
        working: Deferred[Any],
        call_id: int,
        capabilities: Mapping[str, Any],
    ) -> None:
        self._clock = clock
        self._respond = respond
        self._working = working
        self.call_id = call_id
        self._capabilities = capabilities
        self._questions: dict[str, tuple[int | str, dict[str, Any]]] = {}
        self._count = 0
        self._waiter: Deferred[Any] | None = None
        self._timer: IDelayedCall | None = None
        self._outcome: list[Any] = []
        working.addBoth(self._settle)

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended."""
        return bool(self._outcome)

    @property
    def is_suspended(self) -> bool:
        """Whether no request waits for the call at present."""
        return self._waiter is None

    def take_request(self, method: str, params: Mapping[str, Any], call_id: int | str) -> bool:
        """
        Take a request of the server.

        :return: whether the caller can be asked that.
        """
        if self.has_ended or KINDS.get(method) not in self._capabilities or len(self._questions) >= MOST:
            return False
        self._count += 1
        self._questions[f"{KINDS[method]}-{self._count}"] = (call_id, {"method": method, "params": dict(params)})
        self._clock.callLater(GATHER_SECONDS, self._interrupt)
        return True

    def outcome(self, seconds: float) -> Deferred[Any]:
        """
        Wait for the call to end, or for its server to ask.

        :return: the result, or an ``input_required`` result. Cancel it to cancel the call.
        :raises UpstreamTimeout: neither happened in time; the call is cancelled.
        """
        waiter: Deferred[Any] = Deferred(lambda _: self.give_up())
        self._waiter = waiter
        self._timer = self._clock.callLater(max(seconds, 0), self._expire, seconds)
        if self.has_ended:
            self._release(self._outcome[0])
        elif self._questions:
            self._interrupt()
        return waiter

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Send the caller's answers to the server; questions without an answer stay open."""
        for name, response in responses.items():
            asked = self._questions.pop(name, None)
            if asked is not None:
                failed = type(response) is dict and type(response.get("error")) is dict
                self._respond(asked[0], {"error": response["error"]} if failed else {"result": response})

    def give_up(self) -> None:
        """Cancel the call and notify its server."""
        for call_id, _ in self._questions.values():
            self._respond(call_id, DECLINED)
        self._questions.clear()
        if not self.has_ended:
            self._working.cancel()

    def _interrupt(self) -> None:
        if self._waiter is not None and self._questions:
            requests = {name: asked for name, (_, asked) in self._questions.items()}
            self._release({"resultType": "input_required", "inputRequests": requests})

    def _settle(self, outcome: Any) -> None:
        self._outcome.append(outcome)
        self._questions.clear()
        self._release(outcome)

    def _release(self, outcome: Any) -> None:
        waiter, self._waiter = self._waiter, None
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if waiter is None or waiter.called:
            return
        if isinstance(outcome, Failure):
            waiter.errback(outcome)
        else:
            waiter.callback(outcome)

    def _expire(self, seconds: float) -> None:
        waiter, self._waiter = self._waiter, None
        self.give_up()
        if waiter is not None and not waiter.called:
            waiter.errback(UpstreamTimeout(f"the server did not answer within {seconds:g} s"))


def pending_of(pending_calls: Collection[PendingCall], within: int | None) -> PendingCall | None:
    """
    Return the call that a request of the server belongs to; all calls are of one caller.

    :param within: the call in whose stream the request came; None where the transport does not know.
    """
    for pending in pending_calls:
        if pending.call_id == within:
            return pending
    working = [pending for pending in pending_calls if not pending.is_suspended]
    candidates = working or list(pending_calls)
    return candidates[-1] if candidates else None


_NOTHING: Mapping[str, Any] = {}


class CallContext:
    """
    The state of one request to a server.

    It exists only for calls that are streamed, repeated with input, or cancellable by a Task-ID.

    :param sink: takes the notifications that belong to it; None: they are dropped.
    :param capabilities: the questions that its caller can answer; None: it did not declare any.
    :param level: the least level of log messages wanted; empty: not given.
    :param again: ``inputResponses`` and ``requestState`` of a repeated request.
    :param streamed: whether its caller gets notifications.
    """

    __slots__ = ("_working", "again", "cancelled", "capabilities", "level", "pending", "repeated", "sink", "streamed")

    def __init__(
        self,
        sink: Callable[[str, Mapping[str, Any]], None] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        level: str = "",
        again: Mapping[str, Any] = _NOTHING,
        *,
        streamed: bool = False,
    ) -> None:
        self.streamed = streamed
        self.sink = sink
        self.capabilities = capabilities
        self.level = level
        self.again = again
        self.cancelled = False
        self.pending: PendingCall | None = None
        """The call, where its server can interrupt it."""

        self.repeated: CallContext | None = None
        """The newest repetition of this request, while its call goes on."""

        self._working: Deferred[Any] | None = None

    def pass_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass a notification to the request that waits for the call at present."""
        sink = self.sink if self.repeated is None else self.repeated.sink
        if sink is not None:
            sink(method, params)

    def set_awaited(self, deferred: Deferred[Any]) -> Deferred[Any]:
        """Set what the request waits for at present."""
        self._working = deferred
        if self.cancelled:
            deferred.cancel()
        return deferred

    def cancel(self) -> None:
        """Cancel the request: what it waits for now or later is cancelled."""
        self.cancelled = True
        if self._working is not None:
            self._working.cancel()
