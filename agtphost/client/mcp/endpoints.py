"""
The host's own endpoints, as MCP tools: AGIS v01 appendix C; and the tools that no MCP server has.

For most clients, a function, a recipe or an HTTP service of the host is one more tool, and so is an action of an A2A
agent, an ACP server or a plugin. The tools are those that the caller may call at this moment,
by the host's own list; calling one calls that method on that path, and goes through every gate and into a record like
any other call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote

from agtphost.client.errors import ClientError
from agtphost.client.manifests import MAX_TOKENS
from agtphost.client.mcp.held_calls import held_answer, mark_approval, needs_approval
from agtphost.client.mcp.names import shown_name
from agtphost.client.mcp.refusals import ShownName, facts_of, sentence
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape
from agtphost.client.tools import execute_listed, payload_type_of
from agtphost.contract.tool_names import (
    NamedEndpoint,
    distinct_tool_names,
    hint_faults,
    is_tool_name,
    tool_description,
    tool_input_schema,
)
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.media_types import MCP_TOOLS
from agtphost.vocabulary.paths import parse_template

AUDIT_ID = "agtp/audit-id"
"""Member of every result's ``_meta``: the record of the answer."""

MOST_ENDPOINTS = 2_000
"""Endpoints of one host that are shown."""

FEW = 100
"""Endpoints whose tools are made in about a millisecond."""

SHORT = 16_384
"""Octets of a list of methods that is read in less than that."""

_SAID = frozenset({"status", "reason", "explanation", "remedy", "audit_id"})
"""Facts of a refusal that its sentence has."""

_MARK = re.compile(r"_{2,}", re.ASCII)
_READS = "informational"
_DESTROYS = "irreversible"


