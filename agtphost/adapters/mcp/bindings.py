"""Hosted tools, resources and prompts as bindings, so that the same gates decide about them as about other methods."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from agtphost.adapters.callers import caller_of
from agtphost.adapters.mcp.elicitation import CallContext
from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.adapters.mcp.session import ClientSession, own_meta
from agtphost.adapters.mcp.tools import McpTool
from agtphost.adapters.mcp.tracing import link_meta, request_span, tool_failed
from agtphost.config.upstreams import MCPServerSection, Override, ToolOverride
from agtphost.contract.binding import Binding
from agtphost.contract.carried_call import CarriedCall, ToolAddress
from agtphost.contract.schemas import CompiledSchema
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.log_context import is_traced
from agtphost.handlers.tracing import end_span_after
from agtphost.upstream.failures import RulesUnmatched
from agtphost.vocabulary import media_types
from agtphost.vocabulary.display_names import UNLISTED
from agtphost.vocabulary.status import Status

CALL = "mcp.tools.call"
"""The action that calls a tool (core v08 appendix D)."""

LONGEST_CACHED = 512
"""Characters of the names of a server and a tool whose address is made only once while it is in use."""

_NOTHING: Mapping[str, Any] = {}


@implementer(IBuiltInHandler)
class ToolCall:
    """
    The handler that calls one tool of one server.

    :param server: the supervised server.
    :param tool: the server's own name of the tool.
    :param meta: the caller's ``_meta`` for this call.
    :param again: the caller's ``inputResponses`` and ``requestState``.
    :param output: the schema that results are checked against; None: they are not checked.
    :param listed: whether the server lists the tool; otherwise its name is the caller's text and stays out of traces.
    """

    kind = "mcp"
    member = "tool_response"
    __slots__ = ("_listed", "_tool", "meta", "output", "repetition", "server")

    def __init__(
        self,
        server: IsMcpServer,
        tool: str,
        meta: Mapping[str, Any] = _NOTHING,
        again: Mapping[str, Any] = _NOTHING,
        output: CompiledSchema | None = None,
        *,
        listed: bool = False,
    ) -> None:
        self._listed = listed
        self.server = server
        self._tool = tool
        self.meta = meta
        self.repetition = again
        self.output = output

    @property
    def label(self) -> str:
        """The method and the name; see :attr:`agtphost.adapters.mcp.requests.McpCall.label`."""
        return f"tools/call {self.server.settings.name}.{self._tool}"

    def with_input(self, meta: Mapping[str, Any], again: Mapping[str, Any]) -> ToolCall:
        """Return this call with its caller's ``_meta`` and input."""
        return ToolCall(self.server, self._tool, meta, again, self.output, listed=self._listed)

    def perform(
        self, instance: IsMcpServer, context: BuiltInContext, seconds: float, asking: CallContext | None
    ) -> Awaitable[Mapping[str, Any]]:
        """Send the call; see :class:`agtphost.adapters.mcp.requests.McpCall`."""
        span = request_span(instance, "tools/call", self._tool if self._listed else "") if is_traced() else None
        if span is None:
            return instance.call_tool(self._tool, context.input, self.meta, seconds, asking, caller_of(context))
        meta = link_meta(self.meta, span)
        calling = instance.call_tool(self._tool, context.input, meta, seconds, asking, caller_of(context))
        return end_span_after(span, calling, tool_failed)

    def handle(self, context: BuiltInContext) -> Awaitable[Answer]:
        """
        Call the tool; ``isError`` results are results.

        :raises agtphost.errors.Refusal: as adapters section 1.1 maps failures.
        """
        return self.server.calls.perform(context, self)


