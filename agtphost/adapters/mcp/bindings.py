"""Hosted tools as bindings, so that the gates of every other method decide about them too."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from agtphost.adapters.mcp.failures import CallCancelled, McpFailure
from agtphost.adapters.mcp.refusals import refusal
from agtphost.adapters.mcp.semantics import semantic_block
from agtphost.adapters.mcp.settings import McpServerSettings
from agtphost.adapters.mcp.tools import Tool
from agtphost.contract.binding import Binding
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IHandler
from agtphost.vocabulary.status import Status


class CallsTools(Protocol):
    """What a binding needs of a server."""

    @property
    def settings(self) -> McpServerSettings:
        """What the operator says about it."""

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any], seconds: float
    ) -> Awaitable[Mapping[str, Any]]:
        """Call a tool; its result as received."""

    def seconds(self) -> float:
        """The time that deadlines are told in."""


_NO_META: Mapping[str, Any] = {}


@implementer(IHandler)
class ToolCall:
    """
    Calls one tool of one server.

    :param server: the supervised server.
    :param tool: the server's own name of the tool.
    :param meta: the caller's ``_meta`` for this call.
    """

    kind = "mcp"
    __slots__ = ("_meta", "_server", "_tool")

    def __init__(self, server: CallsTools, tool: str, meta: Mapping[str, Any] = _NO_META) -> None:
        self._server = server
        self._tool = tool
        self._meta = meta

    def with_meta(self, meta: Mapping[str, Any]) -> ToolCall:
        """The same call with the caller's ``_meta``."""
        return ToolCall(self._server, self._tool, meta)

    async def handle(self, context: EndpointContext) -> EndpointResponse:
        """
        Call the tool; ``isError`` results are results.

        :raises Refusal: as adapters.md section 1.1 maps failures.
        """
        server = self._server
        timeout = server.settings.timeout
        if context.deadline:
            timeout = min(timeout, context.deadline - server.seconds())
        try:
            result = await server.call_tool(self._tool, context.input, self._meta, timeout)
        except McpFailure as failure:
            raise refusal(server.settings.name, failure) from failure
        except CancelledError:
            raise refusal(server.settings.name, CallCancelled("the call was cancelled")) from None
        return EndpointResponse(result={"tool_response": result})


def tool_binding(server: CallsTools, tool: Tool) -> Binding:
    """The binding of a tool whose definition is known."""
    settings = server.settings
    override = settings.tools.get(tool.name)
    semantic = semantic_block(tool.definition, override)
    operator_says_harmless = override is not None and override.impact == "informational"
    binding = unlisted_binding(server, tool.name)
    return Binding(
        method=binding.method,
        path=binding.path,
        handler=binding.handler,
        tier=binding.tier,
        name=binding.name,
        description=str(tool.definition.get("description") or ""),
        required_scopes=binding.required_scopes,
        scope_status=binding.scope_status,
        min_assurance=binding.min_assurance,
        input_schema=tool.schema,
        # Records of a tool carry an action_id unless the operator, not the server, calls it harmless.
        state_changing=not operator_says_harmless,
        timeout=binding.timeout,
        extra=binding.extra,
        details={
            "semantic": semantic,
            "input_schema": tool.definition["inputSchema"],
            "definition_digest": tool.digest,
            "mcp": tool.definition,
        },
    )


def unlisted_binding(server: CallsTools, tool: str) -> Binding:
    """
    The binding of a tool whose server has not listed its tools yet.

    It demands what the configuration demands; the call then finds out whether
    the server comes up and has the tool.
    """
    settings = server.settings
    override = settings.tools.get(tool)
    scopes, assurance = settings.scopes, settings.min_assurance
    if override is not None:
        scopes = scopes if override.scopes is None else override.scopes
        assurance = assurance if override.min_assurance is None else override.min_assurance
    return Binding(
        method="EXECUTE",
        path=f"/mcp/{settings.name}",
        handler=ToolCall(server, tool),
        tier="B",
        name=f"{settings.name}.{tool}",
        required_scopes=scopes,
        scope_status=Status.SCOPE_VIOLATION,
        min_assurance=assurance,
        timeout=settings.timeout,
        extra={"mcp_server": settings.name, "mcp_tool": tool},
    )