@dataclass(frozen=True, kw_only=True)
class EndpointTool:
    """An endpoint, as MCP clients see it."""

    name: str
    method: str
    path: str
    """The template."""

    definition: Mapping[str, Any]
    """The entry of ``tools/list``."""

    idempotent: bool
    entry: Mapping[str, Any] | None = None
    """The entry in ``DISCOVER /tools`` of a tool that EXECUTE calls; None for an endpoint."""

    @property
    def key(self) -> str:
        """The endpoint as ``METHOD /path``; a tool that EXECUTE calls by its name."""
        return f"{self.method} {self.path}" if self.entry is None else str(self.entry["name"])

    def place(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """
        Return where a call goes: the path, with its arguments percent-encoded, and the input that is left.

        :raises ValueError: with a sentence, for an argument of the path that is missing or is not a plain value.
        """
        if self.entry is not None:
            return self.path, execute_listed(self.entry, arguments)
        rest = dict(arguments)
        template = parse_template(self.path)
        names = iter(template.parameters)
        segments = [_segment(next(names), rest) if literal is None else literal for literal in template.segments]
        return "/" + "/".join(segments), rest


@dataclass(frozen=True, kw_only=True)
class EndpointCall:
    """A call of one of the host's own endpoints."""

    method: str
    path: str
    """With the parameters of the template in it."""

    input: Mapping[str, Any]
    session_id: str
    idempotent: bool = False
    """Whether doing it twice does no more than once."""


class EndpointLink(Protocol):
    """The way to a host. :raises ClientError: for calls without an answer that can be believed."""

    @property
    def approval_wait(self) -> float:
        """Seconds for which a call that a person has to approve waits for that."""

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """
        Call an endpoint.

        :param wait_for_approval: seconds; None hands out the first answer.
        """

    async def manifest(self) -> Mapping[str, Any]:
        """Return the host's manifest."""

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call the function in another thread and return its result."""


class Catalogue:
    """
    The tools of all endpoints of a host, made once for everybody who is shown some of them.

    It says nothing of who may call what. Threads may use it.
    """

    def __init__(self) -> None:
        self._made: tuple[object, list[EndpointTool]] = (None, [])

    def has(self, endpoints: object) -> bool:
        """Return whether tools of endpoints are made."""
        return endpoints is not None and self._made[0] is endpoints

    def tools_for(self, endpoints: Any) -> list[EndpointTool]:
        """Return the tools in the order of their names; made anew when the manifest has changed."""
        known, tools = self._made
        if known is not endpoints or endpoints is None:
            tools = tools_of(endpoints)
            self._made = endpoints, tools
        return tools


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The tools that one caller was shown last."""

    digest: bytes = b""
    """Of the host's list of methods."""

    tools: list[EndpointTool]
    """Of all of them."""

    named: Mapping[str, EndpointTool]
    """The same, by name."""

    listed: list[EndpointTool]
    carries: bool = False
    """Whether the host's list has tools that EXECUTE calls and no MCP server has."""


class Endpoints:
    """
    The host's endpoints, as one caller is shown them.

    :param link: the way to the host.
    :param catalogue: the tools of all of them; None: these are the only ones.
    """

    def __init__(self, link: EndpointLink, catalogue: Catalogue | None = None) -> None:
        self._link = link
        self._catalogue = Catalogue() if catalogue is None else catalogue
        self._shown = _Shown(tools=[], named={}, listed=[])
        self._carried: Mapping[str, EndpointTool] = {}
        self._reading = 0

    def find(self, name: str) -> EndpointTool | None:
        """Return the endpoint or tool that clients know by a name, as last listed."""
        return self._shown.named.get(name) or self._carried.get(name)

    async def list_callable(self, session_id: str) -> list[EndpointTool]:
        """
        List what the caller may call, read anew; empty for a host that shows no methods.

        The others are remembered too: a caller that tries one gets the host's refusal, with the missing scope.

        :raises ClientError: if the host gives no credible answer.
        """
        reply = await self._link.call(
            EndpointCall(method="DISCOVER", path="/methods", input={}, session_id=session_id, idempotent=True)
        )
        if not reply.ok:
            return []
        shown = await self._read_listed(reply.body)
        carried = await self._list_carried(session_id) if shown.carries else []
        # Clients may say the host's own name too: no endpoint's has a dot.
        self._carried = {name: tool for tool in carried for name in (tool.name, tool.key)}
        return [*shown.listed, *carried]

    async def _list_carried(self, session_id: str) -> list[EndpointTool]:
        reply = await self._link.call(
            EndpointCall(method="DISCOVER", path="/tools", input={}, session_id=session_id, idempotent=True)
        )
        if not reply.ok:
            return []
        found: list[EndpointTool]
        if len(reply.body) <= SHORT:
            found = carried_tools_of(reply.body)
        else:
            found = await self._link.offload(carried_tools_of, reply.body)
        return found

    async def _read_listed(self, body: bytes) -> _Shown:
        """Return the tools that the host's list of methods permits."""
        endpoints = (await self._link.manifest()).get("endpoints")
        few = self._catalogue.has(endpoints) or not isinstance(endpoints, list) or len(endpoints) <= FEW
        if few and len(body) <= SHORT and not self._reading:
            return self._read(body, endpoints)
        # A short list waits for one that a thread reads: at the same time both would be read.
        self._reading += 1
        try:
            shown: _Shown = await self._link.offload(self._read, body, endpoints)
        finally:
            self._reading -= 1
        return shown

    def _read(self, body: bytes, endpoints: Any) -> _Shown:
        """
        Return the tools that the host's answer to a caller permits; cached by the octets of the answer.

        Thousands of endpoints take tens of milliseconds. Several sessions of a caller that begin together get the
        same answer, so only the first one computes the list.
        """
        known, tools, digest = self._shown, self._catalogue.tools_for(endpoints), sha256(body).digest()
        if known.digest == digest and known.tools is tools:
            return known
        entries = _read_methods(body)
        admitted = {
            _key(entry): needs_approval(entry) for entry in entries if entry.get("tier") == "B" and "tool" not in entry
        }
        listed = [
            replace(tool, definition=mark_approval(tool.definition)) if admitted[key] else tool
            for tool in tools
            if (key := tool.key) in admitted
        ]
        # Set here, and not by the awaiting caller: the next one would not find it.
        self._shown = _Shown(
            digest=digest,
            tools=tools,
            named={tool.name: tool for tool in tools},
            listed=listed,
            carries=any("tool" in entry and payload_type_of(entry) != MCP_TOOLS for entry in entries),
        )
        return self._shown

    async def call(
        self,
        tool: EndpointTool,
        arguments: Mapping[str, Any],
        session_id: str,
        held: Callable[[str], None] = lambda _: None,
    ) -> dict[str, Any]:
        """
        Call an endpoint. A refusal is an answer with ``isError``, which models read.

        :param held: called with the approval that the call waits for.
        :raises ClientError: if the host gives no credible answer.
        """
        try:
            path, rest = tool.place(arguments)
        except ValueError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        call = EndpointCall(
            method=tool.method, path=path, input=rest, session_id=session_id, idempotent=tool.idempotent
        )
        reply = await self._link.call(call)
        if reply.approval is not None and self._link.approval_wait:
            held(reply.approval.approval_id)
            reply = await self._link.call(call, self._link.approval_wait)
        answer = answer_of(reply) if reply.approval is None else held_answer(reply, reply.approval)
        return {**answer, "_meta": {**answer.get("_meta", {}), AUDIT_ID: reply.audit_id}}


def tools_of(endpoints: Any) -> list[EndpointTool]:
    """
    Tools for entries of a manifest's ``endpoints``, in the order of their names; what cannot be one is left out.

    :param endpoints: as received, and so untrusted.
    """
    received = endpoints if isinstance(endpoints, list) else ()
    entries = {_key(entry): entry for entry in received if _is_endpoint(entry)}
    entries = dict(list(entries.items())[:MOST_ENDPOINTS])
    named = [
        NamedEndpoint(method=entry["method"], path=entry["path"], declared=_declared_name(entry))
        for entry in entries.values()
    ]
    # "__" is the mark of hosted tools: SERVER__TOOL.
    names = distinct_tool_names(named, lambda name: _MARK.search(name) is not None)
    # A digest keeps a name apart, and not the mark out of it.
    tools = [_tool(_MARK.sub("_", names[key]), entry) for key, entry in entries.items()]
    return sorted(tools, key=lambda tool: tool.name)


def answer_of(reply: Reply, shown: ShownName | None = None) -> dict[str, Any]:
    """
    Return a CallToolResult for an endpoint's answer, or for a refusal that models shall read.

    :param shown: what clients call a tool of the host.
    """
    if not reply.ok:
        facts = facts_of(reply, shown)
        if "details" in reply.document:
            facts["details"] = reply.document["details"]
        more = {name: value for name, value in facts.items() if name not in _SAID}
        texts = [sentence(facts, brief=True), *([json.dumps(more, ensure_ascii=False)] if more else [])]
        return {
            "content": [{"type": "text", "text": text} for text in texts],
            "isError": True,
            "_meta": {"agtp/refusal": facts},
        }
    result = reply.result
    answer: dict[str, Any] = {"content": [{"type": "text", "text": _text(reply)}], "isError": False}
    if isinstance(result, dict):
        answer["structuredContent"] = result
    return answer


def _read_methods(body: bytes) -> list[Mapping[str, Any]]:
    """Return the entries of the host's list of methods for the caller."""
    try:
        listed = jsontext.decode(body, max_tokens=MAX_TOKENS)
    except ValueError:
        raise ClientError("The host's list of methods is not JSON.", "Is this an AGTP host?") from None
    return [entry for entry in (listed if isinstance(listed, list) else ()) if isinstance(entry, dict)]


def carried_tools_of(body: bytes) -> list[EndpointTool]:
    """
    Return the tools in an answer to ``DISCOVER /tools`` that no MCP server has, in the order of the list.

    A tool with the name of an MCP server's is left out: calls of that name are the server's.
    """
    try:
        listed = jsontext.decode(body, max_tokens=MAX_TOKENS)
    except ValueError:
        raise ClientError("The host's list of tools is not JSON.", "Is this an AGTP host?") from None
    entries = [entry for entry in (listed if isinstance(listed, list) else ()) if _is_listed_tool(entry)]
    of_servers = {entry["name"] for entry in entries if payload_type_of(entry) == MCP_TOOLS}
    return [_carried_tool(entry) for entry in entries if entry["name"] not in of_servers and "action" in entry]


def _is_listed_tool(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(
            isinstance(entry.get(name, otherwise), str)
            for name, otherwise in (("name", None), ("path", None), ("action", ""))
        )
        and isinstance(entry.get("input_schema", {}), dict)
    )


def _carried_tool(entry: Mapping[str, Any]) -> EndpointTool:
    semantic = entry.get("semantic")
    semantic = semantic if isinstance(semantic, dict) else {}
    definition = {
        "name": shown_name(entry["name"]),
        "title": entry["name"],
        "description": str(entry.get("description") or entry["name"]),
        "inputSchema": tool_input_schema(entry.get("input_schema", {})),
        "annotations": _annotations(semantic),
        "_meta": {"agtp/tool": entry["name"], "agtp/required-scopes": entry.get("required_scopes", [])},
    }
    if needs_approval(entry):
        definition = mark_approval(definition)
    return EndpointTool(
        name=definition["name"],
        method="EXECUTE",
        path=entry["path"],
        definition=definition,
        idempotent=semantic.get("is_idempotent") is True,
        entry=entry,
    )


def _annotations(semantic: Mapping[str, Any]) -> dict[str, bool]:
    """Return the annotations of MCP for a semantic block."""
    impact = semantic.get("impact")
    return {
        "readOnlyHint": impact == _READS,
        "destructiveHint": impact == _DESTROYS,
        "idempotentHint": semantic.get("is_idempotent") is True,
    }


def _key(entry: Any) -> str:
    return f"{entry.get('method')} {entry.get('path')}" if isinstance(entry, dict) else ""


def _is_endpoint(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("input_schema", {}), dict):
        return False
    if not all(isinstance(entry.get(name), str) for name in ("method", "path")):
        return False
    try:
        parse_template(entry["path"])
    except ValueError:
        return False
    return isinstance(entry.get("semantic", {}), dict)


def _tool(name: str, entry: Mapping[str, Any]) -> EndpointTool:
    semantic = entry.get("semantic", {})
    schema = tool_input_schema(entry.get("input_schema", {}))
    for parameter in parse_template(entry["path"]).parameters:
        schema = _with_parameter(schema, parameter)
    intent = semantic.get("intent") or entry.get("description") or f"{entry['method']} {entry['path']}"
    hints = semantic.get("parameter_hints")
    definition = {
        "name": name,
        "title": f"{entry['method']} {entry['path']}",
        "description": tool_description(str(intent), _hints(hints)),
        "inputSchema": schema,
        "annotations": _annotations(semantic),
        "_meta": {
            "agtp/endpoint": f"{entry['method']} {entry['path']}",
            "agtp/required-scopes": entry.get("required_scopes", []),
        },
    }
    return EndpointTool(
        name=name,
        method=entry["method"],
        path=entry["path"],
        definition=definition,
        idempotent=semantic.get("is_idempotent") is True,
    )


def _with_parameter(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the schema with a parameter of the path in it, which is always needed."""
    properties, required = schema["properties"], schema["required"]
    if name not in properties:
        schema = {**schema, "properties": {**properties, name: {"type": "string"}}}
    return schema if name in required else {**schema, "required": [*required, name]}


def _declared_name(entry: Mapping[str, Any]) -> str | None:
    """Return the name that the endpoint declares for its tool, if that is a valid one (AGIS v01 section 6)."""
    name = entry.get("semantic", {}).get("mcp_tool_name")
    return name if is_tool_name(name) else None


def _hints(hints: Any) -> Mapping[str, list[str]]:
    """Return the words that users have for its parameters; empty where they are malformed, because models read them."""
    return hints if isinstance(hints, dict) and not any(hint_faults(hints)) else {}


def _segment(name: str, arguments: dict[str, Any]) -> str:
    value = arguments.pop(name, None)
    if isinstance(value, (bool, int, float)):
        value = json.dumps(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"The argument {escape(name)} is missing or is not a plain value: it is a part of the path.")
    return quote(value, safe="")


def _text(reply: Reply) -> str:
    """Return what a client without structured content shows."""
    result = reply.result
    if isinstance(result, str):
        return result
    if result is None:
        return reply.body.decode("utf-8", "replace")
    return json.dumps(result, ensure_ascii=False)
