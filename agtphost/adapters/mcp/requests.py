"""The interfaces between :mod:`.server` and the modules that call it or are a part of it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import LogLevel

from agtphost.adapters.mcp.elicitation import CallContext, PendingCall
from agtphost.adapters.mcp.roots import Roots, ServerRoots
from agtphost.adapters.mcp.session import Send
from agtphost.adapters.mcp.versions import Negotiated
from agtphost.config.upstreams import MCPServerSection
from agtphost.contract.schemas import CompiledSchema
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.upstream.queue import Caller


class IsMcpServer(Protocol):
    """A server, or a caller's own instance of it: see :class:`agtphost.adapters.mcp.server.McpServer`."""

    settings: MCPServerSection
    isolated: bool
    floor: Assurance
    refused_revision: bool
    asks_roots: bool
    roots: ServerRoots
    clock: IReactorTime

    @property
    def terms(self) -> Negotiated | None:
        """The negotiated terms; None while it is not up."""

    @property
    def calls(self) -> PerformsCalls:
        """The tracker of its calls."""

    @property
    def is_off(self) -> bool:
        """Whether the whole server is off, because a rule of the operator matches nothing."""

    @property
    def busy(self) -> bool:
        """Whether a call is in flight or suspended, or a caller listens."""

    @property
    def last_used(self) -> float:
        """The reactor's time of the last call."""

    def startService(self) -> None:
        """Start the server."""

    def stopService(self) -> Deferred[None]:
        """Stop the server."""

    def seconds(self) -> float:
        """Return the reactor's time."""

    def say(self, text: str, level: LogLevel) -> None:
        """Log a text that concerns one caller."""

    def octets_of(self, result: object) -> bytes:
        """Return the JSON of a result that was just received, as the server wrote it; nothing where it is not known."""

    def instance_of(self, agent_id: str, session_id: str | None) -> IsMcpServer:
        """Return the server or instance for a caller."""

    async def choose_instance(
        self,
        agent_id: str,
        session_id: str | None,
        meta: Mapping[str, Any],
        seconds: float,
        roots: Roots | None = None,
    ) -> IsMcpServer:
        """Return the server or instance for one request."""

    async def wait_until_up(self, seconds: float | None = None) -> None:
        """Wait until the server is up."""

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        seconds: float,
        asking: CallContext | None = None,
        caller: Caller = None,
    ) -> Awaitable[Mapping[str, Any]]:
        """Call a tool, once."""

    async def request(
        self, send: Send, seconds: float, asking: CallContext | None = None, caller: Caller = None
    ) -> Mapping[str, Any]:
        """Send a request, once."""

    async def resume(
        self,
        pending: PendingCall,
        responses: Mapping[str, Any],
        seconds: float,
        asking: CallContext,
        caller: Caller = None,
    ) -> Mapping[str, Any]:
        """Continue a suspended call."""

    def release(self, pending: PendingCall) -> None:
        """Cancel a suspended call."""

    def post(self, method: str, params: dict[str, Any], seconds: float) -> Deferred[Any]:
        """Send a request that no caller waits for."""

    def listen(self, method: str, params: dict[str, Any]) -> Deferred[Any]:
        """Send a subscription request, which has no deadline."""


class McpCall(Protocol):
    """A request that EXECUTE carries to a server."""

    @property
    def server(self) -> IsMcpServer:
        """The server that it is for."""

    @property
    def label(self) -> str:
        """The method and the name, so that input is accepted only for the call that asked for it."""

    @property
    def member(self) -> str:
        """The member of ``result`` that has the answer."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The caller's ``_meta``."""

    @property
    def repetition(self) -> Mapping[str, Any]:
        """The caller's ``inputResponses`` and ``requestState``."""

    def perform(
        self, instance: IsMcpServer, context: BuiltInContext, seconds: float, asking: CallContext | None
    ) -> Awaitable[Mapping[str, Any]]:
        """Send the request."""

    @property
    def output(self) -> CompiledSchema | None:
        """The schema that complete results are checked against; None: they are not checked."""


class PerformsCalls(Protocol):
    """A tracker of calls: see :class:`agtphost.adapters.mcp.call_tracker.CallTracker`."""

    async def perform(self, context: BuiltInContext, call: McpCall) -> Answer:
        """Call a server for a caller."""
