"""Make each MCP request one request of AGTP, and translate its answer back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime

from agtphost.client.approvals import REASON as HELD
from agtphost.client.errors import ClientError
from agtphost.client.mcp.endpoints import AUDIT_ID, Endpoints, EndpointTool, answer_of
from agtphost.client.mcp.held_calls import held_answer
from agtphost.client.mcp.refusals import UNREACHABLE
from agtphost.client.mcp.tool_search import CALL, SEARCH, ToolSearch
from agtphost.client.mcp.view import View
from agtphost.client.reply import Reply
from agtphost.mcp.context import Context
from agtphost.mcp.elicitation import ask_until_final, input_required, pack_state, unpack_state
from agtphost.mcp.held_notices import HeldNotices
from agtphost.mcp.link import McpHostLink, McpOperation, OnEvent
from agtphost.mcp.messages import INVALID_PARAMS, McpFault, refusal_fault, unreachable_fault
from agtphost.mcp.relayed_result import RelayedResult
from agtphost.mcp.request_checks import Fields, MarkedArguments
from agtphost.mcp.revisions import SERVER_INFO
from agtphost.vocabulary.jsonslices import HEAVY
from agtphost.vocabulary.mcp_members import ROOTS

_SHOWN_TO_MODELS = frozenset({"invalid-input", "unknown-tool", "approval-rejected", "approval-expired"})
"""
Refusals that are given as the tool's answer, not as errors of the protocol, so that models see them.

