"""What the caller of one request wants besides its result, and a way to give the request up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.adapters.mcp.elicitation import PendingCall

_NOTHING: Mapping[str, Any] = {}


class CallContext:
    """
    One request on its way to a server.

    Made for every call that is streamed, repeated with input, or can be
    cancelled by its Task-ID; a call that is none of these goes without.

    :param sink: takes the notifications that belong to it; None where nobody listens.
    :param capabilities: what its caller can be asked; None where the caller did not say.
    :param level: the least level of log messages wanted; empty where nobody said.
    :param again: ``inputResponses`` and ``requestState`` of a request that is repeated.
    """

    __slots__ = ("_working", "again", "cancelled", "capabilities", "interview", "level", "repeated", "sink")

    def __init__(
        self,
        sink: Callable[[str, Mapping[str, Any]], None] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        level: str = "",
        again: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.sink = sink
        self.capabilities = capabilities
        self.level = level
        self.again = again
        self.cancelled = False
        self.interview: PendingCall | None = None
        """The call itself, where its server can interrupt it."""

        self.repeated: CallContext | None = None
        """The same request as it was last repeated, while its call goes on."""

        self._working: Deferred[Any] | None = None

    def heard(self, method: str, params: Mapping[str, Any]) -> None:
        """Hand a notification to whoever waits for the call at present."""
        sink = self.sink if self.repeated is None else self.repeated.sink
        if sink is not None:
            sink(method, params)

    def working(self, deferred: Deferred[Any]) -> Deferred[Any]:
        """Note what the request waits for at the moment."""
        self._working = deferred
        if self.cancelled:
            deferred.cancel()
        return deferred

    def cancel(self) -> None:
        """Give the request up: whatever it waits for, now or later, is cancelled."""
        self.cancelled = True
        if self._working is not None:
            self._working.cancel()
