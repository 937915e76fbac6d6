"""
Which tool definitions are approved, durably, and how a changed one is approved again.

Design decision 16: a definition is pinned by its digest when it is first
listed; one that differs is off until an operator approves it. The pins
outlive the host in one file of its state directory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.tool_record import ToolRecord
from agtphost.adapters.mcp.tools import ToolPins
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IHandler
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.status import Status

APPROVER = "mcp:tools:approve"
"""The scope of agents that may approve tools."""

log = Logger(namespace="agtphost.mcp")

Aside = Callable[[Callable[[], None]], Awaitable[None]]
"""Calls a function off the reactor, one after the other."""


class PinFile:
    """
    The approved digests of all servers.

    :param path: the file; it need not exist.
    :raises ValueError: the file is there and is not one that this class wrote: nothing is approved by guessing.
    :raises OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pins: dict[str, dict[str, str]] = {}
        if path.exists():
            read = jsontext.decode(path.read_bytes())
            if not isinstance(read, dict) or not all(_is_pins(pins) for pins in read.values()):
                raise ValueError(f"{path} is no file of approved tools")
            self._pins = read

    def of(self, server: str, configured: Mapping[str, str]) -> Mapping[str, str]:
        """
        The approved digests of one server.

        :param configured: those of its settings, which win.
        """
        pins = self._pins.setdefault(server, {})
        pins.update(configured)
        return pins

    def adopt(self, server: str, pins: ToolPins) -> None:
        """Take over what a server's pins are now."""
        self._pins[server] = dict(pins.approved)

    def write(self) -> None:
        """
        Make the file say what is approved; all or nothing, and durable.

        :raises OSError: it does not.
        """
        octets = jsontext.encode(self._pins)
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(octets)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_pins(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values())


class Approval:
    """
    Approves tools for operators, and keeps the file.

    :param file: None on a host that keeps none.
    :param aside: calls a function off the reactor.
    :param operators: key fingerprints of operators.
    :param record: puts what happens into the ledger; None on a host that keeps none.
    """

    def __init__(
        self,
        file: PinFile | None = None,
        aside: Aside | None = None,
        operators: frozenset[str] = frozenset(),
        record: ToolRecord | None = None,
    ) -> None:
        self._record = record
        self._file = file
        self._aside = aside
        self._operators = operators
        self._servers: dict[str, McpServer] = {}
        self._writing: Deferred[None] | None = None
        self._again = False

    def watch(self, servers: Mapping[str, McpServer]) -> None:
        """Approve at these servers."""
        self._servers.update(servers)

    def pins(self, server: str, configured: Mapping[str, str]) -> ToolPins:
        """The pins that a server begins with."""
        record = self._record
        differs = (lambda *changed: None) if record is None else partial(record.changed, server)
        if self._file is None:
            return ToolPins(configured, differs=differs)
        return ToolPins(self._file.of(server, configured), changed=self._changed, differs=differs)

    def of(self, tool: str, server: str | None) -> IHandler:
        """What answers a request to approve a tool."""
        return _Approve(self, tool, server)

    def require_operator(self, context: EndpointContext) -> str:
        """
        :return: who it is: the fingerprint of the operator's key, or the Agent-ID.
        :raises Refusal: 403 for everyone but operators.
        """
        certificate = context.peer.certificate if context.peer is not None else None
        if certificate is not None and certificate.fingerprint in self._operators:
            return certificate.fingerprint
        caller = context.caller if context.assurance is Assurance.CERTIFICATE else None
        if caller is not None and not scopes.missing(context.scopes, (APPROVER,)):
            return caller.agent_id
        raise Refusal(
            Status.FORBIDDEN,
            "operators-only",
            "Tools are approved by operators.",
            remedy=f"Connect with the certificate of an operator, or of an agent that has the scope {APPROVER}.",
        )

    async def approve(self, tool: str, server: str | None, approver: str) -> Mapping[str, Any]:
        """
        Approve the present definition of a tool, durably; first it is on record, then it counts.

        :param approver: the key fingerprint or the Agent-ID.
        :return: the tool and the digest of its definition.
        :raises Refusal: 409 where it changed once more meanwhile; 422 for an unknown tool; 503 where the store is down.
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
        digest = found.catalogue.tools[bare].digest
        if self._record is not None:
            replaced = found.catalogue.pins.approved.get(bare, "")
            await self._record.approved(name, bare, digest, replaced, approver)
        now = found.catalogue.tools.get(bare)
        if now is None or now.digest != digest:
            raise Refusal(
                Status.CONFLICT,
                "tool-definition-changed",
                "The tool's definition changed again while it was being approved; it is off.",
                remedy="Look at the new definition, and approve that.",
                details={"tool": f"{name}.{bare}"},
            )
        found.catalogue.approve(bare)
        for instance in found.instances.all():
            instance.catalogue.judge()
        log.info("tool {tool} is approved as it is now", tool=f"{name}.{bare}")
        await self._write()
        return {"tool": f"{name}.{bare}", "definition_digest": digest}

    # Behind these

    def _changed(self) -> None:
        writing = Deferred.fromCoroutine(self._write())
        writing.addErrback(lambda failure: log.failure("approved tools cannot be written down", failure))

    async def _write(self) -> None:
        """Write the file once, or once more where it is being written: what is written is always the newest."""
        file = self._file
        if file is None or self._aside is None:
            return
        if self._writing is not None:
            self._again = True
            done: Deferred[None] = Deferred()
            self._writing.addBoth(done.callback)
            await done
            if not self._again:
                return
        self._again = False
        for name, server in self._servers.items():
            file.adopt(name, server.catalogue.pins)
        ended: Deferred[None] = Deferred()
        self._writing = ended
        try:
            await self._aside(file.write)
        finally:
            self._writing = None
            ended.callback(None)


@implementer(IHandler)
class _Approve:
    """Answers ``mcp.tools.approve``."""

    kind = "mcp"

    def __init__(self, approval: Approval, tool: str, server: str | None) -> None:
        self._approval = approval
        self._tool = tool
        self._server = server

    async def handle(self, context: EndpointContext) -> EndpointResponse:
        approver = self._approval.require_operator(context)
        result = await self._approval.approve(self._tool, self._server, approver)
        return EndpointResponse(result={"mcp_response": result}, extra={"mcp_tool_approved": dict(result)})
