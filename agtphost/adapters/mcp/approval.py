"""``mcp.tools.approve``: approve a tool definition that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.adapters.mcp.server import McpServer
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.upstream.approval import ApproveDefinition
from agtphost.upstream.pins import Pins
from agtphost.vocabulary.reasons import Reason

APPROVE_SCOPE = "mcp:tools:approve"
"""The scope of agents that may approve tools."""


class ApproveTool(ApproveDefinition):
    """
    The handler that approves the present definition of a tool.

    :param servers: the hosted servers by name.
    :param tool: ``server.tool``, or the bare name where ``server`` is given.
    """

    kind = "mcp"
    scope = APPROVE_SCOPE
    refusal_text = "Tools are approved by operators."

    def __init__(
        self, servers: Mapping[str, McpServer], tool: str, server: str | None, authorization: Authorization
    ) -> None:
        prefix, _, rest = tool.partition(".")
        name, self._tool = (prefix, rest) if server is None or prefix == server else (server, tool)
        found = servers.get(name)
        self._catalogue = None if found is None else found.catalogue
        pins = Pins("mcp", name) if found is None else found.catalogue.pins
        super().__init__("mcp", name, pins, dict, authorization)

    def _find_definition(self, context: BuiltInContext) -> tuple[str, str]:
        tool = None if self._catalogue is None else self._catalogue.tools.get(self._tool)
        if tool is None:
            raise Refusal(
                Reason.UNKNOWN_TOOL,
                "No hosted MCP server lists a tool of that name.",
                remedy="agtp tools ls shows which tools are listed and which are off.",
            )
        return self._tool, tool.digest

    def _make_result(self, name: str, digest: str) -> tuple[Mapping[str, Any], Mapping[str, object]]:
        result = {"tool": f"{self._upstream}.{name}", "definition_digest": digest}
        return {"mcp_response": result}, {"mcp_tool_approved": result}

    def _conflict(self, reason: Reason, explanation: str | None, name: str, digest: str) -> Refusal:
        configured = reason is Reason.PINNED_BY_CONFIGURATION
        return Refusal(
            reason,
            explanation,
            remedy=f"Look at the definition, and write its digest under pins of [[mcp.server]] {self._upstream}."
            if configured
            else "Review the new definition, and approve that one.",
            details={"tool": f"{self._upstream}.{name}", "definition_digest": digest},
        )