@implementer(IBuiltInHandler)
class McpRequest:
    """
    The handler of another request to one server: a read, a prompt, a completion.

    :param server: the supervised server.
    :param method: the MCP method.
    :param params: its parameters, without ``_meta``.
    :param name: the resource or prompt that is asked for.
    :param meta: the caller's ``_meta``.
    :param again: the caller's ``inputResponses`` and ``requestState``.
    """

    kind = "mcp"
    member = "mcp_response"
    output = None
    __slots__ = ("_method", "_params", "label", "meta", "repetition", "server")

    def __init__(
        self,
        server: IsMcpServer,
        method: str,
        params: Mapping[str, Any],
        name: str,
        meta: Mapping[str, Any] = _NOTHING,
        again: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.server = server
        self._method = method
        self._params = params
        self.label = f"{method} {server.settings.name}.{name}"
        self.meta = meta
        self.repetition = again

    def perform(
        self, instance: IsMcpServer, context: BuiltInContext, seconds: float, asking: CallContext | None
    ) -> Awaitable[Mapping[str, Any]]:
        """Send the request; see :class:`agtphost.adapters.mcp.requests.McpCall`."""

        # The name of a resource or prompt is the caller's text, so the span does not have it.
        span = request_span(instance, self._method)
        meta = self.meta if span is None else link_meta(self.meta, span)

        def send(session: ClientSession, timeout: float | None) -> Deferred[Any]:
            if instance.is_off:
                raise RulesUnmatched
            params = dict(self._params)
            if meta:
                params["_meta"] = own_meta(meta)
            if asking is not None:
                params.update(asking.again)
            return session.request(self._method, params, timeout, asking)

        asked = instance.request(send, seconds, asking, caller_of(context))
        return asked if span is None else end_span_after(span, asked)

    def handle(self, context: BuiltInContext) -> Awaitable[Answer]:
        """
        Send the request and return its answer.

        :raises agtphost.errors.Refusal: as adapters section 1.1 maps failures.
        """
        return self.server.calls.perform(context, self)


def override_of(overrides: Mapping[str, Override], key: str) -> Override | None:
    """Return the override for a resource or a prompt: that of its exact name, or of the longest matching prefix."""
    exact = overrides.get(key)
    if exact is not None:
        return exact
    fitting = [name for name in overrides if name.endswith("*") and key.startswith(name[:-1])]
    return overrides[max(fitting, key=len)] if fitting else None


def resource_binding(
    server: IsMcpServer,
    handler: IBuiltInHandler,
    kind: str,
    name: str,
    override: Override | None,
    *,
    listed: bool = True,
) -> Binding:
    """
    Return the binding of a resource or a prompt.

    :param kind: ``resource`` or ``prompt``.
    :param listed: whether the server lists it; the name of another one is the caller's.
    """
    scopes = server.settings.resource_scopes if kind == "resource" else server.settings.prompt_scopes
    extra = {"mcp_server": server.settings.name, f"mcp_{kind}": name, **({} if listed else {UNLISTED: True})}
    return _bind(server, handler, name, scopes, override, extra=extra, state_changing=False)


def _bind(
    server: IsMcpServer,
    handler: IBuiltInHandler,
    name: str,
    scopes: tuple[str, ...],
    override: Override | None,
    *,
    extra: Mapping[str, Any],
    state_changing: bool = True,
) -> Binding:
    """Return a binding with the rights that the operator demands for this name, or else for the whole server."""
    settings = server.settings
    if override is not None and override.scopes is not None:
        scopes = override.scopes
    return Binding(
        method="EXECUTE",
        path=f"/mcp/{settings.name}",
        handler=handler,
        tier="B",
        name=f"{settings.name}.{name}",
        required_scopes=scopes,
        scope_status=Status.SCOPE_VIOLATION,
        min_assurance=settings.least_assurance(override, server.floor, changes=state_changing),
        state_changing=state_changing,
        timeout=settings.timeout,
        extra=extra,
    )


def tool_call(server: str, tool: str) -> CarriedCall:
    """Return the EXECUTE of a tool. The tool's name has its server's, for a tool can have another server's name."""
    return CarriedCall(
        action=CALL, payload_type=media_types.MCP_TOOLS, constants={"tool": f"{server}.{tool}"}, member="arguments"
    )


def tool_address(server: str, tool: str) -> ToolAddress:
    """Return where a tool is called. It names the server too, so that no other server's tool is meant."""
    return _address_of(server, tool) if len(server) + len(tool) <= LONGEST_CACHED else _make_address(server, tool)


@lru_cache(1_024)
def _address_of(server: str, tool: str) -> ToolAddress:
    """Return the address that the gateway asks for at each call of a tool: nothing but the two names is in it."""
    return _make_address(server, tool)


def _make_address(server: str, tool: str) -> ToolAddress:
    call = tool_call(server, tool)
    return ToolAddress(path="/", call=replace(call, constants={**call.constants, "server": server}))


def tool_binding(server: IsMcpServer, tool: McpTool) -> Binding:
    """Return the binding of a tool whose definition is known."""
    settings = server.settings
    override = settings.tools.get(tool.name)
    semantic = semantic_block(tool.definition, override)
    approval = needs_approval(settings, override, str(semantic["impact"]))
    output = tool.output if settings.validate_output else None
    return replace(
        unlisted_binding(server, tool.name),
        call=tool_call(settings.name, tool.name),
        extra={"mcp_server": settings.name, "mcp_tool": tool.name},
        handler=ToolCall(server, tool.name, output=output, listed=True),
        structured=None if tool.output is None else tool.output.schema,
        description=str(tool.definition.get("description") or ""),
        input_schema=tool.schema,
        approval=approval,
        why_approved=_explain_approval(settings, override, tool) if approval else "",
        unknown=None,
        details={
            "semantic": semantic,
            "input_schema": tool.definition["inputSchema"],
            "definition_digest": tool.digest,
            "mcp": tool.definition,
            **({"approval": "required"} if approval else {}),
        },
    )


def unlisted_binding(server: IsMcpServer, tool: str) -> Binding:
    """
    Return the binding of a tool whose server has not listed its tools yet.

    It demands what the configuration demands; the call then finds out whether the server comes up and has the tool.
    """
    settings = server.settings
    extra = {"mcp_server": settings.name, "mcp_tool": tool, UNLISTED: True}
    override = settings.tools.get(tool)
    # A tool changes state unless the operator, not the server, declares it informational.
    reads = override is not None and override.impact == "informational"
    binding = _bind(
        server, ToolCall(server, tool), tool, settings.scopes, override, extra=extra, state_changing=not reads
    )
    neighbour = stand_in_binding(server, tool)
    asked = (binding.required_scopes, binding.min_assurance)
    if asked != (neighbour.required_scopes, neighbour.min_assurance):
        binding = replace(binding, alike=neighbour)
    # The impact is unknown, so the worst is assumed.
    approval = needs_approval(settings, override, impact_of({}, override))
    return replace(binding, approval=approval, unknown=server.wait_until_up)


def stand_in_binding(server: IsMcpServer, tool: str) -> Binding:
    """Return a binding for an unknown tool, with the rights that the server's settings demand for every tool."""
    extra = {"mcp_server": server.settings.name, "mcp_tool": tool, UNLISTED: True}
    return _bind(server, ToolCall(server, tool), tool, server.settings.scopes, None, extra=extra)


def needs_approval(settings: MCPServerSection, override: ToolOverride | None, impact: str) -> bool:
    """Return whether a person must approve each call of a tool, by the tool's settings or its server's."""
    if settings.approval == "required" or (override is not None and override.approval is not None):
        return True
    return settings.approval == "irreversible" and impact == "irreversible"


def _explain_approval(settings: MCPServerSection, override: ToolOverride | None, tool: McpTool) -> str:
    """Return why a tool counts as irreversible that nothing declares so, and which setting changes that; else empty."""
    annotations = tool.definition.get("annotations")
    hints: Mapping[str, Any] = annotations if isinstance(annotations, dict) else {}
    if settings.approval == "required" or (override is not None and (override.approval or override.impact)):
        return ""
    if "destructiveHint" in hints:
        return ""
    return (
        f"The MCP server {settings.name} does not say what this tool changes, and so it counts as irreversible: "
        f'write impact = "reversible" or "informational" in [mcp.server.tools.{tool.name}] where it is less.'
    )


_CAPABILITY = {"informational": "retrieval", "reversible": "modification", "irreversible": "transaction"}


def impact_of(annotations: Mapping[str, Any], override: ToolOverride | None) -> str:
    """Return one of the three impacts; a tool that declares nothing counts as destructive, as in MCP."""
    if override is not None and override.impact is not None:
        return override.impact
    if annotations.get("readOnlyHint") is True:
        return "informational"
    return "reversible" if annotations.get("destructiveHint") is False else "irreversible"


def semantic_block(definition: Mapping[str, Any], override: ToolOverride | None) -> dict[str, object]:
    """
    Return the ``semantic`` block that lists show for a tool.

    :param definition: the tool as ``tools/list`` gave it.
    """
    annotations = definition.get("annotations")
    hints: Mapping[str, Any] = annotations if isinstance(annotations, dict) else {}
    impact = impact_of(hints, override)
    name = str(definition["name"])
    title = definition.get("title") or hints.get("title")
    return {
        "intent": _text(definition.get("description")) or f"Call the MCP tool {name}.",
        "actor": "agent",
        "outcome": _text(title) or f"The result of {name}.",
        "capability": _CAPABILITY[impact],
        "confidence": 0.9 if hints.get("openWorldHint") is False else 0.7,
        "impact": impact,
        "is_idempotent": impact == "informational" or hints.get("idempotentHint") is True,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
