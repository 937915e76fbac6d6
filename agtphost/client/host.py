"""One host, as one caller: what ``Client.of`` returns to asynchronous programs on any loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from agtphost.client.async_calls import AsyncCalls, caller
from agtphost.client.call_flow import Calls
from agtphost.client.caller import CallOptions
from agtphost.client.connections import Stream
from agtphost.client.errors import UnverifiedRecord
from agtphost.client.manifests import ServerManifest
from agtphost.client.reply import Reply
from agtphost.client.target import Target
from agtphost.client.terminal import escape
from agtphost.client.tools import Tool, ToolResult, execute, result_of, tools_of
from agtphost.identity.keys import VerifyingKey


class RecordVerifier:
    """
    Checks the record of every answer of one host.

    :param calls: asks the host for the keys that it signs with, where they are not at hand.
    """

    def __init__(self, calls: Calls[Any], target: Target) -> None:
        self._calls = calls
        self._target = target
        self._keys = target.keys

    async def verify(self, reply: Reply) -> Reply:
        """
        Verify the record of a reply, and return the reply.

        A refusal may come without a record: a host makes none for requests that it could not read.

        :raises UnverifiedRecord: for one that is not genuine, and for a success without one.
        """
        if reply.interim or (reply.record is None and not reply.ok):
            return reply
        if not self._keys:
            self._keys = await self._read()
        found = reply.verify(self._keys)
        if any(check.name == "signature" for check in found.failures):
            # The host may sign with a new key since.
            self._keys = await self._read()
            found = reply.verify(self._keys)
        if not found.ok:
            raise UnverifiedRecord(reply, found.failures)
        return replace(reply, verified=True)

    async def _read(self) -> Mapping[str, VerifyingKey]:
        """
        Read the host's signing keys from its manifest, over TLS, if they are not pinned.
        """
        if self._target.pinned:
            return self._keys
        return await self._calls.fetch_signing_keys(self._target.uri)


C = TypeVar("C", bound=AsyncCalls[Any])


class Host(Generic[C]):
    """
    A host, called as one agent; ``async with`` closes its connections.

    Made by ``Client.of``. Methods, options and errors are those of the client, without the URI.

    :param client: makes the calls.
    :param verify: whether the record of each answer is checked.
    """

    def __init__(self, client: C, target: Target, *, verify: bool = True) -> None:
        self.client = client
        """The client below, for other URIs."""

        self.uri = target.uri
        self._verifier = RecordVerifier(client, target) if verify else None

    @property
    def agent_id(self) -> str | None:
        """The agent that calls are made as; None for anonymous ones."""
        return self.client.agent_id

    def __repr__(self) -> str:
        return describe_host(self.uri, self.agent_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that no call is using, and wait for that; the others end with their call."""
        await self.client.close()

    async def call(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Make one call: see :meth:`agtphost.client.Client.call`.

        :raises UnverifiedRecord: if the record of the answer is not genuine.
        """
        reply = await self.client.call(
            self.uri,
            method,
            path,
            input,
            stream=stream,
            timeout=timeout,
            wait_for_approval=wait_for_approval,
            **options,
        )
        return reply if self._verifier is None else await self._verifier.verify(reply)

    async def stream(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncGenerator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one, which is verified."""
        running = self.client.stream(
            self.uri, method, path, input, timeout=timeout, wait_for_approval=wait_for_approval, **options
        )
        async with aclosing(running):
            async for reply in running:
                yield reply if self._verifier is None else await self._verifier.verify(reply)

    async def tools(self) -> list[Tool]:
        """
        Return the tools of the host's MCP servers that may be called now.

        :raises agtphost.client.errors.CallRefused: if the host does not list them.
        """
        return tools_of(await self.call("DISCOVER", "/tools"))

    async def tool(self, name: str, /, **arguments: Any) -> ToolResult:
        """
        Call a tool: ``await host.tool("files.read_file", path="a.txt")``.

        :raises agtphost.client.errors.CallRefused: if the host refuses; ``raise_for_status`` of the result tells of the
            tool's own errors.
        """
        return await self.call_tool(name, arguments)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> ToolResult:
        """Call a tool with the options of a call; interim replies have what the tool tells on the way."""
        input = execute(name, arguments or {})
        reply = await self.call(
            "EXECUTE", "/", input, stream=stream, timeout=timeout, wait_for_approval=wait_for_approval, **options
        )
        return result_of(name, reply)

    async def manifest(self) -> ServerManifest:
        """Return the host's manifest: see :meth:`agtphost.client.Client.manifest`."""
        return await self.client.manifest(self.uri)


def describe_host(uri: str, agent_id: str | None) -> str:
    """Return a text that describes a host to people."""
    return f"<Host {escape(uri)} {caller(agent_id)}>"
