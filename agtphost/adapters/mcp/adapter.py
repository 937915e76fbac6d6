"""Resolve MCP payloads of EXECUTE: core v08 sections 7.2.8 and 8, core v08 appendix D."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.adapters import precedence
from agtphost.adapters.mcp.bare_names import Admits, bare_binding, hide_behind, tell_ambiguity
from agtphost.adapters.mcp.bindings import CALL, ToolCall, stand_in_binding, tool_address, unlisted_binding
from agtphost.adapters.mcp.call_tracker import AskForRoots, CallTracker
from agtphost.adapters.mcp.lists import list_binding
from agtphost.adapters.mcp.operations import Operations, read_repetition, unknown_server
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.session import own_meta
from agtphost.adapters.mcp.tools import defining_octets
from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import ToolAddress
from agtphost.errors import NamingRefusal, Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.iagtp import IPayloadAdapter, IToolAddresses
from agtphost.identity.required_assurance import OPEN_TO_TOKENS
from agtphost.upstream.offered_tools import OfferedTool
from agtphost.upstream.refusals import rules_unmatched
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary import media_types
from agtphost.vocabulary.mcp_members import ROOTS
from agtphost.vocabulary.reasons import Reason

LIST = "mcp.tools.list"

CLAIMLESS_MEMBERS = frozenset({"tool", "name", "server", "arguments", "inputResponses", "requestState", "_meta"})
"""Members of a tool call's payload that do not repeat a header field, though those of ``_meta`` may."""

_KINDS = (
    "resources",
    "prompts",
    "completion",
    "logging",
    "subscriptions",
    "tasks",
    "requests",
    "sampling",
    "elicitation",
)
"""Payload types besides that of tools."""

_MATCHES = 3
"""The largest number of close names that a refusal suggests."""


_LIST_REMEDY = (
    "EXECUTE mcp.tools.list and DISCOVER /tools list the tools that can be called. "
    f"A caller that a token proves is shown those that the operator opens to tokens: {OPEN_TO_TOKENS}."
)
"""The remedy for an unknown tool. It is the same for every name and caller, so that it reveals nothing about a tool."""

