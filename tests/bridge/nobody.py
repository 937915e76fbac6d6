"""A way to a host where nothing ever happens, for tests of what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.reply import Reply
from agtphost.mcp.link import McpOperation, OnEvent


class Nobody:
    """An :class:`agtphost.mcp.link.McpHostLink`."""

    approval_wait = 0.0

    async def greet(self, session_id: str) -> None:
        """Everybody is welcome."""

    async def execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        """A subscription begins; nothing is ever answered."""
        if on_event is not None:
            on_event({"type": "acknowledged"})
        never: Deferred[Reply] = Deferred()
        return await never

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """Never answered."""
        never: Deferred[Reply] = Deferred()
        return await never

    async def manifest(self) -> Mapping[str, Any]:
        """Nothing is said."""
        return {}

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        """Whoever calls waits."""
        return function(*given)