Invalid arguments (SEP-1303). An unknown tool: the specification demands -32602, but servers on the official SDKs
(Python in every revision, TypeScript up to 2025-11-25) answer with ``isError``, which clients are used to. A person's
decision about a call, since models also see that a call is held.
"""

MOST_PAGES = 100
LARGE = 65_536
"""Octets of an answer that takes milliseconds to parse."""

MOST_SCHEMAS = 10_000
_CANCEL_SECONDS = 5.0


class McpRelay:
    """
    The relay of one caller's MCP clients to the host.

    :param link: the link to the host.
    :param server: the only server that is shown, by its own names; None: all.
    :param endpoints: the host's own endpoints, shown as tools too; None: they are not shown.
    :param search: whether two search tools are shown instead of all tools.
    """

    def __init__(
        self,
        link: McpHostLink,
        clock: IReactorTime,
        *,
        server: str | None = None,
        endpoints: Endpoints | None = None,
        search: bool = False,
    ) -> None:
        self._link = link
        self._clock = clock
        self._endpoints = endpoints
        self.view = View(server)
        self._tools, self._prompts = self.view.tools, self.view.prompts
        self._search = ToolSearch(link, self._tools.show, server, endpoints) if search else None
        self._marked: dict[str, MarkedArguments] = {}
        self._cancellations: set[Deferred[None]] = set()

    def check_arguments(self, tool: str, arguments: Mapping[str, Any], fields: Fields) -> None:
        """
        Check the ``Mcp-Param-*`` fields of a call of 2026-07-28, by the tool's input schema as last listed.

        :raises McpFault: as :meth:`agtphost.mcp.request_checks.MarkedArguments.check`.
        """
        marked = self._marked.get(self._tools.find_host_name(tool) or tool)
        if marked is not None:
            marked.check(arguments, fields)

    # Lists

    async def list_tools(self, context: Context) -> dict[str, Any]:
        """Answer the request ``tools/list``; the host's own endpoints are on the first page."""
        if self._search is not None:
            return _complete(context, {"tools": self._search.list_definitions()})
        result = await self._page(context, "mcp.tools.list", "tools", "tool_response")
        result["tools"] = [self._shown_tool(tool) for tool in result.get("tools", ())]
        if context.params.get("cursor") is None:
            result["tools"] += [dict(tool.definition) for tool in await self._listed_endpoints(context)]
        return result

    async def _listed_endpoints(self, context: Context) -> list[EndpointTool]:
        if self._endpoints is None:
            return []
        try:
            listed = await self._endpoints.list_callable(context.conversation.session_id)
        except ClientError as error:
            raise unreachable_fault(error) from error
        for tool in listed:
            self._keep_schema(tool.name, tool.definition["inputSchema"])
        return listed

    def _keep_schema(self, name: str, schema: Mapping[str, Any]) -> None:
        if name in self._marked or len(self._marked) < MOST_SCHEMAS:
            self._marked[name] = MarkedArguments(schema)

    def _shown_tool(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        shown = self.view.tool(tool)
        if isinstance(shown.get("inputSchema"), dict):
            self._keep_schema(str(tool.get("name")), shown["inputSchema"])
        return shown

    async def list_prompts(self, context: Context) -> dict[str, Any]:
        """Answer the request ``prompts/list``."""
        result = await self._page(context, "mcp.prompts.list", "prompts", "mcp_response")
        result["prompts"] = [self.view.prompt(prompt) for prompt in result.get("prompts", ())]
        return result

    async def list_resources(self, context: Context) -> dict[str, Any]:
        """Answer the request ``resources/list``."""
        result = await self._page(context, "mcp.resources.list", "resources", "mcp_response")
        return self.view.address_entries(result, "resources", "uri")

    async def list_templates(self, context: Context) -> dict[str, Any]:
        """Answer the request ``resources/templates/list``."""
        result = await self._page(context, "mcp.resources.templates.list", "resources", "mcp_response")
        return self.view.address_entries(result, "resourceTemplates", "uriTemplate")

    async def _page(
        self, context: Context, action: str, family: str, member: str, cursor: str | None = None
    ) -> dict[str, Any]:
        given = context.params.get("cursor") if cursor is None else cursor
        payload = {} if given is None else {"cursor": given}
        return await self._simple(context, action, family, payload, member)

    # Operations

    async def call_tool(self, context: Context) -> dict[str, Any]:
        """Answer the request ``tools/call``."""
        shown, arguments = context.params["name"], context.params.get("arguments") or {}
        if self._search is not None and shown == SEARCH:
            return await self._search_tools(context, self._search, arguments)
        if self._search is not None and shown == CALL:
            meant = self._search.read_call(arguments)
            if isinstance(meant, dict):
                return _complete(context, meant)
            shown, arguments = meant
        name = self._tools.find_host_name(shown)
        endpoint = await self._endpoint(context, shown, listed="__" in shown or name is not None)
        if endpoint is None and name is None:
            await self._walk(context, "tools")
            name = self._tools.find_host_name(shown)
            if name is None:
                # No server lists it: it may be a tool that EXECUTE calls otherwise.
                endpoint = await self._endpoint(context, shown, listed="__" not in shown)
        if endpoint is not None:
            return await self._call_endpoint(context, endpoint, arguments)
        name = name or self._tools.guess(shown)
        payload = {"tool": name, "arguments": arguments}
        result = await self._operate(context, "mcp.tools.call", "tools", payload, "tool_response")
        return self.view.address_result(name, result)

    async def _search_tools(self, context: Context, search: ToolSearch, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = await search.search(arguments, context.conversation.session_id)
        except ClientError as error:
            raise unreachable_fault(error) from error
        return _complete(context, answer)

    async def _endpoint(self, context: Context, shown: str, *, listed: bool) -> EndpointTool | None:
        """
        Return the endpoint of a name, or the tool that EXECUTE calls.

        :param listed: whether it counts only if it was listed before; hosted tools have ``__`` in their names, and
            endpoints never, so that the right list is read first.
        """
        if self._endpoints is None:
            return None
        found = self._endpoints.find(shown)
        if found is None and not listed:
            await self._listed_endpoints(context)
            found = self._endpoints.find(shown)
        return found

    async def _call_endpoint(
        self, context: Context, endpoint: EndpointTool, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        assert self._endpoints is not None
        if context.modern and ("requestState" in context.params or "inputResponses" in context.params):
            # Endpoints never ask for input, so that a request with such a state would call the endpoint a second time.
            raise McpFault(INVALID_PARAMS, "The requestState is not one that this server gave.")
        notices = HeldNotices(context, self._clock)
        try:
            answer = await self._endpoints.call(endpoint, arguments, context.conversation.session_id, notices.begin)
        except ClientError as error:
            raise unreachable_fault(error) from error
        finally:
            notices.end()
        return _complete(context, answer)

    async def read_resource(self, context: Context) -> dict[str, Any]:
        """Answer the request ``resources/read``."""
        uri = context.params["uri"]
        payload = self.view.addresses.find(uri)
        result = await self._operate(context, "mcp.resources.read", "resources", payload, "mcp_response", uri=uri)
        return self.view.read(uri, payload, result)

    async def get_prompt(self, context: Context) -> dict[str, Any]:
        """Answer the request ``prompts/get``."""
        params = context.params
        payload: dict[str, Any] = {"prompt": await self._prompt(context, params["name"])}
        if params.get("arguments") is not None:
            payload["arguments"] = params["arguments"]
        return await self._operate(context, "mcp.prompts.get", "prompts", payload, "mcp_response")

    async def complete(self, context: Context) -> dict[str, Any]:
        """Answer the request ``completion/complete``."""
        params = context.params
        payload = {name: params[name] for name in ("ref", "argument", "context") if params.get(name) is not None}
        ref = payload["ref"]
        if ref.get("type") == "ref/prompt":
            payload["ref"] = {**ref, "name": await self._prompt(context, ref["name"])}
        elif isinstance(ref.get("uri"), str):
            found = self.view.addresses.find_template(ref["uri"])
            payload["ref"] = {**ref, "uri": found.pop("uri")}
            payload.update(found)
        return await self._simple(context, "mcp.completion.complete", "completion", payload, "mcp_response")

    async def set_level(self, context: Context) -> dict[str, Any]:
        """Answer ``logging/setLevel``, which applies to this client alone."""
        level = context.params["level"]
        await self._simple(context, "mcp.logging.setLevel", "logging", {"level": level}, "mcp_response")
        context.conversation.level = level
        return {}

    async def task(self, context: Context) -> dict[str, Any]:
        """
        Answer ``tasks/get``, ``tasks/update`` and ``tasks/cancel`` of the tasks extension.

        :raises McpFault: -32021 for clients that do not declare the extension; -32020 if ``Mcp-Name`` is another task.
        """
        context.require_tasks()
        payload = {name: value for name, value in context.params.items() if name != "_meta"}
        return await self._simple(context, f"mcp.{context.method.replace('/', '.')}", "tasks", payload, "mcp_response")

    async def _prompt(self, context: Context, shown: str) -> str:
        name = self._prompts.find_host_name(shown)
        if name is None:
            await self._walk(context, "prompts")
            name = self._prompts.find_host_name(shown) or self._prompts.guess(shown)
        return name

    async def _walk(self, context: Context, family: str) -> None:
        """Read a whole listing, for the names in it."""
        cursor, tools = "", family == "tools"
        for _ in range(MOST_PAGES):
            member = "tool_response" if tools else "mcp_response"
            page = await self._page(context, f"mcp.{family}.list", family, member, cursor or None)
            for each in page.get(family, ()):
                if tools:
                    self._shown_tool(each)
                else:
                    self._prompts.show(str(each.get("name")))
            cursor = page.get("nextCursor") or ""
            if not cursor:
                return

    # Requests

    async def wait_for_cancellations(self) -> None:
        """Wait until the host has been notified of every cancelled call."""
        await DeferredList(list(self._cancellations))

    async def _simple(
        self, context: Context, action: str, family: str, payload: Mapping[str, Any], member: str
    ) -> dict[str, Any]:
        """Make one request that only reads, and has neither questions nor events."""
        operation = McpOperation(
            action=action,
            family=family,
            payload=payload,
            session_id=context.conversation.session_id,
            reads=True,
        )
        return self._result(context, await self._execute(operation), member)

    async def _operate(
        self,
        context: Context,
        action: str,
        family: str,
        payload: Mapping[str, Any],
        member: str,
        *,
        uri: str | None = None,
    ) -> dict[str, Any]:
        """Make one request that may report progress, log, and ask for input."""
        params = context.params
        modern = context.modern
        task_id, given = os.urandom(16).hex(), dict[str, Any]()
        if modern and isinstance(params.get("requestState"), str):
            task_id, state = unpack_state(params["requestState"])
            given = {} if state is None else {"requestState": state}
        if modern and "inputResponses" in params:
            given["inputResponses"] = params["inputResponses"]
        if not modern and context.conversation.roots is not None:
            # A server that got the roots once is notified of changes before it is called.
            given["inputResponses"] = {ROOTS: context.conversation.roots}
        meta, session_id = context.forwarded_meta(), context.conversation.session_id
        notices = HeldNotices(context, self._clock)

        async def ask(more: Mapping[str, Any]) -> Reply:
            operation = McpOperation(
                action=action,
                family=family,
                payload={**payload, "_meta": meta, **more},
                session_id=session_id,
                task_id=task_id,
                decoded=True,
            )
            answered = await self._execute(operation, self._make_listener(context, notices))
            context.octets = len(answered.body)
            return answered

        try:
            reply = await ask(given)
            if not modern:
                reply = await ask_until_final(context, ask, reply)
        except BaseException as error:
            # The client has left, or the call waits for input that never comes.
            if not (isinstance(error, McpFault) and error.code == UNREACHABLE):
                self._cancel(session_id, task_id)
            raise
        finally:
            notices.end()
        required = input_required(reply)
        if required is not None:
            state = required.get("requestState")
            packed = pack_state(task_id, state if isinstance(state, str) else None)
            return {**required, "requestState": packed, "_meta": {AUDIT_ID: reply.audit_id}}
        return self._result(context, reply, member, uri)

    async def _execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        try:
            reply = await self._link.execute(operation, on_event)
        except ClientError as error:
            raise unreachable_fault(error) from error
        if len(reply.body) > LARGE and reply.encoded is None:
            with suppress(ValueError):  # the error for text that is not JSON is made below
                await self._link.offload(reply.json)
        return reply

    def _result(self, context: Context, reply: Reply, member: str, uri: str | None = None) -> dict[str, Any]:
        complete = {"resultType": "complete"} if context.modern else {}
        if not reply.ok:
            answer = self._answer_for_models(reply) if member == "tool_response" else None
            if answer is None:
                raise refusal_fault(reply, modern=context.modern, uri=uri, name=self._shown_name)
            return {**complete, **answer, "_meta": {**answer["_meta"], AUDIT_ID: reply.audit_id}}
        whole = reply.result
        found = whole.get(member) if isinstance(whole, dict) else None
        if not isinstance(found, dict):
            raise unreachable_fault(
                ClientError("The host's answer has no MCP result.", "Is this an AGTP host of the same version?")
            )
        meta = found.get("_meta")
        kept = {name: value for name, value in meta.items() if name != SERVER_INFO} if isinstance(meta, dict) else {}
        result = {**complete, **found, "_meta": {**kept, AUDIT_ID: reply.audit_id}}
        if reply.encoded is None or len(reply.body) <= HEAVY:
            return result
        return RelayedResult(result, found, reply.encoded.octets.removeprefix(b'{"%b":' % member.encode())[:-1])

    def _answer_for_models(self, reply: Reply) -> dict[str, Any] | None:
        """Return the tool's answer for a call that was not made, if models shall see why; None for an error."""
        if reply.reason in _SHOWN_TO_MODELS:
            return answer_of(reply, self._shown_name)
        return None if reply.approval is None else held_answer(reply, reply.approval)

    def _shown_name(self, name: str) -> str | None:
        """Return the clients' name of a tool or a prompt; None where this relay does not show it."""
        return self._tools.show(name) if self._tools.shows(name) else None

    def _make_listener(self, context: Context, notices: HeldNotices) -> OnEvent:
        """Return a function that passes on progress and log messages, and reports while the request is held."""

        def tell(event: Mapping[str, Any]) -> None:
            kind = event.get("type")
            if kind == HELD:
                notices.begin(str(event.get("approval_id", "")))
                return
            notices.end()
            if kind == "progress":
                context.progress(event.get("progress", 0), event.get("total"), event.get("message"))
            elif kind == "log" and context.wants_log(event.get("level")):
                known = {name: event[name] for name in ("level", "logger", "data") if name in event}
                context.channel.notify("notifications/message", {"data": None, **known})

        return tell

    def _cancel(self, session_id: str, task_id: str) -> None:
        """Notify the host that a call is cancelled, which the end of a connection does not show."""

        async def farewell() -> None:
            operation = McpOperation(
                action="mcp.requests.cancel",
                family="tools",
                payload={"task_id": task_id},
                session_id=session_id,
                reads=True,
                seconds=_CANCEL_SECONDS,
            )
            try:
                await self._link.execute(operation)
            except ClientError:
                return  # The host cancels the call when its time is over.

        told = Deferred.fromCoroutine(farewell())
        if not told.called:
            self._cancellations.add(told)
            told.addBoth(lambda _: self._cancellations.discard(told))


def _complete(context: Context, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the mark that the client's era has for complete ones."""
    return {"resultType": "complete", **answer} if context.modern else answer
