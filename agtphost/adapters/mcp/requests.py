"""What callers of a server need of it: the seam between :mod:`.server` and everything that it is made of."""

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
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.upstream.queue import Caller


class SendsRequests(Protocol):
    """A server, or a caller's own instance of it: see :class:`agtphost.adapters.mcp.server.McpServer`."""

    settings: MCPServerSection
    isolated: bool
    floor: Assurance
    not_spoken: bool
    asks_roots: bool
    roots: ServerRoots
    clock: IReactorTime

    @property
    def terms(self) -> Negotiated | None:
        """What was agreed with it; None while it is not up."""

    @property
    def calls(self) -> PerformsCalls:
        """What attends to its calls."""

    @property
    def barred(self) -> bool:
        """Whether all of it is off, because a rule of the operator fits nothing."""

    @property
    def busy(self) -> bool:
        """Whether a call is under way or suspended, or somebody listens."""

    @property
    def last_used(self) -> float:
        """When it was last called, reactor time."""

    def startService(self) -> None:
        """Begin."""

    def stopService(self) -> Deferred[None]:
        """End."""

    def seconds(self) -> float:
        """The reactor's time."""

    def say(self, text: str, level: LogLevel) -> None:
        """Log what concerns one caller."""

    def instance_of(self, agent_id: str, session_id: str | None) -> SendsRequests:
        """What serves a caller."""

    async def serving(
        self,
        agent_id: str,
        session_id: str | None,
        meta: Mapping[str, Any],
        seconds: float,
        roots: Roots | None = None,
    ) -> SendsRequests:
        """What serves one request."""

    async def risen(self, seconds: float | None = None) -> None:
        """Wait until it is up."""

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
        """Ask something, once."""

    async def resume(
        self,
        pending: PendingCall,
        responses: Mapping[str, Any],
        seconds: float,
        asking: CallContext,
        caller: Caller = None,
    ) -> Mapping[str, Any]:
        """Go on with a call that was suspended."""

    def release(self, pending: PendingCall) -> None:
        """Give a suspended call up."""

    def post(self, method: str, params: dict[str, Any], seconds: float) -> Deferred[Any]:
        """Send a request that no caller waits for."""

    def listen(self, method: str, params: dict[str, Any]) -> Deferred[Any]:
        """Send a request that lasts."""


class Call(Protocol):
    """One request that EXECUTE carries to a server."""

    @property
    def server(self) -> SendsRequests:
        """Whom it is for."""

    @property
    def named(self) -> str:
        """What it is, so that input is given to the same thing that asked for it."""

    @property
    def member(self) -> str:
        """Where the answer stands in ``result``."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The caller's ``_meta``."""

    @property
    def again(self) -> Mapping[str, Any]:
        """The caller's ``inputResponses`` and ``requestState``."""

    def perform(
        self, instance: SendsRequests, context: BuiltInContext, seconds: float, asking: CallContext | None
    ) -> Awaitable[Mapping[str, Any]]:
        """Send it."""


class PerformsCalls(Protocol):
    """:class:`agtphost.adapters.mcp.calls.CallTracker`."""

    async def perform(self, context: BuiltInContext, call: Call) -> Answer:
        """Call a server for a caller."""
