"""
The bridge's side of AGTP: EXECUTE requests on behalf of MCP clients.

Connections are the Twisted client's, on asyncio's loop. A request that could
not be sent, because the host is away, is tried again for a while; one that
was sent is never sent twice unless it only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from agtphost.client import Client
from agtphost.client.errors import CannotConnect, ClientError, VerificationFailed
from agtphost.client.mcp.endpoints import EndpointCall
from agtphost.client.mcp.requests import execute
from agtphost.client.reply import Reply
from agtphost.identity.keys import VerifyingKey

LONGEST_CALL = 3600.0
"""Seconds that a call may take here; the host's own deadline is the one that matters."""

RECONNECT_SECONDS = 20.0
"""How long a host that is away is waited for."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 3.0

T = TypeVar("T")

OnEvent = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One MCP operation, as the host is asked for it (``docs/mcp.rst``)."""

    action: str
    """Such as ``mcp.tools.call``."""

    family: str
    """What ``application/vnd.mcp.*+json`` is called for it: ``tools``, ``resources`` ..."""

    payload: Mapping[str, Any]
    session_id: str
    task_id: str | None = None
    reads: bool = False
    """Whether doing it twice does no more than once."""

    seconds: float = LONGEST_CALL


@dataclass(frozen=True, kw_only=True)
class HostLink:
    """
    Where requests go.

    :raises ClientError: from :meth:`execute`, for calls without an answer that can be believed.
    """

    client: Client
    uri: str
    path: str = "/"
    """``/mcp/NAME`` for one server alone."""

    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """The host's signing keys: every record is checked with them; empty: none is."""

    reconnect: float = RECONNECT_SECONDS
    approval_wait: float = 0.0
    """Seconds for which a call that a person has to approve waits for that."""

    async def execute(self, operation: Operation, on_event: OnEvent | None = None) -> Reply:
        """
        Make one request.

        Cancelling it drops its connection, which tells the host.

        :param on_event: takes the host's events (``result.event``) in order, before the answer.
        """
        return await self._patiently(lambda: self._once(operation, on_event))

    async def call(self, call: EndpointCall, wait_for_approval: float | None = None) -> Reply:
        """
        Call an endpoint; cancelling it drops its connection.

        :param wait_for_approval: seconds; None hands out the first answer.
        """
        return await self._patiently(
            lambda: _waited(
                self.client.call(
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
        )

    async def manifest(self) -> Mapping[str, Any]:
        """The host's manifest, from memory while the host says that it is the same."""
        found = await _waited(self.client.manifest(self.uri, keys=self.keys or None))
        return found.document

    async def _patiently(self, attempt: Callable[[], Awaitable[Reply]]) -> Reply:
        """An answer that can be believed, of a host that may be away for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.reconnect
        pause = _FIRST_PAUSE
        while True:
            try:
                reply = await attempt()
                break
            except CannotConnect:
                if loop.time() + pause > end:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._believe(reply)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        await Deferred.fromCoroutine(self.client.close()).asFuture(asyncio.get_running_loop())

    async def _once(self, operation: Operation, on_event: OnEvent | None) -> Reply:
        arrived: asyncio.Queue[Reply | None] = asyncio.Queue()
        call = self.client.call(
            self.uri,
            "EXECUTE",
            self.path,
            execute(operation.action, operation.family, operation.payload),
            stream=None if on_event is None else arrived.put_nowait,
            timeout=operation.seconds,
            task_id=operation.task_id,
            session_id=operation.session_id,
            idempotent=operation.reads,
            wait_for_approval=self.approval_wait,
        )
        final = Deferred.fromCoroutine(call).asFuture(asyncio.get_running_loop())
        final.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (interim := await arrived.get()) is not None:
                event = interim.result.get("event") if isinstance(interim.result, dict) else None
                if on_event is not None and isinstance(event, dict):
                    await on_event(event)
            return final.result()
        finally:
            final.cancel()

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


async def _waited(work: Coroutine[Deferred[Any], Any, T]) -> T:
    """The result of one of the Twisted client's calls; cancelling the wait cancels the call."""
    return await Deferred.fromCoroutine(work).asFuture(asyncio.get_running_loop())


__all__ = ["LONGEST_CALL", "ClientError", "EndpointCall", "HostLink", "OnEvent", "Operation"]
