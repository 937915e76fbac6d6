"""
A host in place of an MCP session: what ``mcp.ClientSession`` has, each call made, checked and recorded at the host.

Needs the official SDK (``agtphost[mcp]``) for its types, in either of its major versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from agtphost import __version__
from agtphost.client import aio
from agtphost.client.approvals import REASON as HELD
from agtphost.client.caller import ClientOptions
from agtphost.client.errors import ClientError
from agtphost.client.mcp.endpoints import AUDIT_ID, EndpointCall, Endpoints, EndpointTool, answer_of
from agtphost.client.mcp.held_calls import held_answer
from agtphost.client.mcp.host_sessions import HostSessions
from agtphost.client.mcp.official_sdk import sdk, to_sdk_error
from agtphost.client.mcp.refusals import to_rpc_error, unreachable
from agtphost.client.mcp.requests import execute
from agtphost.client.mcp.view import View
from agtphost.client.reply import Reply
from agtphost.client.requests import new_session_id
from agtphost.client.terminal import escape

if TYPE_CHECKING:
    from mcp import types

LONGEST_CALL = 3600.0
"""Seconds that a call may take where its caller does not say; the host's own deadline is the one that matters."""

MOST_PAGES = 100
_CANCEL_SECONDS = 5.0

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class _Link:
    """The way to the host, for its endpoints."""

    host: aio.Host[aio.Client]
    approval_wait: float
    timeout: float
    sessions: HostSessions

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        options: dict[str, Any] = {"wait_for_approval": wait_for_approval, "timeout": self.timeout}
        given = call.method, call.path, call.input
        return await self.sessions.request(
            call.session_id,
            lambda used: self.host.call(*given, session_id=used, idempotent=call.idempotent, **options),
        )

    async def manifest(self) -> Mapping[str, Any]:
        return (await self.host.manifest()).document

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.to_thread(function, *given)


