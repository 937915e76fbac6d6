"""One answer of the A2A front that comes event by event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.web.server import Request

from agtphost.http.a2a_messages import RpcFault
from agtphost.http.a2a_rest import RestCall
from agtphost.http.a2a_rpc import RpcCall
from agtphost.http.event_stream import EventWriter


class EventStream(EventWriter):
    """Answers one call with a stream of events."""

    def __init__(self, request: Request, call: RpcCall | RestCall, left: Callable[[], None] = lambda: None) -> None:
        super().__init__(request, left)
        self._call = call

    @property
    def old(self) -> bool:
        """Whether it is one of A2A 0.3, where errors are part of the stream from the first event on."""
        return isinstance(self._call, RpcCall) and self._call.old

    def send(self, event: Mapping[str, Any]) -> None:
        """One event."""
        if not self.gone:
            self.write(b"data: " + self._call.event(event) + b"\r\n\r\n")

    def fail(self, fault: RpcFault) -> None:
        """An error: its last event, and in 1.0 one of type ``error``."""
        if not self.gone:
            kind = b"" if self.old else b"event: error\r\n"
            self.write(kind + b"data: " + self._call.fault(fault)[1] + b"\r\n\r\n")
