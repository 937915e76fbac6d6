"""Stream an answer of the A2A front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.web.server import Request

from agtphost.a2a.messages import RpcFault
from agtphost.a2a.rest import RestCall
from agtphost.a2a.rpc import RpcCall
from agtphost.http.event_stream import EventWriter


class A2aEventStream(EventWriter):
    """The stream of events that answers one call."""

    def __init__(self, request: Request, call: RpcCall | RestCall, left: Callable[[], None] = lambda: None) -> None:
        super().__init__(request, left)
        self._call = call

    @property
    def old(self) -> bool:
        """Return whether the client speaks A2A 0.3, where errors are events from the beginning of the stream."""
        return isinstance(self._call, RpcCall) and self._call.old

    def send(self, event: Mapping[str, Any]) -> None:
        """Send an event."""
        if not self.is_gone:
            self.write(b"data: " + self._call.event(event) + b"\r\n\r\n")

    def fail(self, fault: RpcFault) -> None:
        """Send an error as the last event; in 1.0 it has the type ``error``."""
        if not self.is_gone:
            kind = b"" if self.old else b"event: error\r\n"
            self.write(kind + b"data: " + self._call.fault(fault)[1] + b"\r\n\r\n")