class GovernedSession:
    """
    A session with a host, to be used where a ``ClientSession`` is: ``load_mcp_tools(session)``,
    ``McpToolSpec(client=session)`` and others.

    Tools of several servers are called ``SERVER__TOOL``, as models' interfaces take no dot; the host's own endpoints
    are tools too. A call that the host refuses is a result with ``isError``, which models read: reason, explanation,
    remedy and Audit-ID. Every result has the Audit-ID of its record in ``_meta``, and the record is verified.

    :param host: as whom calls are made.
    :param server: the only MCP server that is shown, by its own names; None: all of them, and the host's endpoints.
    :param approval_wait: seconds for which a call that a person has to approve waits for that.
    :param timeout: seconds for a call whose caller does not say.
    """

    def __init__(
        self,
        host: aio.Host[aio.Client],
        *,
        server: str | None = None,
        approval_wait: float = 0.0,
        timeout: float = LONGEST_CALL,
    ) -> None:
        self._types = sdk()
        self.host = host
        self._server = server
        self._wait, self._timeout = approval_wait, timeout
        self._view = View(server)
        self._sessions = HostSessions()
        link = _Link(host=host, approval_wait=approval_wait, timeout=timeout, sessions=self._sessions)
        self._endpoints = Endpoints(link) if server is None else None
        self._session_id = new_session_id()
        self._initialized: types.InitializeResult | None = None
        self._farewells: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, once the host knows of every call that was given up."""
        if self._farewells:
            await asyncio.wait(self._farewells)
        await self.host.close()

    def __repr__(self) -> str:
        return f"<GovernedSession of {self.host!r}>"

    # The handshake: the host is reached, and says who it is

    async def initialize(self) -> types.InitializeResult:
        """Ask the host who it is; calls need not wait for that."""
        try:
            manifest = (await self.host.manifest()).document
        except ClientError as error:
            raise to_sdk_error(unreachable(error)) from error
        server = manifest.get("server")
        name = server.get("server_id") if isinstance(server, dict) else None
        self._initialized = self._types.InitializeResult.model_validate(
            {
                "protocolVersion": self._types.LATEST_PROTOCOL_VERSION,
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}},
                "serverInfo": {"name": str(name or self.host.uri), "version": __version__},
                "instructions": "Every call is checked and recorded at the host.",
            }
        )
        return self._initialized

    def get_server_capabilities(self) -> types.ServerCapabilities | None:
        """Return what :meth:`initialize` returned; None before."""
        return None if self._initialized is None else self._initialized.capabilities

    @property
    def initialize_result(self) -> types.InitializeResult | None:
        """The same, whole."""
        return self._initialized

    async def send_ping(self, **_: Any) -> types.EmptyResult:
        """Reach the host."""
        await self._listing("mcp.tools.list", "tools", "tool_response", None)
        made: types.EmptyResult = self._types.EmptyResult()
        return made

    # Lists

    async def list_tools(self, cursor: str | None = None, *, params: Any = None) -> types.ListToolsResult:
        """Return the tools that may be called now; the host's own endpoints are on the first page."""
        cursor = _cursor(cursor, params)
        page = await self._listing("mcp.tools.list", "tools", "tool_response", cursor)
        page["tools"] = [self._view.tool(tool) for tool in page.get("tools", ())]
        if cursor is None:
            page["tools"] += [dict(tool.definition) for tool in await self._listed_endpoints()]
        made: types.ListToolsResult = self._types.ListToolsResult.model_validate(page)
        return made

    async def list_prompts(self, cursor: str | None = None, *, params: Any = None) -> types.ListPromptsResult:
        """Return the prompts of all servers."""
        page = await self._listing("mcp.prompts.list", "prompts", "mcp_response", _cursor(cursor, params))
        page["prompts"] = [self._view.prompt(prompt) for prompt in page.get("prompts", ())]
        made: types.ListPromptsResult = self._types.ListPromptsResult.model_validate(page)
        return made

    async def list_resources(self, cursor: str | None = None, *, params: Any = None) -> types.ListResourcesResult:
        """Return the resources of all servers."""
        page = await self._listing("mcp.resources.list", "resources", "mcp_response", _cursor(cursor, params))
        made: types.ListResourcesResult = self._types.ListResourcesResult.model_validate(
            self._view.address_entries(page, "resources", "uri")
        )
        return made

    async def list_resource_templates(
        self, cursor: str | None = None, *, params: Any = None
    ) -> types.ListResourceTemplatesResult:
        """List the templates of resources."""
        action = "mcp.resources.templates.list"
        page = await self._listing(action, "resources", "mcp_response", _cursor(cursor, params))
        shown = self._view.address_entries(page, "resourceTemplates", "uriTemplate")
        made: types.ListResourceTemplatesResult = self._types.ListResourceTemplatesResult.model_validate(shown)
        return made

    # Operations

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: timedelta | float | None = None,
        progress_callback: Progress | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> types.CallToolResult:
        """
        Call a tool. Cancelling it tells the host.

        :param name: as listed, or as the host calls it: ``SERVER.TOOL``.
        :param progress_callback: takes ``progress``, ``total`` and ``message``.
        :raises Exception: ``MCPError`` (``McpError`` of the SDK's version 1) without an answer that can be believed.
        """
        endpoint, tool = await self._find(name)
        if endpoint is not None:
            answer = await self._call_endpoint(endpoint, arguments or {})
            made: types.CallToolResult = self._types.CallToolResult.model_validate(answer)
            return made
        payload = {"tool": tool, "arguments": dict(arguments or {}), **({"_meta": dict(meta)} if meta else {})}
        seconds = _seconds(read_timeout_seconds, self._timeout)
        reply = await self._execute("mcp.tools.call", "tools", payload, seconds, progress_callback)
        answer = self._answer(reply)
        answer["_meta"] = {**(answer.get("_meta") or {}), AUDIT_ID: reply.audit_id}
        result: types.CallToolResult = self._types.CallToolResult.model_validate(
            self._view.address_result(tool, answer)
        )
        return result

    async def read_resource(self, uri: Any, **_: Any) -> types.ReadResourceResult:
        """Read a resource, by its URI as listed."""
        payload = self._view.addresses.find(str(uri))
        result = await self._operation("mcp.resources.read", "resources", payload, uri=str(uri))
        made: types.ReadResourceResult = self._types.ReadResourceResult.model_validate(
            self._view.read(str(uri), payload, result)
        )
        return made

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **_: Any
    ) -> types.GetPromptResult:
        """Get a prompt, by its name as listed, or as the host calls it."""
        payload: dict[str, Any] = {"prompt": await self._prompt(name)}
        if arguments is not None:
            payload["arguments"] = dict(arguments)
        made: types.GetPromptResult = self._types.GetPromptResult.model_validate(
            await self._operation("mcp.prompts.get", "prompts", payload)
        )
        return made

    async def complete(
        self, ref: Any, argument: Mapping[str, str], context_arguments: Mapping[str, str] | None = None
    ) -> types.CompleteResult:
        """Complete an argument of a prompt, or of a template of resources."""
        asked: dict[str, Any] = ref.model_dump(mode="json", by_alias=True, exclude_none=True)
        payload: dict[str, Any] = {"argument": dict(argument)}
        if context_arguments is not None:
            payload["context"] = {"arguments": dict(context_arguments)}
        if asked.get("type") == "ref/prompt":
            asked["name"] = await self._prompt(asked["name"])
        else:
            payload.update(self._view.addresses.find_template(asked["uri"]))
            asked["uri"] = payload.pop("uri")
        payload["ref"] = asked
        made: types.CompleteResult = self._types.CompleteResult.model_validate(
            await self._operation("mcp.completion.complete", "completion", payload)
        )
        return made

    async def set_logging_level(self, level: str, **_: Any) -> types.EmptyResult:
        """Set the lowest level of log messages that the servers send."""
        await self._operation("mcp.logging.setLevel", "logging", {"level": level})
        made: types.EmptyResult = self._types.EmptyResult()
        return made

    # The way to the host

    async def _execute(
        self,
        action: str,
        family: str,
        payload: Mapping[str, Any],
        seconds: float,
        progress: Progress | None = None,
        *,
        reads: bool = False,
    ) -> Reply:
        path = "/" if self._server is None else f"/mcp/{self._server}"
        task_id = secrets.token_urlsafe(16)
        options: dict[str, Any] = {
            "timeout": seconds,
            "wait_for_approval": self._wait,
            "task_id": None if reads else task_id,
            "idempotent": reads,
        }
        parameters = execute(action, family, payload)

        async def attempt(session_id: str) -> Reply:
            options["session_id"] = session_id
            if progress is None:
                return await self.host.call("EXECUTE", path, parameters, **options)
            running = self.host.stream("EXECUTE", path, parameters, **options)
            async with contextlib.aclosing(running):
                async for reply in running:
                    if not reply.interim:
                        return reply
                    await _report_progress(progress, reply)
            raise AssertionError("a stream ends with a final reply or an error")

        try:
            return await self._sessions.request(self._session_id, attempt)
        except ClientError as error:
            raise to_sdk_error(unreachable(error)) from error
        except asyncio.CancelledError:
            if not reads:
                self._cancel(task_id)
            raise

    def _cancel(self, task_id: str) -> None:
        """Send the host a cancellation of a call, because a closed connection does not cancel it."""

        async def farewell() -> None:
            parameters = execute("mcp.requests.cancel", "tools", {"task_id": task_id})
            with contextlib.suppress(ClientError):  # The host drops it when its time is over.
                options: dict[str, Any] = {"session_id": self._sessions.current(self._session_id)}
                await self.host.call("EXECUTE", "/", parameters, timeout=_CANCEL_SECONDS, **options)

        task = asyncio.get_running_loop().create_task(farewell())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _operation(
        self, action: str, family: str, payload: Mapping[str, Any], member: str = "mcp_response", uri: str | None = None
    ) -> dict[str, Any]:
        """
        Make a request that only reads, and return its result.

        :raises Exception: ``MCPError`` (``McpError`` of the SDK's version 1) if the host refuses.
        """
        reply = await self._execute(action, family, payload, self._timeout, reads=True)
        if not reply.ok:
            raise to_sdk_error(to_rpc_error(reply, modern=False, uri=uri, name=self._callable))
        found = reply.result.get(member) if isinstance(reply.result, dict) else None
        if not isinstance(found, dict):
            raise to_sdk_error(unreachable(_another_version()))
        return {**found, "_meta": {**(found.get("_meta") or {}), AUDIT_ID: reply.audit_id}}

    async def _listing(self, action: str, family: str, member: str, cursor: str | None) -> dict[str, Any]:
        return await self._operation(action, family, {} if cursor is None else {"cursor": cursor}, member)

    def _answer(self, reply: Reply) -> dict[str, Any]:
        """Return the result of a tool; a refusal is a result too, for models to read."""
        if reply.approval is not None:
            return held_answer(reply, reply.approval)
        if not reply.ok:
            return answer_of(reply, self._callable)
        found = reply.result.get("tool_response") if isinstance(reply.result, dict) else None
        if isinstance(found, dict):
            return dict(found)
        kind = reply.result.get("resultType") if isinstance(reply.result, dict) else None
        if kind is None:
            raise to_sdk_error(unreachable(_another_version()))
        text = f"The tool is not done ({escape(str(kind))}), and this session cannot go on with it."
        return {"content": [{"type": "text", "text": text}], "isError": True}

    # Names

    def _callable(self, name: str) -> str | None:
        return self._view.tools.show(name) if self._view.tools.shows(name) else None

    async def _find(self, shown: str) -> tuple[EndpointTool | None, str]:
        """Return the endpoint of a name, or the tool that EXECUTE calls; None, and the host's name of another tool."""
        known = self._view.tools.find_host_name(shown)
        endpoint = await self._endpoint(shown, listed="__" in shown or known is not None)
        if endpoint is not None or known is not None:
            return endpoint, known or shown
        if "." in shown:
            # No list has to say what the host calls it, only that no plugin and no agent has it: that is asked once.
            self._view.tools.show(shown)
            return None, shown
        await self._walk("tools")
        known = self._view.tools.find_host_name(shown)
        # What no server lists may be a tool that EXECUTE calls otherwise.
        endpoint = None if known is not None else await self._endpoint(shown, listed="__" not in shown)
        return endpoint, known or self._view.tools.guess(shown)

    async def _prompt(self, shown: str) -> str:
        known = self._view.prompts.find_host_name(shown)
        if known is None and "." not in shown:
            await self._walk("prompts")
            known = self._view.prompts.find_host_name(shown) or self._view.prompts.guess(shown)
        return known or shown

    async def _walk(self, family: str) -> None:
        """Read a whole listing, for the names in it."""
        cursor: str | None = None
        member, see = ("tool_response", self._view.tool) if family == "tools" else ("mcp_response", self._view.prompt)
        for _ in range(MOST_PAGES):
            page = await self._listing(f"mcp.{family}.list", family, member, cursor)
            for each in page.get(family, ()):
                see(each)
            cursor = page.get("nextCursor")
            if not cursor:
                return

    # Endpoints

    async def _listed_endpoints(self) -> list[EndpointTool]:
        if self._endpoints is None:
            return []
        try:
            return await self._endpoints.list_callable(self._session_id)
        except ClientError as error:
            raise to_sdk_error(unreachable(error)) from error

    async def _endpoint(self, shown: str, *, listed: bool) -> EndpointTool | None:
        """
        Return the endpoint of a name, or the tool that EXECUTE calls.

        :param listed: whether it counts only if it was listed before; endpoints have no mark in their names.
        """
        if self._endpoints is None:
            return None
        if self._endpoints.find(shown) is None and not listed:
            await self._listed_endpoints()
        return self._endpoints.find(shown)

    async def _call_endpoint(self, endpoint: EndpointTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        assert self._endpoints is not None
        try:
            return await self._endpoints.call(endpoint, arguments, self._session_id)
        except ClientError as error:
            raise to_sdk_error(unreachable(error)) from error


def governed_session(
    where: str | PathLike[str] | None = None,
    *,
    as_: str | None = None,
    uri: str | None = None,
    anonymous: bool = False,
    signing_key: str | PathLike[str] | None = None,
    verify: bool = True,
    server: str | None = None,
    approval_wait: float = 0.0,
    **options: Unpack[ClientOptions],
) -> GovernedSession:
    """
    Open a session with a host, found as the ``agtp`` command finds it; ``async with`` closes it.

    :param where: as for :meth:`agtphost.client.sync.Client.of`; so are ``as_``, ``uri``, ``anonymous``,
        ``signing_key``, ``verify`` and the options.
    :param server: the only MCP server that is shown, by its own names; None: all of them, and the host's endpoints.
    :param approval_wait: seconds for which a call that a person has to approve waits for that.
    :raises agtphost.client.errors.InvalidCall: saying what is missing, and how it is made.
    """
    timeout = options.get("timeout", LONGEST_CALL)
    host = aio.Client.of(
        where, as_=as_, uri=uri, anonymous=anonymous, signing_key=signing_key, verify=verify, **options
    )
    return GovernedSession(host, server=server, approval_wait=approval_wait, timeout=timeout)


async def _report_progress(progress: Progress, reply: Reply) -> None:
    event = reply.result.get("event") if isinstance(reply.result, dict) else None
    if not isinstance(event, dict):
        return
    kind = event.get("type")
    if kind == "progress":
        await progress(float(event.get("progress") or 0), event.get("total"), event.get("message"))
    elif kind == HELD:
        await progress(0.0, None, escape(f"held for a person to approve: {event.get('approval_id')}"))


def _another_version() -> ClientError:
    return ClientError("The host's answer has no MCP result.", "Is this an AGTP host of the same version?")


def _cursor(cursor: str | None, params: Any) -> str | None:
    return cursor if params is None else params.cursor


def _seconds(given: timedelta | float | None, otherwise: float) -> float:
    if given is None:
        return otherwise
    return given.total_seconds() if isinstance(given, timedelta) else float(given)
