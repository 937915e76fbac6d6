"""What a QUIC connection has of its UDP port: the settings that all of them share, and whom it tells of its events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.interfaces import IReactorTime

from agtphost.iagtp import IDispatcher
from agtphost.protocols.limits import ConnectionLimits
from agtphost.wire import Limits

if TYPE_CHECKING:
    from agtphost.protocols.connection import ServerConnection


class LinkOwner(Protocol):
    """The UDP port of a connection, a :class:`.link.QuicLink`, which is notified of its events."""

    def admit(self, link: Any, address: str) -> bool:
        """Count a connection whose client's address is proven; False where a limit is reached."""

    def move(self, link: Any, address: str) -> bool:
        """Count a connection for another address; False where a limit is reached."""

    def vouch(self, link: Any) -> None:
        """Note that the client has shown a verified certificate."""

    def establish(self, link: Any) -> None:
        """Note that the handshake of a connection is over, and its client not refused."""

    def wake(self, link: Any) -> None:
        """Call the connection's ``flush`` in a turn of the reactor, unless it ends before."""

    def transmit(self, octets: bytes, address: tuple[str, int]) -> None:
        """Send a datagram."""

    def use(self, link: Any, connection_id: bytes) -> None:
        """Hand the datagrams for a connection ID to the connection."""

    def drop(self, connection_id: bytes) -> None:
        """Hand no more datagrams for a connection ID to anybody."""

    def forget(self, link: Any, outcome: str) -> None:
        """Drop the connection, which is over."""

    def lagging(self, connection: ServerConnection) -> None:
        """Note that much of an answer waits for the peer."""

    def call_started(self) -> None:
        """Count a call that begins."""

    def call_ended(self) -> None:
        """Count a call that ended."""


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """The settings that all connections of a port share."""

    dispatcher: IDispatcher
    limits: ConnectionLimits
    wire_limits: Limits
    clock: IReactorTime
    owner: LinkOwner
    window: int
    strict_request_line: bool = False

    @cached_property
    def one_request(self) -> ConnectionLimits:
        """The limits of a stream; its age is that of the connection."""
        return self.limits.model_copy(update={"requests_per_connection": 1, "connection_age": math.inf})
