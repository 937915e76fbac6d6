"""What the clients with an event loop have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from agtphost.client.call_flow import Calls
from agtphost.client.caller import CallOptions
from agtphost.client.connections import L
from agtphost.client.reply import SHORT, Reply
from agtphost.vocabulary.uris import AgtpUri


class AsyncCalls(Calls[L]):
    """The procedures of a client that suspends in them."""

    def __repr__(self) -> str:
        return f"<Client {caller(self.agent_id)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""

    @abstractmethod
    def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncGenerator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one."""


def caller(agent_id: str | None) -> str:
    """Return a text that names the agent that calls are made as."""
    return f"as {agent_id[:SHORT] if agent_id else 'no agent'}"
