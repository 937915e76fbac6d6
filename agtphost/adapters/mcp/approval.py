"""
How a tool definition that changed is approved again.

Design decision 16: a definition is pinned by its digest when it is first
listed; one that differs is off until an operator approves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.adapters.definitions import Definitions
from agtphost.adapters.mcp.kept_pins import KeptPins, pin
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.tool_record import ToolRecord
from agtphost.adapters.mcp.tools import ToolPins, defining
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.vocabulary.status import Status

APPROVER = "mcp:tools:approve"
"""The scope of agents that may approve tools."""

log = Logger(namespace="agtphost.mcp")


class Approval:
    """
    Approves tools for operators.

    :param kept: None on a host that keeps no pins.
    :param authorization: tells who is an operator.
    :param record: puts what happens into the ledger; None on a host that keeps none.
    """

    def __init__(
        self,
        kept: KeptPins | None = None,
        authorization: Authorization | None = None,
        record: ToolRecord | None = None,
    ) -> None:
        self._record = record
        self._kept = kept
        self._authorization = authorization or Authorization()
        self._servers: dict[str, McpServer] = {}

    def watch(self, servers: Mapping[str, McpServer]) -> None:
        """Approve at these servers."""
        self._servers.update(servers)

    def pins(self, server: str, configured: Mapping[str, str]) -> ToolPins:
        """The pins that a server begins with."""
        record = self._record
        differs = (lambda *changed: None) if record is None else partial(record.changed, server)
        if self._kept is None:
            return ToolPins(configured, differs=differs)
        return self._kept.of(server, configured, differs)

    def of(self, tool: str, server: str | None, shown: object) -> IBuiltInHandler:
        """What answers a request to approve a tool; ``shown`` as in :meth:`approve`."""
        return _Approve(self, tool, server, shown)

    def require_operator(self, context: BuiltInContext) -> str:
        """
        :return: who it is: the fingerprint of the operator's key, or the Agent-ID.
        :raises Refusal: 403 for everyone but operators.
        """
        return self._authorization.require(context, APPROVER, "Tools are approved by operators.")

    def shown(self, server: str, tool: str) -> Mapping[str, Any] | None:
        """The approved and the present definition of a tool; None where the server lists none of that name."""
        found = self._servers.get(server)
        if found is None or tool not in found.catalogue.tools:
            return None
        catalogue = found.catalogue
        kept = Definitions("mcp", server, None) if self._kept is None else self._kept.definitions(server)
        return kept.shown(tool, catalogue.pins.approved(tool), defining(catalogue.tools[tool].definition))

    async def approve(self, tool: str, server: str | None, approver: str, shown: str) -> Mapping[str, Any]:
        """
        Approve the present definition of a tool, durably; first it is on record, then it counts.

        :param approver: the key fingerprint or the Agent-ID.
        :param shown: the digest of the definition that the approver looked at.
        :return: the tool and the digest of its definition.
        :raises Refusal: 409 where it changed once more meanwhile, and where the configuration names the digest;
            422 for an unknown tool; 503 where the store is down.
        """
        prefix, _, rest = tool.partition(".")
        name, bare = (prefix, rest) if server is None or prefix == server else (server, tool)
        found = self._servers.get(name)
        if found is None or bare not in found.catalogue.tools:
            raise Refusal(
                Status.UNPROCESSABLE,
                "unknown-tool",
                "No hosted MCP server lists a tool of that name.",
                remedy="agtp tools ls shows what is listed, and what is off.",
            )
        digest, pins = found.catalogue.tools[bare].digest, found.catalogue.pins
        if pins.fixed(bare) and pins.approved(bare) != digest:
            raise Refusal(
                Status.CONFLICT,
                "pinned-by-configuration",
                "The configuration names the approved digest; it has to be changed there.",
                remedy=f"Look at the definition, and write its digest under pins of [[mcp.server]] {name}.",
                details={"tool": f"{name}.{bare}", "definition_digest": digest},
            )
        if shown != digest:
            raise _changed_again(f"{name}.{bare}", digest)
        if self._record is not None:
            await self._record.approved(pin(name, bare, digest), digest, pins.approved(bare), approver)
        now = found.catalogue.tools.get(bare)
        if now is None or now.digest != digest:
            raise _changed_again(f"{name}.{bare}", "" if now is None else now.digest)
        found.catalogue.approve(bare)
        for instance in found.instances.all():
            instance.catalogue.judge()
        log.info("tool {tool} is approved as it is now", tool=f"{name}.{bare}")
        return {"tool": f"{name}.{bare}", "definition_digest": digest}


def require_digest(shown: object) -> str:
    """
    The digest that an approval names: nobody approves what may have changed since it was looked at.

    :raises Refusal: 422 where there is none.
    """
    if isinstance(shown, str) and len(shown) == 64 and not set(shown) - set("0123456789abcdef"):
        return shown
    missing = shown is None
    raise Refusal(
        Status.UNPROCESSABLE,
        "missing-parameter" if missing else "invalid-parameter",
        "An approval names the definition that was looked at: sha256, 64 hexadecimal digits in lower case.",
        remedy="INSPECT with target upstream-definition shows it; agtp tools approve and agtp upstreams approve do so.",
        details={"parameter": "sha256", "parameters": ["sha256"]},
    )


def _changed_again(tool: str, digest: str) -> Refusal:
    return Refusal(
        Status.CONFLICT,
        "tool-definition-changed",
        "The tool's definition is not the one that was to be approved: it changed again, and is off.",
        remedy="Look at the new definition, and approve that.",
        details={"tool": tool, **({"definition_digest": digest} if digest else {})},
    )


@implementer(IBuiltInHandler)
class _Approve:
    """Answers ``mcp.tools.approve``."""

    kind = "mcp"

    def __init__(self, approval: Approval, tool: str, server: str | None, shown: object) -> None:
        self._shown = shown
        self._approval = approval
        self._tool = tool
        self._server = server

    async def handle(self, context: BuiltInContext) -> Answer:
        approver = self._approval.require_operator(context)
        shown = require_digest(self._shown)
        result = await self._approval.approve(self._tool, self._server, approver, shown)
        return Answer(result={"mcp_response": result}, extra={"mcp_tool_approved": dict(result)})