TRACE_MEMBERS = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of ``_meta`` that differ in each repeat of a call without changing the call."""


def _payload_refusal(explanation: str) -> Refusal:
    return Refusal(
        Reason.INVALID_PAYLOAD, explanation, remedy='Send {"tool": "server.tool", "arguments": {...}} as the payload.'
    )


@implementer(IPayloadAdapter, IToolAddresses)
class McpAdapter:
    """
    The payload adapter for MCP.

    :param servers: the hosted servers; their order does not matter.
    :param calls: the tracker that all servers share.
    :param authorization: decides who may approve changed tools.
    """

    name = "mcp"
    payload_types = frozenset({media_types.MCP_TOOLS, *(f"application/vnd.mcp.{kind}+json" for kind in _KINDS)})

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        calls: CallTracker | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._servers: dict[str, McpServer] = {server.settings.name: server for server in servers}
        known = calls or next((server.calls for server in self._servers.values()), None)
        authorization = authorization or Authorization()
        self._operations = None if known is None else Operations(self._servers, known, authorization)
        self._lists = {name: list_binding((server,)) for name, server in self._servers.items()}
        self._list_all = list_binding(tuple(self._servers.values()))

    @property
    def servers(self) -> Mapping[str, McpServer]:
        """Return the hosted servers by name."""
        return self._servers

    def definition(self, upstream: str, name: str) -> Mapping[str, Any] | None:
        """Return the approved and the present definition of a tool; None for an unknown tool."""
        found = self._servers.get(upstream)
        tool = None if found is None else found.catalogue.tools.get(name)
        return (
            None
            if found is None or tool is None
            else found.catalogue.pins.describe(name, defining_octets(tool.definition))
        )

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find the tool that a payload names.

        A tool is ``server.tool``. The server can be left out where the path names it, or where only one server has the
        tool. ``{tool, arguments}`` is the form of the drafts, ``{name, arguments, _meta}`` that of MCP.

        :raises Refusal: 404 for an unknown server; 409 where several servers have the tool; 422 for an unknown action
            or tool, or a malformed payload; 503 where the tool is off, or a server has not listed its tools yet.
        """
        if server is not None and server not in self._servers:
            raise unknown_server(self._servers)
        if action == CALL:
            called, meta = self._call(payload, server), payload.get("_meta")
            if payload.keys() <= CLAIMLESS_MEMBERS:
                return self._add_mismatch_check(called, meta) if meta else called
            return self._add_mismatch_check(called, payload, meta)
        if action == LIST:
            binding = self._list_all if server is None else self._lists[server]
            return Resolution(binding=binding, input=payload if isinstance(payload, dict) else {})
        found = None if self._operations is None else self._operations.resolve(action, payload, server)
        if found is not None:
            # Members such as taskId belong to MCP there.
            return self._add_mismatch_check(found, payload.get("_meta")) if type(payload) is dict else found
        others = () if self._operations is None else self._operations.actions
        raise Refusal(
            Reason.UNKNOWN_ACTION,
            f"MCP payloads do not carry the action {action[:64]!r}.",
            details={"supported_actions": [CALL, LIST, *others]},
        )

    def tools(self) -> list[Binding]:
        """Return every tool that can be called now, in order of name."""
        return [
            binding
            for _, server in sorted(self._servers.items())
            if server.state in (UpstreamState.UP, UpstreamState.IDLE)
            for binding in server.catalogue.bindings.values()
        ]

    def call_of(self, binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the EXECUTE payload of a tool; see :class:`agtphost.iagtp.IPayloadAdapter`."""
        assert binding.call is not None
        return binding.call.parameters(arguments)

    def address_of(self, upstream: str, tool: str) -> ToolAddress | None:
        """Return where a tool is called; see :class:`agtphost.iagtp.IToolAddresses`."""
        return tool_address(upstream, tool) if upstream in self._servers else None

    def find_listed(self, allows: Callable[[Binding], bool]) -> frozenset[str]:
        """Return what lists of resources and prompts contain for whom ``allows`` decides, as far as it is known."""
        return frozenset(() if self._operations is None else self._operations.find_listed(allows))

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        """
        Return the ``hosted_protocols`` entries of the manifest (AGTP-API section 8.6), without values that change per
        call.
        """
        entries = []
        for name, server in sorted(self._servers.items()):
            # The manifest is built again only when an entry changes, so that a full snapshot would be wasteful here.
            entry: dict[str, object] = {"protocol": "MCP", "method": "EXECUTE", "path": f"/mcp/{name}"}
            if server.terms is not None:
                entry["version"] = server.terms.version
            tools = len(server.catalogue.bindings)
            entries.append({**entry, "name": name, "state": server.state.value, "tools": tools})
        return entries

    def describe_protocols(self) -> Sequence[Mapping[str, object]]:
        """Return the entries of :meth:`hosted_protocols` with the present state of each server, for DESCRIBE."""
        return [
            {**entry, **self._servers[str(entry["name"])].snapshot().to_json()} for entry in self.hosted_protocols()
        ]

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        """Return the full state of each server, for operators."""
        reports = []
        for name, server in sorted(self._servers.items()):
            report = {"name": name, "protocol": "MCP", **server.snapshot().to_full_json()}
            report["instances"] = [each.snapshot().to_full_json() for each in server.instances.all()]
            reports.append(report)
        return reports

    def list_offered(self) -> Iterator[OfferedTool]:
        """Return every tool of every server, including those that are off, for operators."""
        for name, server in self._servers.items():
            yield from server.catalogue.list_offered(name, server.state.value)

    def _add_mismatch_check(self, found: Resolution, *places: Any) -> Resolution:
        server = self._servers.get(str(found.binding.extra.get("mcp_server")))
        return found if server is None else precedence.add_mismatch_check(found, places, server.say)

    def _call(self, payload: Any, server: str | None) -> Resolution:
        if type(payload) is not dict:
            raise _payload_refusal("The payload of mcp.tools.call must be an object.")
        tool = payload.get("tool", payload.get("name"))
        arguments = payload.get("arguments")
        meta = payload.get("_meta")
        if type(tool) is not str or not tool:
            raise _payload_refusal("The payload names no tool.")
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict or (meta is not None and type(meta) is not dict):
            raise _payload_refusal("The payload's arguments and _meta must be objects, or absent.")
        named = payload.get("server")
        if server is None and type(named) is str:
            if named not in self._servers:
                raise unknown_server(self._servers)
            server = named
        binding = self._find(tool, server)
        again = read_repetition(payload) if "inputResponses" in payload or "requestState" in payload else {}
        if not (meta or again) or not isinstance(binding.handler, ToolCall):
            return Resolution(binding=binding, input=arguments)
        owner = self._servers[str(binding.extra["mcp_server"])]
        said_before = "requestState" in again or ROOTS in again.get("inputResponses", {})
        if not said_before and owner.sharing.asks_first(meta or {}):
            asking = replace(binding, handler=AskForRoots(), approval=False, unknown=None)
            return Resolution(binding=asking, input=arguments)
        said = {name: value for name, value in own_meta(meta or {}).items() if name not in TRACE_MEMBERS}
        return Resolution(
            binding=binding,
            input=arguments,
            handler=binding.handler.with_input(meta or {}, again),
            beside={name: value for name, value in (("_meta", said), ("again", again)) if value},
        )

    def _find(self, tool: str, server: str | None) -> Binding:
        """
        Find the binding of a tool.

        Where the tool demands other rights than an unknown tool would, its binding also gets the refusal for an unknown
        tool under the name that the caller used.
        """
        found = self._find_named(tool, server)
        neighbour = found.alike
        if neighbour is None or neighbour.missing is not None:
            return found
        missing = self._unknown_tool_refusal(tool, self._split_name(tool, server)[1])
        return replace(found, alike=replace(neighbour, missing=missing, covers=(Reason.AGENT_UNAUTHENTICATED,)))

    def _find_named(self, tool: str, server: str | None) -> Binding:
        prefix, dot, rest = tool.partition(".")
        if dot and prefix in self._servers and server in (None, prefix):
            found = self._find_in(self._servers[prefix], rest)
            if found is not None:
                return found
        searched = list(self._servers.values()) if server is None else [self._servers[server]]
        # A tool that is off counts too: a call that meant it must not reach another server's tool of the same name.
        having = [each for each in searched if tool in each.catalogue.bindings or each.catalogue.withholds(tool)]
        bare = len(searched) > 1 and not (dot and prefix in self._servers)
        if len(having) > 1:
            there = [each.catalogue.bindings.get(tool) or unlisted_binding(each, tool) for each in having]
            named = [(each.name, each) for each in there]
            return bare_binding(
                searched, tool, tell_ambiguity(Reason.AMBIGUOUS_TOOL, named, self._unknown_tool_refusal(tool, searched))
            )
        if having or server is not None:
            found = self._find_in(having[0] if having else searched[0], tool)
            if found is not None:
                return (
                    hide_behind(found, bare_binding(searched, tool, self._unknown_tool_refusal(tool, searched)))
                    if bare
                    else found
                )
        if bare:
            return bare_binding(searched, tool, self._unknown_tool_refusal(tool, searched))
        return self._bind_unknown(tool, *self._split_name(tool, server))

    def _split_name(self, tool: str, server: str | None) -> tuple[str, Sequence[McpServer]]:
        """Return the tool's name without the server's, and the servers that could have it."""
        prefix, dot, rest = tool.partition(".")
        # Where the name has a server, it does not matter that another server has not listed its tools yet.
        if dot and prefix in self._servers and server in (None, prefix):
            return rest, [self._servers[prefix]]
        return tool, list(self._servers.values()) if server is None else [self._servers[server]]

    def _find_in(self, server: McpServer, tool: str) -> Binding | None:
        """
        Return the binding of a tool; while the server has not listed its tools, one with the rights that the settings
        demand.
        """
        catalogue = server.catalogue
        binding = catalogue.bindings.get(tool)
        if binding is not None:
            return binding
        named = {"tool": f"{server.settings.name}.{tool}"}
        if tool in catalogue.changed_tools:
            return _bind_refusal(server, tool, lambda admits: Refusal(Reason.TOOL_DEFINITION_CHANGED, details=named))
        if catalogue.is_off and tool in catalogue.tools:
            return _bind_refusal(server, tool, lambda admits: rules_unmatched(named))
        if tool in catalogue.invalid_tools:
            return _bind_refusal(server, tool, lambda admits: Refusal(Reason.TOOL_SCHEMA_INVALID, details=named))
        override = server.settings.tools.get(tool)
        if not catalogue.was_listed and tool and (override is None or override.enabled):
            return unlisted_binding(server, tool)
        return None

    def _bind_unknown(self, tool: str, bare: str, searched: Sequence[McpServer]) -> Binding:
        """
        Return a binding for a tool that no server has, with the rights that the server demands for every tool.

        :param bare: the tool's name without its server's.
        :param searched: the servers that could have had it.
        :raises Refusal: 503 where one of them has not listed its tools yet.
        """
        missing = self._unknown_tool_refusal(tool, searched)
        if any(not server.catalogue.was_listed for server in searched) or not searched:
            raise missing(lambda binding: False)
        return replace(stand_in_binding(searched[0], bare), missing=missing)

    def _unknown_tool_refusal(self, tool: str, searched: Sequence[McpServer]) -> Callable[[Admits], Refusal]:
        """
        Return a function that makes the refusal for an unknown tool; 503 while a server has not listed its tools yet.
        """

        def missing(admits: Admits) -> Refusal:
            if any(not server.catalogue.was_listed for server in searched):
                return Refusal(Reason.TOOLS_NOT_LISTED, headers=(("Retry-After", "1"),))
            there = [binding for server in searched for binding in server.catalogue.bindings.values()]
            found = NamingRefusal(
                Reason.UNKNOWN_TOOL,
                "No hosted MCP server has a tool of that name.",
                remedy=_LIST_REMEDY,
                among=lambda may: {
                    "close_matches": _close_matches(tool[:128], [each.name for each in there if may(each)])
                },
                asked=(scope for server in self._servers.values() for scope in server.settings.tool_scopes),
            )
            found.name_to(admits)
            return found

        return missing


def _bind_refusal(server: McpServer, tool: str, missing: Callable[[Callable[[Any], bool]], Refusal]) -> Binding:
    """Return a binding for a tool that is off; only callers who could call the tool get the reason."""
    extra = {"mcp_server": server.settings.name, "mcp_tool": tool}
    return replace(unlisted_binding(server, tool), missing=missing, approval=False, unknown=None, extra=extra)


def _close_matches(tool: str, names: list[str]) -> list[str]:
    """Return names that are similar to a name, with or without their servers' names."""
    bare = {name.partition(".")[2]: name for name in names}
    close = difflib.get_close_matches(tool, names, _MATCHES)
    close += [bare[name] for name in difflib.get_close_matches(tool, list(bare), _MATCHES)]
    return list(dict.fromkeys(close))[:_MATCHES]
