"""Subscribe clients to changes: by notifications in the handshake era, later by ``subscriptions/listen``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.mcp.changes import LISTS, UPDATED, ChangeFeed, McpChange
from agtphost.mcp.context import Channel, ClientConversation, Context
from agtphost.mcp.messages import INTERNAL_ERROR, INVALID_REQUEST, McpFault
from agtphost.mcp.revisions import SUBSCRIPTION

log = Logger()

MOST_WATCHED = 256
"""Resources that one client may subscribe to."""

MOST_STREAMS = 1024
"""``subscriptions/listen`` of one caller at a time."""


class Subscriptions:
    """
    The handlers of the methods about changes.

    :param changes: the caller's subscription at the host.
    """

    def __init__(self, changes: ChangeFeed) -> None:
        self._changes = changes
        self._streams = 0
        self._ends: set[Deferred[None]] = set()

    def end_streams(self) -> None:
        """End every ``subscriptions/listen`` with an ordinary answer, as the server stops."""
        for end in tuple(self._ends):
            end.callback(None)

    # 2026-07-28

    async def listen(self, context: Context) -> dict[str, Any]:
        """
        Answer the request ``subscriptions/listen``: one stream, until its client leaves or the server stops.

        :raises McpFault: if the caller may not watch one of the resources.
        """
        if self._streams >= MOST_STREAMS:
            raise McpFault(INTERNAL_ERROR, f"At most {MOST_STREAMS} subscriptions are open at a time.")
        honoured = _select_supported(context.params["notifications"])
        uris = honoured.get("resourceSubscriptions", [])
        if len(uris) > MOST_WATCHED:
            raise _too_many()
        self._streams += 1
        try:
            await self._watch(uris)
            meta = {SUBSCRIPTION: context.request_id}
            wanted = {method for name, method in LISTS.items() if honoured.get(name)}

            def tell(change: McpChange) -> None:
                if change.method in wanted or (change.method == UPDATED and change.uri in uris):
                    context.channel.notify(change.method, {**change.params, "_meta": meta})

            acknowledged = {"notifications": honoured, "_meta": meta}
            unsubscribe = self._changes.add_listener(tell)
            end: Deferred[None] = Deferred()
            self._ends.add(end)
            try:
                context.channel.notify("notifications/subscriptions/acknowledged", acknowledged)
                await end
            finally:
                self._ends.discard(end)
                unsubscribe()
                self._changes.unwatch(uris)
        finally:
            self._streams -= 1
        return {}

    # The handshake era

    def greet(self, conversation: ClientConversation, channel: Channel) -> Callable[[], None]:
        """
        Handle the notification ``notifications/initialized``: announce changes to this client from now on.

        :param channel: the channel for messages that belong to no request.
        :return: a function that ends this.
        """

        def hear(change: McpChange) -> None:
            if change.method != UPDATED or change.uri in conversation.watched:
                channel.notify(change.method, change.params)

        unsubscribe = self._changes.add_listener(hear)
        beginning = Deferred.fromCoroutine(self._changes.begin())
        beginning.addErrback(lambda failure: log.failure("listening for changes cannot begin", failure))

        def leave() -> None:
            unsubscribe()
            self._changes.unwatch(conversation.watched)
            conversation.watched.clear()

        return leave

    async def subscribe(self, context: Context) -> dict[str, Any]:
        """
        Answer the request ``resources/subscribe``.

        :raises McpFault: if the host refuses, or for one resource too many.
        """
        watched, uri = context.conversation.watched, str(context.params["uri"])
        if uri not in watched:
            if len(watched) >= MOST_WATCHED:
                raise _too_many()
            await self._watch([uri])
            watched.add(uri)
        return {}

    async def unsubscribe(self, context: Context) -> dict[str, Any]:
        """Answer the request ``resources/unsubscribe``."""
        watched, uri = context.conversation.watched, str(context.params["uri"])
        if uri in watched:
            watched.discard(uri)
            self._changes.unwatch([uri])
        return {}

    async def _watch(self, uris: list[str]) -> None:
        if uris:
            await self._changes.watch(uris)
        else:
            await self._changes.begin()


def _select_supported(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a filter that is supported."""
    honoured: dict[str, Any] = {name: True for name in LISTS if asked.get(name) is True}
    if asked.get("resourceSubscriptions"):
        honoured["resourceSubscriptions"] = list(asked["resourceSubscriptions"])
    return honoured


def _too_many() -> McpFault:
    return McpFault(INVALID_REQUEST, f"A client may subscribe to {MOST_WATCHED} resources at most.")
