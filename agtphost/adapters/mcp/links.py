"""
The seam between the JSON-RPC peer and what carries its messages.

A link moves whole messages and knows processes or HTTP; the peer knows ids,
deadlines and answers. Each is handed the other's half at construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from agtphost.upstream.failures import Lost, UpstreamFailure

Message = dict[str, Any]
"""One JSON-RPC message as decoded: nothing added, nothing dropped."""

HeaderPairs = Sequence[tuple[str, str]]
"""HTTP header fields that mirror parts of a message; stdio ignores them."""


class Receiver(Protocol):
    """What a link tells the peer."""

    def received(self, message: object, within: int | None = None) -> bool:
        """
        Take one decoded message.

        :param within: the call in whose stream it came, where the link knows.
        :return: whether it was the answer to a call in flight; everything
            else counts against the server's allowance of unsolicited octets.
        """

    def failed(self, call_id: int, failure: UpstreamFailure) -> bool:
        """
        One call will get no answer; the link itself is well.

        :return: whether it was in flight.
        """

    @property
    def in_flight(self) -> int:
        """Calls without an answer yet."""

    @property
    def only_call(self) -> int | None:
        """The id of the one call in flight; None where there is none, or several."""

    @property
    def quick(self) -> float:
        """Seconds that the quick ones of the answers take lately; 0 before the first."""

    def lost(self, failure: Lost) -> None:
        """The link ended: every call in flight fails now."""


class Link(Protocol):
    """What the peer and the supervisor ask of a link."""

    @property
    def pid(self) -> int | None:
        """The process id where there is one."""

    def send(self, message: Message, headers: HeaderPairs = ()) -> None:
        """
        Send one message, or queue it.

        :raises Busy: the other side does not read and the queue is full.
        :raises Lost: the link has ended.
        """

    def agreed(self, version: str) -> None:
        """The protocol version that messages from now on follow."""

    def close(self) -> Deferred[None]:
        """End the link in order; fires when nothing of it is left. Safe to call twice."""

    def abort(self, reason: str) -> None:
        """End the link at once because the server misbehaves."""

    def facts(self) -> Mapping[str, object]:
        """Counters and the last stderr lines, for the operator."""


OpenLink = Callable[[Receiver], Link]
"""Opens a link that reports to the receiver."""
