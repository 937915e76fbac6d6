"""
The bridge's side of AGTP: requests on behalf of MCP clients, as the one agent whose certificate the bridge has.

A request that could not be sent, because the host is away, is tried again for a while; one that was sent is never sent
twice unless it only reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool

from agtphost.client import Client
from agtphost.client.errors import CannotConnect, VerificationFailed
from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.mcp.requests import execute
from agtphost.client.reply import Reply
from agtphost.identity.keys import VerifyingKey
from agtphost.mcp.link import LONGEST_CALL, OnEvent, Operation
from agtphost.protocols.steady import use_steady_clock as use_steady_clock

RECONNECT_SECONDS = 20.0
"""How long a host that is away is waited for."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 3.0


@dataclass(frozen=True, kw_only=True)
class HostLink:
    """Where requests go: an :class:`agtphost.mcp.link.Link`."""

    client: Client
    clock: IReactorTime
    uri: str
    path: str = "/"
    """``/mcp/NAME`` for one server alone."""

    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """The host's signing keys: every record is checked with them; empty: none is."""

    reconnect: float = RECONNECT_SECONDS
    approval_wait: float = 0.0
    """Seconds for which a call that a person has to approve waits for that."""

    async def greet(self, session_id: str) -> None:
        """Nothing is asked: clients may begin before their host, which says no to the first thing that it is asked."""

    async def execute(self, operation: Operation, on_event: OnEvent | None = None) -> Reply:
        """See :class:`agtphost.mcp.link.Link`: whoever cancels drops the connection, which tells the host."""

        def interim(reply: Reply) -> None:
            event = reply.result.get("event") if isinstance(reply.result, dict) else None
            if on_event is not None and isinstance(event, dict):
                on_event(event)

        return await self._patiently(
            lambda: self.client.call(
                self.uri,
                "EXECUTE",
                self.path,
                execute(operation.action, operation.family, operation.payload),
                stream=None if on_event is None else interim,
                timeout=operation.seconds,
                task_id=operation.task_id,
                session_id=operation.session_id,
                idempotent=operation.reads,
                wait_for_approval=self.approval_wait,
            )
        )

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """See :class:`agtphost.client.mcp.endpoints.EndpointLink`."""
        return await self._patiently(
            lambda: self.client.call(
                self.uri,
                call.method,
                call.path,
                call.input,
                timeout=LONGEST_CALL,
                session_id=call.session_id,
                idempotent=call.idempotent,
                wait_for_approval=wait_for_approval,
            )
        )

    async def manifest(self) -> Mapping[str, Any]:
        """The host's manifest, from memory while the host says that it is the same."""
        found = await self.client.manifest(self.uri, keys=self.keys or None)
        return found.document

    async def offload(self, function: Callable[..., Any], *given: Any) -> Any:
        """See :class:`agtphost.client.mcp.endpoints.EndpointLink`: in a thread of the reactor's pool."""
        reactor: Any = self.clock
        return await deferToThreadPool(reactor, reactor.getThreadPool(), function, *given)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def _patiently(self, attempt: Callable[[], Awaitable[Reply]]) -> Reply:
        """An answer that can be believed, of a host that may be away for a while."""
        end = self.clock.seconds() + self.reconnect
        pause = _FIRST_PAUSE
        while True:
            try:
                reply = await attempt()
                break
            except CannotConnect:
                if self.clock.seconds() + pause > end:
                    raise
                await deferLater(self.clock, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._believe(reply)
        return reply

    def _believe(self, reply: Reply) -> None:
        if not self.keys or reply.record is None:
            return
        verification = reply.verify(self.keys)
        if not verification.ok:
            failed = ", ".join(check.name for check in verification.failures)
            raise VerificationFailed(
                f"The record {reply.audit_id} of the answer does not verify ({failed}).",
                "Do not rely on the answer; ask the operator of the host.",
            )
