"""The way to a host, for the server side of MCP: over AGTP from a bridge, through the dispatcher from a front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agtphost.client.mcp.endpoints import EndpointLink
from agtphost.client.reply import Reply

LONGEST_CALL = 3600.0
"""Seconds that a call may take here; the host's own deadline is the one that matters."""

OnEvent = Callable[[Mapping[str, Any]], None]
"""Takes an event of the host (``result.event``)."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One MCP operation, as the host is asked for it (``docs/mcp.rst``)."""

    action: str
    """Such as ``mcp.tools.call``."""

    family: str
    """What ``application/vnd.mcp.*+json`` is called for it: ``tools``, ``resources`` ..."""

    payload: Mapping[str, Any]
    session_id: str
    task_id: str | None = None
    reads: bool = False
    """Whether doing it twice does no more than once."""

    seconds: float = LONGEST_CALL


class Link(EndpointLink, Protocol):
    """
    Where requests go, in the name of one agent.

    :raises agtphost.client.errors.ClientError: from each method, for calls without an answer that can be believed.
    """

    async def greet(self, session_id: str) -> None:
        """
        A client begins: a host that does not know its agent, or no longer, says so now.

        :raises agtphost.mcp.messages.Fault: then.
        """

    async def execute(self, operation: Operation, on_event: OnEvent | None = None) -> Reply:
        """
        Make one request; whoever cancels the wait for it has left, and the host knows.

        :param on_event: takes the host's events in order, before the answer.
        """
