"""Serve callers who listen to a call, cancel it, or answer questions that the server asks during it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.interfaces import IReactorTime

from agtphost.adapters.mcp.elicitation import CallContext, PendingCall, pending_of
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.roots import ServerRoots
from agtphost.adapters.mcp.session import ClientSession, Send
from agtphost.adapters.mcp.versions import ANSWERABLE


class InteractiveCalls:
    """
    The calls of one server that may be suspended, cancelled or streamed.

    :param clock: times pending calls.
    :param alone: whether the server works for one caller only, so that every question is for that caller.
    :param roots: answers ``roots/list``.
    """

    def __init__(self, clock: IReactorTime, alone: bool, roots: ServerRoots) -> None:
        self._clock = clock
        self._alone = alone
        self._roots = roots
        self._pending_calls: dict[PendingCall, CallContext] = {}
        """Calls that may be suspended, each with the request that began it, which gets the server's notifications."""

        self._listening: list[CallContext] = []

    def __len__(self) -> int:
        """Return the number of calls that may be suspended."""
        return len(self._pending_calls)

    async def perform(self, send: Send, session: ClientSession, seconds: float, asking: CallContext) -> Any:
        """
        Make a call whose caller listens, may cancel it, or can be asked.

        :return: the result as received, or an ``input_required`` result.
        :raises agtphost.upstream.failures.UpstreamFailure: for every other outcome.
        """
        if asking.sink is not None:
            self._listening.append(asking)
        try:
            if asking.pending is None and not (self._alone and not session.terms.stateless):
                return await asking.set_awaited(send(session, seconds))
            return await self._interruptible(send, session, seconds, asking)
        finally:
            if asking.sink is not None:
                self._listening.remove(asking)

    def release(self, pending: PendingCall) -> None:
        """Cancel a suspended call."""
        pending.give_up()
        self._pending_calls.pop(pending, None)

    def only_listener(self, session: ClientSession | None, at_work: int) -> CallContext | None:
        """
        Return the caller for a log message that names no call, if there is exactly one call and one caller; else None.
        """
        if session is None or len(self._listening) != 1:
            return None
        known = self._alone or (session.terms.stateless and at_work == 1)
        return self._listening[0] if known else None

    def take_request(
        self, peer: JsonRpcPeer | None, method: str, params: Mapping[str, Any], call_id: int | str, within: int | None
    ) -> bool:
        """
        Take a request of the server, and answer it from the configuration or pass it to the caller of the call.

        :return: False where neither can answer it.
        """
        roots = self._roots if method == "roots/list" and peer is not None else None
        if roots is not None and peer is not None and roots.answer(peer, call_id):
            return True
        pending = pending_of(self._pending_calls, within) if self._alone else None
        if pending is not None and pending.take_request(method, params, call_id):
            return True
        return roots is not None and peer is not None and pending is None and roots.hold(peer, call_id)

    async def _interruptible(self, send: Send, session: ClientSession, seconds: float, asking: CallContext) -> Any:
        pending = asking.pending
        if pending is None:
            # The deadline belongs to the pending call: it is paused while the caller is asked.
            peer = session.peer
            working = send(session, None)
            allowed = ANSWERABLE if asking.capabilities is None else asking.capabilities
            pending = PendingCall(self._clock, peer.respond, working, peer.last_id, allowed)
            asking.pending = pending
            self._pending_calls[pending] = asking
            outcome = pending.outcome(seconds)
        else:
            first = self._pending_calls.get(pending)
            if first is not None:
                first.repeated = asking
            outcome = send(session, seconds)
        try:
            return await asking.set_awaited(outcome)
        finally:
            if pending.has_ended:
                self._pending_calls.pop(pending, None)
