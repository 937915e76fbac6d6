"""The link to this host: each request of an MCP client goes to the dispatcher, in the client's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.client.approvals import WAIT
from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.mcp.host_sessions import HostSessions
from agtphost.client.mcp.requests import execute
from agtphost.client.reply import Reply, reply_of
from agtphost.http.client_heads import ClientHeads
from agtphost.http.clients import HttpClient
from agtphost.iagtp import IDispatcher
from agtphost.identity.peer import ClientLink
from agtphost.mcp.link import McpHostLink, McpOperation, OnEvent
from agtphost.mcp.messages import refusal_fault
from agtphost.protocols.coroutines import drive
from agtphost.protocols.peers import call_each
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.steps import Executor
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Common, Headers

SENDER: ContextVar[HttpClient] = ContextVar("SENDER")
"""The client whose HTTP request is being answered; always one of the link's caller."""

MOST_HEADS = 4
"""Heads of one link that gates learn of: a client has one for each address that it calls from."""

Manifest = Callable[[], Awaitable[Mapping[str, Any]]]


class InProcessLink:
    """
    The in-process link of one caller.

    :param path: ``/mcp/NAME`` for one server alone.
    :param manifest: returns the manifest of the host's own endpoints.
    :param approval_wait: returns the seconds for which a call that needs approval waits for it.
    :param offload: runs slow functions in a thread.
    """

    def __init__(
        self,
        dispatcher: IDispatcher,
        path: str,
        manifest: Manifest,
        approval_wait: Callable[[], float],
        offload: Executor,
    ) -> None:
        self._offload = offload
        self._dispatcher = dispatcher
        self._path = path
        self._approval_wait = approval_wait
        self._manifest = manifest
        self._sessions = HostSessions()
        self._heads = ClientHeads(MOST_HEADS)

    @property
    def approval_wait(self) -> float:
        """Seconds to wait for approval; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        return self._approval_wait()

    async def execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        """Make one MCP request; see :class:`agtphost.mcp.link.McpHostLink`."""
        given = execute(operation.action, operation.family, operation.payload)
        context = None if on_event is None else {"stream": True, WAIT: self.approval_wait}
        fields = [] if operation.task_id is None else [("Task-ID", operation.task_id)]
        common = self._heads.find_common(SENDER.get())

        async def attempt(session_id: str) -> Reply:
            named = [("Session-ID", session_id), *fields]
            decoded = operation.decoded
            return await self._dispatch(
                "EXECUTE", self._path, given, named, context, on_event, decoded=decoded, common=common
            )

        return await self._sessions.request(operation.session_id, attempt)

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """Call an endpoint; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        context = None if wait_for_approval is None else {"stream": True, WAIT: wait_for_approval}

        async def attempt(session_id: str) -> Reply:
            fields = [("Session-ID", session_id)]
            return await self._dispatch(call.method, call.path, call.input, fields, context, None)

        return await self._sessions.request(call.session_id, attempt)

    async def manifest(self) -> Mapping[str, Any]:
        """Return the manifest, not filtered by caller; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        return await self._manifest()

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        """Run a function in a thread; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        return await self._offload(function, *given)

    async def greet(self, session_id: str) -> None:
        """Check that the host accepts the client; see :class:`agtphost.mcp.link.McpHostLink`."""
        call = EndpointCall(method="DISCOVER", path="/methods", input={}, session_id=session_id)
        reply = await self.call(call)
        if reply.status in (401, 410) or (reply.status == 403 and "stopped" in reply.reason):
            raise refusal_fault(reply, modern=True)

    async def _dispatch(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any],
        fields: list[tuple[str, str]],
        context: Mapping[str, Any] | None,
        on_event: OnEvent | None,
        *,
        decoded: bool = False,
        common: Common | None = None,
    ) -> Reply:
        sender = SENDER.get()
        body: dict[str, Any] = {"method": method, "parameters": parameters}
        if context is not None:
            body["context"] = context
        headers = Headers([*sender.headers, *fields, ("Content-Type", media_types.AGTP_JSON)])
        headers.common = common
        request = Request(
            method=method,
            path=path,
            headers=headers,
            body=jsontext.encode(body),
            line=f"AGTP/1.0 {method} {path}\r\n".encode("ascii"),
            own=True,
            value=body if decoded else None,
        )
        interims = 0

        def interim(response: Response) -> None:
            nonlocal interims
            interims += 1
            told = _reply(response, interims).result
            event = told.get("event") if isinstance(told, dict) else None
            if on_event is not None and isinstance(event, dict):
                on_event(event)

        # A client that leaves ends reads, as on a connection of AGTP; calls that change something are finished.
        peer = sender.peer(ClientLink(client=sender.key))
        working = self._dispatcher.dispatch(request, peer, None if context is None else interim)
        answered: Deferred[Response] = Deferred(lambda _: call_each(peer.leaving))
        drive(_answer(working, answered))
        reply = _reply(await answered, interims)
        sender.note_answer(reply.status, reply.audit_id)
        return reply


LISTS = (
    ("mcp.tools.list", "tools", "tool_response", "tools"),
    ("mcp.prompts.list", "prompts", "mcp_response", "prompts"),
    ("mcp.resources.list", "resources", "mcp_response", "resources"),
    ("mcp.resources.templates.list", "resources", "mcp_response", "resourceTemplates"),
)
"""The lists of a server: the action, its family, and the members of the answer that have the entries."""

NO_ACCESS = frozenset({262, 403, 404, 455})
"""Statuses of lists at a server that is not there, or is not for the caller."""


async def may_use_any(link: McpHostLink, session_id: str) -> bool | None:
    """
    Return whether the caller may use anything of the one server that a link leads to.

    :return: None where that is unknown now: the caller is refused for all requests, or the server is not up.
    """
    for action, family, member, found in LISTS:
        operation = McpOperation(action=action, family=family, payload={}, session_id=session_id, reads=True)
        reply = await link.execute(operation)
        if not reply.ok and reply.status not in NO_ACCESS:
            return None
        listed = reply.result.get(member) if reply.ok and isinstance(reply.result, dict) else None
        if isinstance(listed, dict) and (listed.get(found) or listed.get("nextCursor")):
            return True
    return False


async def _answer(working: Awaitable[Response], answered: Deferred[Response]) -> None:
    """
    Fire a Deferred with the answer of a call.

    Cancelling the Deferred does not cancel the call, which the host ends and records.
    """
    try:
        response = await working
    except Exception:
        if not answered.called:
            answered.errback()
        return
    if not answered.called:
        answered.callback(response)


def _reply(response: Response, interims: int) -> Reply:
    return reply_of(response, line=b"", body=b"", agent_id=None, interims=interims)
