"""
The interface between the JSON-RPC peer and the links that carry its messages.

A link moves whole messages and knows processes or HTTP; the peer knows ids, deadlines and answers. Each gets the
other's half at construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from agtphost.upstream.failures import UpstreamFailure, UpstreamLost

Message = dict[str, Any]
"""One JSON-RPC message as decoded: nothing added, nothing dropped."""

HeaderPairs = Sequence[tuple[str, str]]
"""HTTP header fields that mirror parts of a message; stdio ignores them."""


class Receiver(Protocol):
    """The peer, as a link sees it."""

    def take_message(self, message: object, within: int | None = None, octets: bytes = b"") -> bool:
        """
        Take one decoded message.

        :param within: the call in whose stream it came, where the link knows.
        :param octets: the text that it was decoded from, where the link still has it.
        :return: whether it was the answer to a call in flight; everything else counts against the server's allowance of
            unsolicited octets.
        """

    def fail_call(self, call_id: int, failure: UpstreamFailure) -> bool:
        """
        End one call that will get no answer, though the link still works.

        :return: whether it was in flight.
        """

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer yet."""

    @property
    def timed_calls(self) -> int:
        """The number of calls in flight that have a deadline: those whose answers are awaited soon, no subscription."""

    @property
    def only_call(self) -> int | None:
        """The id of the one call in flight; None where there is none, or several."""

    @property
    def quick_seconds(self) -> float:
        """Seconds that quick answers take at present; 0 before the first answer."""

    def fail_all(self, failure: UpstreamLost) -> None:
        """Fail every call in flight, because the link ended."""


class McpLink(Protocol):
    """The link, as the peer and the supervisor see it."""

    takes_headers: bool
    """Whether :meth:`send` sends the headers of a message; making them is in vain for a link that ignores them."""

    @property
    def pid(self) -> int | None:
        """The process id, where there is a process."""

    def send(self, message: Message, headers: HeaderPairs = ()) -> None:
        """
        Send one message, or queue it.

        :raises agtphost.upstream.failures.UpstreamBusy: the other side does not read and the queue is full.
        :raises UpstreamLost: the link has ended.
        """

    def set_version(self, version: str) -> None:
        """Set the protocol version of all later messages."""

    def close(self) -> Deferred[None]:
        """End the link in order; fires when it is closed. Safe to call twice."""

    def abort(self, reason: str) -> None:
        """End the link immediately because the server misbehaves."""

    def facts(self) -> Mapping[str, object]:
        """Return counters and the last stderr lines, for the operator."""


OpenLink = Callable[[Receiver], McpLink]
"""Opens a link that reports to the receiver."""
