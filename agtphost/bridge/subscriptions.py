"""Who is told of changes: clients that shook hands by notifications, later ones on their ``subscriptions/listen``."""

from __future__ import annotations

import asyncio
import logging

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent, event_to_notification

from agtphost.bridge.changes import Changes
from agtphost.bridge.clients import Client, Clients, Context, connection_of

MOST_WATCHED = 256
"""Resources that one client may subscribe to."""

_log = logging.getLogger(__name__)


class Subscriptions:
    """
    Handlers of everything that is about changes.

    :param changes: the bridge's subscription at the host.
    :param clients: what is known of each client.
    """

    def __init__(self, changes: Changes, clients: Clients) -> None:
        self._changes = changes
        self._clients = clients
        self._streams = ListenHandler(changes.bus)
        self._tasks: set[asyncio.Task[None]] = set()

    # 2026-07-28

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """
        ``subscriptions/listen``: one stream.

        :raises MCPError: if the host lets the caller not watch one of the resources.
        """
        uris = params.notifications.resource_subscriptions or []
        await self._watch(uris)
        try:
            return await self._streams(context, params)
        finally:
            self._changes.forget(uris)

    # The handshake era

    async def greet(self, context: Context, _: types.NotificationParams) -> None:
        """``notifications/initialized``: from now on this client is told of changes."""
        client, session, connection = self._clients.of(context), context.session, connection_of(context)

        def hear(event: ServerEvent) -> None:
            if not isinstance(event, ResourceUpdated) or event.uri in client.watched:
                self._start(session, event)

        unsubscribe = self._changes.bus.subscribe(hear)
        connection.exit_stack.callback(self._leave, client)
        connection.exit_stack.callback(unsubscribe)
        task = asyncio.create_task(self._changes.begin())
        self._keep(task)

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """``resources/subscribe``. :raises MCPError: if the host refuses, or for one resource too many."""
        client, uri = self._clients.of(context), str(params.uri)
        if uri not in client.watched:
            if len(client.watched) >= MOST_WATCHED:
                raise MCPError(types.INVALID_REQUEST, f"A client may subscribe to {MOST_WATCHED} resources at most.")
            await self._watch([uri])
            client.watched.add(uri)
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """``resources/unsubscribe``."""
        client, uri = self._clients.of(context), str(params.uri)
        if uri in client.watched:
            client.watched.discard(uri)
            self._changes.forget([uri])
        return types.EmptyResult()

    async def _watch(self, uris: list[str]) -> None:
        if uris:
            await self._changes.watch(uris)
        else:
            await self._changes.begin()

    def _leave(self, client: Client) -> None:
        """A client is gone."""
        self._changes.forget(client.watched)
        client.watched.clear()

    def _start(self, session: ServerSession, event: ServerEvent) -> None:
        async def tell() -> None:
            try:
                await session.send_notification(event_to_notification(event, {}))
            except Exception:
                # The client's connection is ending: its end is noticed, and handled, where it is read.
                _log.debug("a client could not be told of a change", exc_info=True)

        self._keep(asyncio.create_task(tell()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
