"""
``mcp.tasks.get``, ``mcp.tasks.update`` and ``mcp.tasks.cancel``: requests about tasks, by their owners.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from agtphost.adapters.callers import caller_of, owner_of
from agtphost.adapters.mcp.bindings import unlisted_binding
from agtphost.adapters.mcp.call_tracker import CallTracker
from agtphost.adapters.mcp.elicitation import CallContext
from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.session import ClientSession
from agtphost.errors import Refusal, not_found
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.peer import client_of
from agtphost.vocabulary.reasons import Reason

_NOTHING: Mapping[str, Any] = {}


class _TaskCall:
    """A request about a task: see :class:`agtphost.adapters.mcp.requests.McpCall`."""

    member = "mcp_response"
    output = None
    meta = _NOTHING
    repetition = _NOTHING

    def __init__(self, server: McpServer, method: str, params: Mapping[str, Any]) -> None:
        self.server = server
        self.label = f"{method} {params['taskId']}"
        self._method = method
        self._params = params

    def perform(
        self, instance: IsMcpServer, context: BuiltInContext, seconds: float, asking: CallContext | None
    ) -> Awaitable[Mapping[str, Any]]:
        """Send the request; see :class:`agtphost.adapters.mcp.requests.McpCall`."""

        def send(session: ClientSession, timeout: float | None) -> Deferred[Any]:
            asked = CallContext(capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}})
            return session.request(self._method, dict(self._params), timeout, asked)

        return instance.request(send, seconds, asking, caller_of(context))


@implementer(IBuiltInHandler)
class TaskRequest:
    """
    The handler of a request about a task, for the agent who owns it.

    :param servers: the hosted servers by name.
    :param method: the MCP method.
    :param server: the server that the caller names; None where it names none.
    """

    kind = "mcp"

    def __init__(
        self,
        calls: CallTracker,
        servers: Mapping[str, McpServer],
        method: str,
        params: Mapping[str, Any],
        server: str | None,
    ) -> None:
        self._calls = calls
        self._servers = servers
        self._method = method
        self._params = params
        self._server = server

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Send the request and return its answer.

        :raises Refusal: 404 where the caller has no such task, or may not call its tool any more.
        """
        client, task_id = client_of(context.peer), self._params["taskId"]
        known = self._calls.find_task(owner_of(context), client, task_id, self._server)
        server = None if known is None else self._servers.get(known[0])
        if known is None or server is None:
            raise _unknown()
        if not context.admits(unlisted_binding(server, known[1].partition(".")[2])):
            raise _unknown()
        return await self._calls.perform(context, _TaskCall(server, self._method, self._params))


def _unknown() -> Refusal:
    return not_found(
        Reason.UNKNOWN_TASK,
        "The calling agent has no such task here.",
        remedy="Tasks are found by the taskId of the call's own answer, for a week.",
    )
