"""``mcp.subscriptions.listen``: stream changes at servers to a caller as interim messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from zope.interface import implementer

from agtphost.adapters.callers import owner_of
from agtphost.adapters.mcp.bindings import resource_binding
from agtphost.adapters.mcp.call_tracker import wants_stream
from agtphost.adapters.mcp.notifications import NotificationQueue
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.mcp.subscribers import LIST_CHANGES, MOST, Subscriber
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.upstream.failures import UpstreamFailure
from agtphost.upstream.refusals import refusal
from agtphost.vocabulary.reasons import Reason

LONGEST_SECONDS = 3600
"""The longest time in seconds that one request listens."""

MOST_URIS = 1000
"""The largest number of URIs in one subscription."""

TOOLS = "notifications/tools/list_changed"

Chosen = Sequence[tuple[McpServer, frozenset[str], frozenset[str]]]
"""Servers, with the lists and the resources of each."""


@implementer(IBuiltInHandler)
class ListenForChanges:
    """
    The handler that streams changes.

    :param chosen: the servers and what to listen for at each.
    :param seconds: how long to listen.
    :param listening: ends the request when the host stops or the rights of its agent change.
    :param optional: the bindings of resources that are left out where the caller may not read them.
    """

    kind = "mcp"

    def __init__(
        self,
        chosen: Chosen,
        seconds: float,
        listening: ListeningRequests,
        optional: Mapping[tuple[str, str], Binding] = MappingProxyType({}),
    ) -> None:
        self._chosen = chosen
        self._seconds = seconds
        self._listening = listening
        self._optional = optional

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Listen until time is up, the caller leaves, its rights change, or the host stops.

        :raises Refusal: 422 where the request asks for no stream; 429 where too many listen.
        """
        if not wants_stream(context):
            raise Refusal(Reason.STREAM_REQUIRED)
        agent_id = owner_of(context)
        subscribed: list[tuple[McpServer, McpServer, Subscriber]] = []
        queues: list[NotificationQueue] = []
        caller = context.caller
        # Before the acknowledgement: a change after that must not be missed.
        news = None if caller is None else self._listening.rights.add(caller.agent_id, context.assurance)
        try:
            chosen = list(self._choose_readable(context))
            await self._acknowledge(context, chosen)
            for server, lists, uris in chosen:
                queue = NotificationQueue(context.emit, server.settings.name)
                queues.append(queue)
                instance = self._instance(server, agent_id, context.session_id)
                subscriber = Subscriber(
                    lists, uris, partial(_pass_on, queue.take, _VisibleLists(context, server, self))
                )
                instance.events.add(subscriber)
                server.listeners.add(agent_id, subscriber)
                subscribed.append((server, instance, subscriber))
                if instance is not server:
                    await self._start(instance)
            ended = await self._listening.wait(self._seconds, news)
            for queue in queues:
                await queue.drain()
        finally:
            if caller is not None and news is not None:
                self._listening.rights.remove(caller.agent_id, news)
            for queue in queues:
                queue.close()
            for server, instance, subscriber in subscribed:
                # Remove it where it counts as a listener before the removal as a guest.
                instance.events.remove(subscriber)
                server.listeners.remove(agent_id, subscriber)
        return Answer(result={"mcp_response": {}, "ended": ended.value}, extra={"subscription": {"ended": ended.value}})

    def _choose_readable(self, context: BuiltInContext) -> Iterator[tuple[McpServer, frozenset[str], frozenset[str]]]:
        """Yield what was chosen, without optional resources that the caller may not read."""
        for server, lists, uris in self._chosen:
            optional = {uri: self._optional.get((server.settings.name, uri)) for uri in uris}
            readable = (uri for uri, binding in optional.items() if binding is None or context.admits(binding))
            yield server, lists, frozenset(readable)

    @staticmethod
    async def _acknowledge(context: BuiltInContext, chosen: Chosen) -> None:
        lists = sorted({name for _, names, _ in chosen for name in names})
        uris = sorted({uri for _, _, given in chosen for uri in given})
        honoured: dict[str, Any] = dict.fromkeys(lists, True)
        if uris:
            honoured["resourceSubscriptions"] = uris
        await context.emit({"type": "acknowledged", "notifications": honoured})

    @staticmethod
    def _instance(server: McpServer, agent_id: str, session_id: str | None) -> McpServer:
        try:
            instance = server.instance_of(agent_id, session_id) if server.isolated else server
        except UpstreamFailure as failure:
            raise refusal("mcp", server.settings.name, failure) from failure
        if len(instance.events) >= MOST:
            raise Refusal(
                Reason.TOO_MANY_SUBSCRIPTIONS,
                f"{MOST} callers listen to that MCP server already.",
                headers=(("Retry-After", "60"),),
            )
        return instance

    @staticmethod
    async def _start(instance: McpServer) -> None:
        """Start the instance, for a subscription counts as its first call."""
        try:
            await instance.wait_until_up()
        except UpstreamFailure as failure:
            raise refusal("mcp", instance.settings.name, failure) from failure


class _VisibleLists:
    """
    The lists of a server that a listener may use: a list that is empty for it before and after a change has not
    changed.

    :param context: the listener's call, by this handler.
    """

    def __init__(self, context: BuiltInContext, server: McpServer, handler: IBuiltInHandler) -> None:
        self._context = context
        self._handler = handler
        self._server = server
        self._before = {method: self._reaches(method) for method in LIST_CHANGES}

    def concerns(self, method: str) -> bool:
        """Return whether a change is visible to the listener."""
        if method not in LIST_CHANGES:
            return True
        before, self._before[method] = self._before[method], self._reaches(method)
        return before or self._before[method]

    def _reaches(self, method: str) -> bool:
        admits, server = self._context.admits, self._server
        if method == TOOLS:
            return any(admits(binding) for binding in server.catalogue.bindings.values())
        kind = method.split("/")[1].removesuffix("s")
        overrides = server.settings.resources if kind == "resource" else server.settings.prompts
        ruled = (None, *(override for override in overrides.values() if override.enabled))
        return any(admits(resource_binding(server, self._handler, kind, "", override)) for override in ruled)


def _pass_on(
    take: Callable[[str, Mapping[str, Any]], None], reach: _VisibleLists, method: str, params: Mapping[str, Any]
) -> None:
    if not reach.concerns(method):
        return
    take(method, {name: value for name, value in params.items() if name != "_meta"})
