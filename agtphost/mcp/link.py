"""The interface to a host, for the server side of MCP: over AGTP from a bridge, through the dispatcher from a front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agtphost.client.mcp.endpoints import EndpointLink
from agtphost.client.reply import Reply

LONGEST_CALL = 3600.0
"""Seconds that a call may take here; the host has its own, shorter deadline."""

OnEvent = Callable[[Mapping[str, Any]], None]
"""Takes an event of the host (``result.event``)."""


@dataclass(frozen=True, kw_only=True)
class McpOperation:
    """An MCP operation, as the host is asked for it (``docs/mcp.rst``)."""

    action: str
    """The action, such as ``mcp.tools.call``."""

    family: str
    """The middle part of its media type ``application/vnd.mcp.*+json``: ``tools``, ``resources`` ..."""

    payload: Mapping[str, Any]
    session_id: str
    task_id: str | None = None
    reads: bool = False
    """Whether repeating it has no further effect."""

    seconds: float = LONGEST_CALL
    reinstatement_wait: int = 0
    """Seconds for which the host may keep back the refusal of a suspended agent, until that is reinstated."""
    decoded: bool = False
    """Whether all of the payload was decoded from JSON, so that decoding its text again yields the same."""


class McpHostLink(EndpointLink, Protocol):
    """
    The link that carries requests in the name of one agent.

    :raises agtphost.client.errors.ClientError: from each method, for calls without a valid answer.
    """

    async def greet(self, session_id: str) -> None:
        """
        Begin a client's conversation, so that a host that rejects its agent reports that now.

        :raises agtphost.mcp.messages.McpFault: the host rejects the agent.
        """

    async def execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        """
        Make one request; cancelling the wait notifies the host that the caller has left.

        :param on_event: takes the host's events in order, before the answer.
        """
