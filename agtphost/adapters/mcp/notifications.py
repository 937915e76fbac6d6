"""Send a server's notifications during a call as interim messages of that call: design decision 11."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.adapters.callers import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, RFC 5424."""

QUEUED = 256
"""Events that wait to be signed and sent; each costs a record, so further events of a flood are dropped."""

_log = Logger(namespace="agtphost.mcp")

Emit = Callable[[Mapping[str, Any]], Awaitable[None]]


class NotificationQueue:
    """
    A bounded queue that sends events one after the other.

    :param emit: signs and sends one.
    :param server: the label of the events.
    :param level: the least level of log messages that is sent; empty for all.
    """

    def __init__(self, emit: Emit, server: str, level: str = "") -> None:
        self._emit = emit
        self._server = server
        self._least = LEVELS.index(level) if level in LEVELS else 0
        self._queue: deque[Mapping[str, Any]] = deque()
        self._busy = False
        self._drained: list[Deferred[None]] = []
        self._closed = False
        self.dropped = 0
        """Events dropped because they came faster than they could be signed."""

    def take(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification that belongs to the call."""
        event = self._event(method, params)
        if event is not None:
            self.put(event)

    def put(self, event: Mapping[str, Any]) -> None:
        """Queue an event."""
        if self._closed:
            return
        if len(self._queue) >= QUEUED:
            self.dropped += 1
            return
        self._queue.append({"type": "", "server": self._server, **event})
        if not self._busy:
            self._busy = True
            Deferred.fromCoroutine(self._send()).addErrback(self._log_failure).addBoth(self._finish_sending)

    async def drain(self) -> None:
        """Wait until the queued events are sent, and take no more: the answer comes after its events."""
        self._closed = True
        if self._busy:
            sent: Deferred[None] = Deferred()
            self._drained.append(sent)
            await sent

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._queue.clear()

    async def _send(self) -> None:
        while self._queue:
            await self._emit(self._queue.popleft())

    def _finish_sending(self, _: object) -> None:
        self._busy = False
        drained, self._drained = self._drained, []
        for waiter in drained:
            if not waiter.called:
                waiter.callback(None)

    def _log_failure(self, failure: Any) -> None:
        self.close()
        _log.failure("events of MCP server {server} cannot be sent", failure, server=self._server)

    def _event(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if method == "notifications/progress":
            shown = {name: params[name] for name in ("progress", "total", "message") if name in params}
            return {"type": "progress", **shown}
        if method == "notifications/message":
            level = params.get("level")
            if level in LEVELS and LEVELS.index(level) < self._least:
                return None
            shown = {name: params[name] for name in ("level", "logger", "data") if name in params}
            return {"type": "log", **shown}
        return {"type": "notification", "method": method, "params": dict(params)}


@implementer(IBuiltInHandler)
class SetLevel:
    """
    The handler that sets the least level of log events for an agent in a session.

    A server that works for this caller alone gets the level; one that callers share does not.

    :param set_level: the functions that store and forward it.
    :param level: one of :data:`LEVELS`.
    """

    kind = "mcp"

    def __init__(self, set_level: Sequence[Callable[[str, str | None, str], None]], level: str) -> None:
        self._set_level = set_level
        self._level = level

    def handle(self, context: BuiltInContext) -> Answer:
        """Set the level."""
        for set_level in self._set_level:
            set_level(owner_of(context), context.session_id, self._level)
        return Answer(result={"mcp_response": {}})
