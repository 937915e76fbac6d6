"""
Make requests of AGTP for MCP clients, as the one agent whose certificate the bridge has.

A request that could not be sent, because the host is unreachable, is tried again for a while. One that was sent is
never sent twice unless it only reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool

from agtphost.client import Client
from agtphost.client.errors import CannotConnect, HandshakeEnded, VerificationFailed
from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.mcp.host_sessions import HostSessions
from agtphost.client.mcp.requests import execute
from agtphost.client.reply import Reply
from agtphost.identity.keys import VerifyingKey
from agtphost.mcp.link import LONGEST_CALL, McpOperation, OnEvent
from agtphost.protocols.steady_timers import use_steady_clock as use_steady_clock

RECONNECT_SECONDS = 20.0
"""Seconds to wait for a host that is unreachable."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 3.0


@dataclass(frozen=True, kw_only=True)
class HostLink:
    """The link to a host over AGTP: an :class:`agtphost.mcp.link.McpHostLink`."""

    client: Client
    clock: IReactorTime
    uri: str
    path: str = "/"
    """The path: ``/mcp/NAME`` for one server alone."""

    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """The host's signing keys, by which every record is verified; empty: none is verified."""

    reconnect: float = RECONNECT_SECONDS
    approval_wait: float = 0.0
    """Seconds for which a call that needs approval waits for it."""

    sessions: HostSessions = field(default_factory=HostSessions)

    async def greet(self, session_id: str) -> None:
        """
        Skip the greeting: a client may start before its host, and the host refuses the first request if it has to.
        """

    async def execute(self, operation: McpOperation, on_event: OnEvent | None = None) -> Reply:
        """
        Make one MCP request. Cancelling one with a Task-ID keeps the connection, since the host is sent
        ``mcp.requests.cancel``; that of another one closes it, or over QUIC resets the stream, so that the host
        notices (:class:`agtphost.mcp.link.McpHostLink`).
        """

        def interim(reply: Reply) -> None:
            event = reply.result.get("event") if isinstance(reply.result, dict) else None
            if on_event is not None and isinstance(event, dict):
                on_event(event)

        patience = operation.reinstatement_wait
        return await self._in_session(
            operation.session_id,
            lambda session_id: self.client.call(
                self.uri,
                "EXECUTE",
                self.path,
                execute(operation.action, operation.family, operation.payload),
                stream=None if on_event is None else interim,
                timeout=operation.seconds,
                task_id=operation.task_id,
                session_id=session_id,
                idempotent=operation.reads,
                wait_for_approval=self.approval_wait,
                cancelled_by_message=operation.task_id is not None,
                headers=[("Prefer", f"wait={patience}")] if patience else [],
            ),
        )

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """Call an endpoint; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        return await self._in_session(
            call.session_id,
            lambda session_id: self.client.call(
                self.uri,
                call.method,
                call.path,
                call.input,
                timeout=LONGEST_CALL,
                session_id=session_id,
                idempotent=call.idempotent,
                wait_for_approval=wait_for_approval,
            ),
        )

    async def manifest(self) -> Mapping[str, Any]:
        """Return the host's manifest, from the cache while the host confirms it."""
        found = await self.client.manifest(self.uri, keys=self.keys or None)
        return found.document

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        """Run a function in the reactor's thread pool; see :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        reactor: Any = self.clock
        return await deferToThreadPool(reactor, reactor.getThreadPool(), function, *given)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def _in_session(self, session_id: str, attempt: Callable[[str], Awaitable[Reply]]) -> Reply:
        """Return a verified answer, in another session where that one has ended with its agent."""
        return await self.sessions.request(session_id, lambda used: self._retry_until_up(lambda: attempt(used)))

    async def _retry_until_up(self, attempt: Callable[[], Awaitable[Reply]]) -> Reply:
        """Return a verified answer, trying again while the host is unreachable."""
        end = self.clock.seconds() + self.reconnect
        pause = _FIRST_PAUSE
        while True:
            try:
                reply = await attempt()
                break
            except (CannotConnect, HandshakeEnded):
                # Nothing was sent: a load balancer without a host behind it ends the handshake.
                if self.clock.seconds() + pause > end:
                    raise
                await deferLater(self.clock, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._verify(reply)
        return reply

    def _verify(self, reply: Reply) -> None:
        if not self.keys or reply.record is None:
            return
        verification = reply.verify(self.keys)
        if not verification.ok:
            failed = ", ".join(check.name for check in verification.failures)
            raise VerificationFailed(
                f"The record {reply.audit_id} of the answer does not verify ({failed}).",
                "Do not rely on the answer; ask the operator of the host.",
            )
