"""
MCP's server side, for the clients of one caller: which methods there are, and what their answers look like.

It knows nothing of transports. A request that a transport has read is given to :meth:`Server.answer` as a
:class:`agtphost.mcp.context.Context`; what comes back is the ``result``, in the shape of the client's era.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.interfaces import IReactorTime

from agtphost import __version__
from agtphost.client.mcp.endpoints import Catalogue, Endpoints
from agtphost.mcp.changes import Changes
from agtphost.mcp.context import Context
from agtphost.mcp.link import Link
from agtphost.mcp.messages import METHOD_NOT_FOUND, Fault
from agtphost.mcp.parameters import check
from agtphost.mcp.relay import Relay
from agtphost.mcp.revisions import HANDSHAKE, METHODS_OF_HANDSHAKE, METHODS_OF_MODERN, MODERN, SERVER_INFO, TASKS
from agtphost.mcp.subscriptions import Subscriptions
from agtphost.mcp.tasks import TaskOwners
from agtphost.vocabulary.jsonslices import HEAVY, Encoded, slices, weight

Handler = Callable[[Context], Awaitable[dict[str, Any]]]

SOON = 5_000
"""Milliseconds that lists may be kept: they depend on who asks, and changes of them are told."""

CACHED: Mapping[str, int] = {
    "server/discover": 0,
    "tools/list": SOON,
    "prompts/list": SOON,
    "resources/list": SOON,
    "resources/templates/list": SOON,
    "resources/read": 0,
}
"""Milliseconds, by method."""

_LATER = ("resultType", "ttlMs", "cacheScope")
"""Members of results that the handshake era has not."""


class Server:
    """
    A host, as an MCP server.

    :param link: the way to the host, in the name of one agent.
    :param server: the only server that is shown, by its own names; None: all.
    :param owner: whose the tasks are that are begun here; one of ``tasks``.
    :param endpoints: whether the host's own endpoints are shown as tools, where all servers are.
    :param catalogue: of these, which others are shown too; None: it is the only one.
    :param search: whether two tools are shown in place of all of them.
    :param hint: tells clients, as ``instructions``, why they may miss a tool; empty: there is nothing to tell.
    """

    def __init__(
        self,
        link: Link,
        clock: IReactorTime,
        *,
        server: str | None = None,
        endpoints: bool = True,
        catalogue: Catalogue | None = None,
        tasks: TaskOwners | None = None,
        owner: str = "",
        search: bool = False,
        hint: Callable[[], str] = str,
    ) -> None:
        self._link = link
        self._hint = hint
        own = Endpoints(link, catalogue) if endpoints and server is None else None
        self.relay = Relay(link, clock, server=server, endpoints=own, search=search)
        self.changes = Changes(link, self.relay.view.addresses, clock)
        self.subscriptions = Subscriptions(self.changes)
        self.info = {
            "name": "agtphost" if server is None else server,
            "title": "AGTP host" if server is None else f"{server}, through AGTP",
            "version": __version__,
            "description": "Tools, resources and prompts of an AGTP host. Every call is checked and recorded there.",
        }
        self._tasks, self._owner = tasks or TaskOwners(), owner
        relay, subscriptions = self.relay, self.subscriptions
        self.handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": _pong,
            "tools/list": relay.list_tools,
            "tools/call": self._call,
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
            "tasks/get": self._task,
            "tasks/update": self._task,
            "tasks/cancel": self._task,
        }
        """What answers each method. Whoever shows tools in another manner puts its own in place of the two of tools."""

    async def answer(self, context: Context) -> dict[str, Any] | Encoded:
        """
        The ``result`` for a request; as text where it is much, which is written where nobody waits for it.

        :raises Fault: for every answer that is an error.
        """
        known = METHODS_OF_MODERN if context.modern else METHODS_OF_HANDSHAKE
        if context.method not in known:
            raise Fault(METHOD_NOT_FOUND, "Method not found", context.method)
        check(context.method, context.params)
        result = self._shaped(context, await self.handlers[context.method](context))
        return Encoded(await self._link.offload(_text, result)) if weight(result) > HEAVY else result

    def end(self) -> None:
        """Nobody uses it any more."""
        self.changes.end()

    def _shaped(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        if not context.modern:
            for name in _LATER:
                result.pop(name, None)
            return result
        result.setdefault("resultType", "complete")
        seconds = CACHED.get(context.method)
        if seconds is not None and result["resultType"] == "complete":
            # A list is no fresher than what it is made of: an upstream may have named a shorter time.
            named = result.get("ttlMs", seconds)
            result["ttlMs"] = min(named, seconds) if seconds and type(named) is int else named
            result.setdefault("cacheScope", "private")
        meta = result.get("_meta")
        result["_meta"] = {**(meta if isinstance(meta, dict) else {}), SERVER_INFO: self.info}
        return result

    async def _call(self, context: Context) -> dict[str, Any]:
        result = await self.relay.call_tool(context)
        if "taskId" in result:
            self._tasks.note(result["taskId"], self._owner)
        return result

    async def _task(self, context: Context) -> dict[str, Any]:
        self._tasks.require(context.params["taskId"], self._owner)
        return await self.relay.task(context)

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
