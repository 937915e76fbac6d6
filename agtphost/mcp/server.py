"""
Serve MCP to the clients of one caller: the methods, and the form of their answers.

This module does not depend on transports. A transport gives a request to :meth:`Server.answer` as a
:class:`agtphost.mcp.context.Context` and gets back the ``result``, in the form of the client's era.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.interfaces import IReactorTime

from agtphost import __version__
from agtphost.client.mcp.endpoints import Catalogue, Endpoints
from agtphost.mcp.changes import ChangeFeed
from agtphost.mcp.context import Context
from agtphost.mcp.link import McpHostLink
from agtphost.mcp.messages import METHOD_NOT_FOUND, McpFault
from agtphost.mcp.parameters import check
from agtphost.mcp.relay import McpRelay
from agtphost.mcp.relayed_result import RelayedResult
from agtphost.mcp.revisions import HANDSHAKE, METHODS_OF_HANDSHAKE, METHODS_OF_MODERN, MODERN, SERVER_INFO, TASKS
from agtphost.mcp.subscriptions import Subscriptions
from agtphost.vocabulary.jsonslices import HEAVY, Encoded, slices, weight

Handler = Callable[[Context], Awaitable[dict[str, Any]]]

LIST_CACHE_MILLISECONDS = 5_000
"""Milliseconds that lists may be cached: they depend on the caller, and changes of them are announced."""

CACHE_MILLISECONDS: Mapping[str, int] = {
    "server/discover": 0,
    "tools/list": LIST_CACHE_MILLISECONDS,
    "prompts/list": LIST_CACHE_MILLISECONDS,
    "resources/list": LIST_CACHE_MILLISECONDS,
    "resources/templates/list": LIST_CACHE_MILLISECONDS,
    "resources/read": 0,
}
"""Milliseconds that results may be cached, by method."""

_STATELESS_MEMBERS = ("resultType", "ttlMs", "cacheScope")
"""Members of results that the handshake era does not have."""


class Server:
    """
    A host, as an MCP server.

    :param link: the link to the host, in the name of one agent.
    :param server: the only server that is shown, by its own names; None: all.
    :param endpoints: whether the host's own endpoints are shown as tools; only where all servers are shown.
    :param catalogue: the endpoints of all servers of a front; None: it is the only server.
    :param search: whether two search tools are shown instead of all tools.
    :param hint: returns the ``instructions`` on why clients may not see a tool; empty: there are none to give.
    """

    def __init__(
        self,
        link: McpHostLink,
        clock: IReactorTime,
        *,
        server: str | None = None,
        endpoints: bool = True,
        catalogue: Catalogue | None = None,
        search: bool = False,
        hint: Callable[[], str] = str,
    ) -> None:
        self._link = link
        self._hint = hint
        own = Endpoints(link, catalogue) if endpoints and server is None else None
        self.relay = McpRelay(link, clock, server=server, endpoints=own, search=search)
        self.changes = ChangeFeed(link, self.relay.view.addresses, clock)
        self.subscriptions = Subscriptions(self.changes)
        self.info = {
            "name": "agtphost" if server is None else server,
            "title": "AGTP host" if server is None else f"{server}, through AGTP",
            "version": __version__,
            "description": "Tools, resources and prompts of an AGTP host. Every call is checked and recorded there.",
        }
        relay, subscriptions = self.relay, self.subscriptions
        self.handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": _pong,
            "tools/list": relay.list_tools,
            "tools/call": relay.call_tool,
            "resources/list": relay.list_resources,
            "resources/templates/list": relay.list_templates,
            "resources/read": relay.read_resource,
            "resources/subscribe": subscriptions.subscribe,
            "resources/unsubscribe": subscriptions.unsubscribe,
            "subscriptions/listen": subscriptions.listen,
            "prompts/list": relay.list_prompts,
            "prompts/get": relay.get_prompt,
            "completion/complete": relay.complete,
            "logging/setLevel": relay.set_level,
            "tasks/get": relay.task,
            "tasks/update": relay.task,
            "tasks/cancel": relay.task,
        }
        """The function for each method. A bridge that shows tools in another way replaces the two of tools."""

    async def answer(self, context: Context) -> dict[str, Any] | Encoded:
        """
        Return the ``result`` for a request; a large one is encoded in a thread and returned as text.

        :raises McpFault: for every answer that is an error.
        """
        known = METHODS_OF_MODERN if context.modern else METHODS_OF_HANDSHAKE
        if context.method not in known:
            raise McpFault(METHOD_NOT_FOUND, "Method not found", context.method)
        check(context.method, context.params)
        result = self._shape(context, await self.handlers[context.method](context))
        if context.octets is not None and context.octets <= HEAVY:
            return result  # each value takes an octet or more
        if isinstance(result, RelayedResult) and (octets := result.splice()):
            return Encoded(octets)
        return Encoded(await self._link.offload(_text, result)) if weight(result) > HEAVY else result

    def end(self) -> None:
        """End the subscription at the host, since the server is not used any more."""
        self.changes.end()

    def end_streams(self) -> None:
        """End what waits for changes, as the server stops; requests in progress are answered."""
        self.subscriptions.end_streams()
        self.changes.end()

    def _shape(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        if not context.modern:
            for name in _STATELESS_MEMBERS:
                result.pop(name, None)
            return result
        result.setdefault("resultType", "complete")
        seconds = CACHE_MILLISECONDS.get(context.method)
        if seconds is not None and result["resultType"] == "complete":
            # A list may be cached only as long as its parts: an upstream may have named a shorter time.
            named = result.get("ttlMs", seconds)
            result["ttlMs"] = min(named, seconds) if seconds and type(named) is int else named
            # The host decides access for each caller, even if the upstream says "public".
            result["cacheScope"] = "private"
        meta = result.get("_meta")
        result["_meta"] = {**(meta if isinstance(meta, dict) else {}), SERVER_INFO: self.info}
        return result

    async def _initialize(self, context: Context) -> dict[str, Any]:
        await self._link.greet(context.conversation.session_id)
        asked = context.params["protocolVersion"]
        return {
            "protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[-1],
            "capabilities": _capabilities(),
            "serverInfo": self.info,
            **self._instructions(),
        }

    async def _discover(self, context: Context) -> dict[str, Any]:
        await self._link.greet(context.conversation.session_id)
        return {
            "supportedVersions": [MODERN],
            "capabilities": {**_capabilities(), "extensions": {TASKS: {}}},
            **self._instructions(),
        }

    def _instructions(self) -> dict[str, str]:
        hint = self._hint()
        return {"instructions": hint} if hint else {}


def _text(result: Mapping[str, Any]) -> bytes:
    return b"".join(slices(result))


def _capabilities() -> dict[str, Any]:
    changing = {"listChanged": True}
    return {
        "tools": changing,
        "prompts": changing,
        "resources": {"subscribe": True, **changing},
        "logging": {},
        "completions": {},
    }


async def _pong(_: Context) -> dict[str, Any]:
    return {}
