"""
The connections of the bridge's HTTP port: uvicorn's protocol, admitted, timed and drained of what it may keep.

Admission is that of the host's own listeners (:mod:`agtphost.protocols.accepting`). Everybody is on loopback here, so
no address has a share; where all places are taken, the connection that has waited longest without a whole request
makes room.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from agtphost.protocols.accepting import AcceptingFactory
from agtphost.protocols.limits import STALL, UNREAD, ConnectionLimits

SWEEP = 0.2
"""Seconds between two looks at the deadlines."""


class Places(AcceptingFactory):
    """
    The connections of one port.

    :param connections: at a time.
    """

    def __init__(self, connections: int) -> None:
        super().__init__(ConnectionLimits(connections=connections), _Clock(), room=True)  # type: ignore[arg-type]
        self._sweeping = False

    def opened(self, connection: Any) -> None:
        """See :class:`AcceptingFactory`; sweeps as long as there are connections."""
        super().opened(connection)
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP, self._look)

    def _look(self) -> None:
        self.sweep()
        self._sweeping = bool(self.connections)
        if self._sweeping:
            asyncio.get_running_loop().call_later(SWEEP, self._look)


class _Clock:
    def seconds(self) -> float:
        """The running loop's."""
        return asyncio.get_running_loop().time()


class Gathered:
    """
    A transport that sends in one go what is written in one go: the head of an answer with its body.

    :param transport: what is below.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, octets: bytes) -> None:
        """Have it sent before anything else is done but by who writes."""
        if not octets:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append(octets)

    def close(self) -> None:
        """End the connection, once everything is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._waiting:
            octets = b"".join(self._waiting)
            self._waiting.clear()
            self._transport.write(octets)


class BoundedProtocol(H11Protocol):
    """Uvicorn's protocol, with an end to waiting; :func:`bounded_protocol` makes the one of a port."""

    places: Places
    head_seconds: float
    write_seconds: float

    address = ""
    _below: asyncio.Transport | None = None
    _head: float | None = None
    _stall: float | None = None
    _left = 0

    # As its listener sees it

    @property
    def unread(self) -> int:
        """Octets that wait here for the client to read on."""
        return 0 if self._below is None else self._below.get_write_buffer_size()

    @property
    def expendable(self) -> int:
        """
        How readily it is cut for another's sake.

        Not while an answer is owed, unless nobody takes it, or more was asked before it came.
        """
        if self._stall is not None or self.flow.read_paused:
            return 1
        if self.cycle is not None and not self.cycle.response_complete:
            return 2 if self.conn.their_state is h11.SEND_BODY else 0
        return 3 if self._head is None else 4

    def sweep(self, now: float) -> None:
        """Act on the deadlines."""
        if self._head is not None and now >= self._head:
            self.cut()
        elif self._stall is not None:
            left, self._left = self._left, self.unread
            if self._left < left:
                self._wait_for_reader()
            elif now >= self._stall:
                self.cut()

    def drain(self) -> None:
        """Uvicorn does that."""

    def cut(self) -> None:
        """End the connection at once."""
        if self._below is not None:
            self._below.abort()

    # As the loop sees it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection, if there is room."""
        peer = transport.get_extra_info("peername") or ("unix",)
        address = self.places.admitted(SimpleNamespace(host=peer[0]))  # type: ignore[arg-type]
        if address is None:
            transport.abort()
            return
        self.address, self._below = address, transport
        super().connection_made(transport)
        self.transport = Gathered(transport)  # type: ignore[assignment]
        self.places.opened(self)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Octets; of an answer's request, or of the head that is waited for."""
        if self._below is None:
            return
        begins = self.conn.their_state is h11.IDLE
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and begins:
            self._begin_head()
        else:
            self._head = None

    def eof_received(self) -> None:
        """The client's side ended."""
        if self._below is not None:
            super().eof_received()

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._stall = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._below is not None:
            super().connection_lost(exc)
            self._below = None
            self.places.closed(self)

    def _begin_head(self) -> None:
        if self._head is None:
            self._head = self.loop.time() + self.head_seconds

    def _wait_for_reader(self) -> None:
        self._left = self.unread
        patience = min(self.write_seconds, STALL) if self._left > UNREAD else self.write_seconds
        self._stall = self.loop.time() + patience


def bounded_protocol(places: Places, head_seconds: float, write_seconds: float) -> type[H11Protocol]:
    """
    The protocol of a port's connections.

    :param head_seconds: for the head of a request: from the connection, or the first octet of a further request.
    :param write_seconds: for a client that takes nothing of what waits for it; less where much waits.
    """
    members = {"places": places, "head_seconds": head_seconds, "write_seconds": write_seconds}
    return type("PortProtocol", (BoundedProtocol,), members)
