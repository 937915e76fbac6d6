"""Tools of a host's MCP servers, as callers see them: from a name to an EXECUTE, from its answer to a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.client.errors import ProtocolBroken, ToolFailed
from agtphost.client.reply import SHORT, Reply
from agtphost.client.terminal import escape
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.media_types import MCP_TOOLS

ACTION = "mcp.tools.call"
"""The action of the tools of MCP servers, which these calls are for (core v08 appendix D)."""

_SHOWN = 60
"""Characters of a text in a repr."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Tool:
    """A tool that may be called."""

    name: str
    """``SERVER.TOOL``."""

    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the arguments."""

    required_scopes: tuple[str, ...] = ()
    needs_approval: bool = False
    """Whether a person has to approve each call of it."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments, optional ones in brackets."""
        properties, required = self.input_schema.get("properties"), self.input_schema.get("required")
        names = properties if isinstance(properties, dict) else ()
        needed = required if isinstance(required, list) else ()
        return tuple(name if name in needed else f"[{name}]" for name in names)

    def __repr__(self) -> str:
        held = ", needs approval" if self.needs_approval else ""
        return f"<Tool {escape(self.name)}({escape(', '.join(self.arguments))}){held}: {_line(self.description)}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolResult:
    """The result of a tool, and the reply that brought it."""

    tool: str
    reply: Reply
    response: Mapping[str, Any]
    """The ``CallToolResult`` of MCP, or what is in its place: see :attr:`kind`."""

    @property
    def kind(self) -> str:
        """
        The kind of result: ``complete``; ``input_required`` or ``task`` where the tool is not done (docs/mcp.rst).
        """
        return str(self.response.get("resultType", "complete"))

    @property
    def is_error(self) -> bool:
        """Whether the tool says itself that it failed."""
        return self.response.get("isError") is True

    @property
    def content(self) -> list[Any]:
        """Content blocks, as MCP has them."""
        found = self.response.get("content")
        return found if isinstance(found, list) else []

    @property
    def text(self) -> str:
        """The text of all text blocks, a line each."""
        blocks = [block for block in self.content if isinstance(block, dict) and block.get("type") == "text"]
        return "\n".join(str(block.get("text", "")) for block in blocks)

    @property
    def structured(self) -> Any:
        """The result's ``structuredContent``; None where the tool gives none."""
        return self.response.get("structuredContent")

    def json(self) -> Any:
        """
        Return the structured content; where there is none, the text, decoded strictly.

        :raises agtphost.vocabulary.jsontext.JSONTextError: if that is not JSON.
        """
        return self.structured if self.structured is not None else jsontext.decode(self.text.encode())

    @property
    def record(self) -> str | None:
        """The Attribution-Record of the call: JWS Compact."""
        return self.reply.record

    @property
    def audit_id(self) -> str | None:
        """The record's name in the host's audit log."""
        return self.reply.audit_id

    @property
    def verified(self) -> bool:
        """Whether the record was checked, and is genuine."""
        return self.reply.verified

    def raise_for_status(self) -> ToolResult:
        """Return the result itself. :raises agtphost.client.ToolFailed: if the tool says that it failed."""
        if self.is_error:
            raise ToolFailed(self)
        return self

    def __repr__(self) -> str:
        said = "error" if self.is_error else self.kind
        audit = f"Audit-ID {escape(self.audit_id[:SHORT])}" if self.audit_id else "no Audit-ID"
        seen = "verified" if self.verified else "not verified"
        return f"<ToolResult {escape(self.tool)} {escape(said)}, {audit}, {seen}: {_line(self.text)}>"


def _line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return escape(first if len(first) <= _SHOWN else f"{first[: _SHOWN - 3]}...")


def execute(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the EXECUTE that calls a tool."""
    return {"action": ACTION, "payload_type": MCP_TOOLS, "payload": {"tool": tool, "arguments": dict(arguments)}}


def payload_type_of(entry: Mapping[str, Any]) -> str:
    """
    Return the payload type by which a listed tool is called.

    A host of another maker may list tools in MCP's own shape alone (AGTP-API section 5.8.4): these are MCP's.
    """
    return str(entry.get("payload_type", MCP_TOOLS))


def execute_listed(entry: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the EXECUTE that calls a listed tool, as its entry in ``DISCOVER /tools`` says."""
    if "arguments_member" not in entry and payload_type_of(entry) == MCP_TOOLS:
        return execute(str(entry.get("name", "")), arguments)
    constants, member = entry.get("payload"), entry.get("arguments_member")
    given = {member: dict(arguments)} if isinstance(member, str) and member else arguments
    payload = {**(constants if isinstance(constants, dict) else {}), **given}
    return {"action": entry["action"], "payload_type": payload_type_of(entry), "payload": payload}


def tools_of(reply: Reply) -> list[Tool]:
    """
    Return the tools of MCP servers in the answer to ``DISCOVER /tools``.

    Actions of A2A agents and ACP servers and tools of other payload adapters are listed there too, but called by
    EXECUTE.

    :raises agtphost.client.errors.CallRefused: if the host does not list them.
    :raises ProtocolBroken: if it lists something else.
    """
    listed = reply.raise_for_status().result
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ProtocolBroken("The host's answer is not a list of tools.", "Is this an AGTP host of the same version?")
    return [_tool(entry) for entry in listed if payload_type_of(entry) == MCP_TOOLS]


def _tool(entry: Mapping[str, Any]) -> Tool:
    schema = entry.get("inputSchema", entry.get("input_schema"))
    scopes = entry.get("required_scopes")
    return Tool(
        name=str(entry.get("name", "")),
        description=str(entry.get("description") or ""),
        input_schema=schema if isinstance(schema, dict) else {},
        required_scopes=tuple(map(str, scopes)) if isinstance(scopes, list) else (),
        needs_approval=entry.get("approval") == "required",
    )


def result_of(tool: str, reply: Reply) -> ToolResult:
    """
    Return the result of a tool.

    :raises agtphost.client.errors.CallRefused: if the host refused the call; close names of tools are in the message.
    :raises ProtocolBroken: if the answer has no result of a tool.
    """
    result = reply.raise_for_status().result
    found = (
        result.get("tool_response", result if "resultType" in result else None) if isinstance(result, dict) else None
    )
    if not isinstance(found, dict):
        raise ProtocolBroken("The answer has no result of a tool.", "Is this an AGTP host of the same version?")
    return ToolResult(tool=tool, reply=reply, response=found)
