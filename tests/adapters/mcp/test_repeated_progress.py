"""What a server says in the course of a call whose caller was asked something meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.adapters.mcp.elicitation import CallContext, PendingCall


def test_whoever_repeated_the_request_hears_the_rest() -> None:
    """Progress after the answer to a question reaches the request that waits; before it, the first one."""
    heard: list[tuple[str, str]] = []

    def sink(name: str) -> Any:
        def take(method: str, params: Mapping[str, Any]) -> None:
            heard.append((name, method))

        return take

    first, second = CallContext(sink=sink("first")), CallContext(sink=sink("second"))
    pending = PendingCall(Clock(), lambda call_id, answer: None, Deferred(), 1, {})
    pending.first = first
    first.pass_notification("before", {})
    pending.first.repeated = second
    first.pass_notification("after", {})
    assert heard == [("first", "before"), ("second", "after")]
    pending.first.repeated = CallContext()
    first.pass_notification("nobody listens", {})
    assert len(heard) == 2
