"""A conversation with one server whose protocol version is settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.adapters.mcp.eras import META, Terms, envelope, mirrored
from agtphost.adapters.mcp.failures import UnreadableAnswer
from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.parameter_headers import render
from agtphost.adapters.mcp.tools import Tool

MAX_PAGES = 100
"""Pages of one list; a server that goes on is broken or hostile."""


class Dialogue:
    """
    Requests of the agreed version.

    :param peer: sends them.
    :param terms: what was agreed.
    :param client: ``name`` and ``version`` of this host.
    """

    def __init__(self, peer: JsonRpcPeer, terms: Terms, client: Mapping[str, str]) -> None:
        self.peer = peer
        self.terms = terms
        self._envelope = envelope(client) if terms.stateless else None

    def request(self, method: str, params: dict[str, Any], timeout: float | None) -> Deferred[Any]:
        """Send one request as the version has it; see :meth:`JsonRpcPeer.request`."""
        if self._envelope is None:
            return self.peer.request(method, params, timeout)
        params["_meta"] = {**params.get("_meta", {}), **self._envelope}
        return self.peer.request(method, params, timeout, mirrored(method, params))

    def call_tool(
        self, tool: Tool, arguments: Mapping[str, Any], meta: Mapping[str, Any], timeout: float
    ) -> Deferred[Any]:
        """
        ``tools/call``.

        :param meta: the caller's own ``_meta`` members; those that the protocol owns are dropped.
        :return: the result as received.
        """
        params: dict[str, Any] = {"name": tool.name, "arguments": arguments}
        if meta:
            params["_meta"] = own_meta(meta)
        if self._envelope is None:
            return self.peer.request("tools/call", params, timeout)
        params["_meta"] = {**params.get("_meta", {}), **self._envelope}
        headers = [*mirrored("tools/call", params), *render(tool.headers, arguments)]
        return self.peer.request("tools/call", params, timeout, headers)

    def listen(self) -> Deferred[Any]:
        """Ask to be told of changed tools (stateless era); fires when the subscription ends."""
        return self.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, None)

    async def list_tools(self, seconds: float) -> list[object]:
        """
        Walk every page of ``tools/list``.

        :param seconds: how long each page may take.
        :raises UnreadableAnswer: it is no list, or does not end.
        """
        tools: list[object] = []
        if "tools" not in self.terms.capabilities:
            return tools
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self.request("tools/list", params, seconds)
            if type(page) is not dict or type(page.get("tools")) is not list:
                raise UnreadableAnswer("the server's tools/list is no list")
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return tools
            if type(cursor) is not str:
                raise UnreadableAnswer("a cursor of the server's tools/list is no string")
            params = {"cursor": cursor}
        raise UnreadableAnswer(f"the server's tools/list has more than {MAX_PAGES} pages")


def own_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller may say in ``_meta``: nothing that the protocol or this host says (T-SC-70)."""
    return {
        key: value
        for key, value in meta.items()
        if not key.startswith((META, "agtp/")) and key != "progressToken"
    }
