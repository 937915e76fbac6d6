"""
Changes at the host, told to every client that wants to know.

One ``mcp.subscriptions.listen`` at the host serves all clients of the bridge. When somebody watches one more
resource a new one begins, and the old one ends once the new one is acknowledged. When the connection breaks,
it is begun anew and clients are told that all lists may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    event_from_wire,
)

from agtphost.bridge.failures import refused, unreachable
from agtphost.bridge.host_link import ClientError, HostLink, Operation
from agtphost.client.mcp.addresses import Addresses
from agtphost.client.requests import new_session_id

ACKNOWLEDGED_WITHIN = 10.0
"""Seconds until the host must have begun a subscription."""

PERIOD = 3600
"""Seconds that one subscription lasts at the host."""

AFTER_FAILURE = 5.0
"""Seconds until a subscription that broke is begun anew."""

AFTER_REFUSAL = 60.0

_LISTS = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())


class Changes:
    """
    The bridge's one subscription.

    :param link: the way to the host.
    :param addresses: what the addresses of resources stand for that clients watch.
    """

    def __init__(self, link: HostLink, addresses: Addresses) -> None:
        self._addresses = addresses
        self.bus = InMemorySubscriptionBus()
        """Where clients hear of changes."""

        self._link = link
        self._session_id = new_session_id()
        self._watched: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._interrupted = False

    async def begin(self) -> None:
        """Listen for changes of lists, if that was not begun; a host that refuses is asked again later."""
        async with self._turn:
            if self._running is None:
                with contextlib.suppress(MCPError):
                    await self._switch(frozenset(), keep=True)

    async def watch(self, uris: Collection[str]) -> None:
        """
        Listen for updates of resources too.

        :raises MCPError: if the host refuses that; what was listened for before still is.
        """
        async with self._turn:
            wanted = frozenset(self._watched) | frozenset(uris)
            if wanted != frozenset(self._watched) or self._running is None:
                await self._switch(wanted, keep=False)
            self._watched.update(uris)

    def forget(self, uris: Collection[str]) -> None:
        """Somebody watches these no longer; the subscription at the host shrinks when it next begins."""
        self._watched.subtract(uris)
        self._watched = +self._watched

    def end(self) -> None:
        """Listen no more."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _switch(self, uris: frozenset[str], *, keep: bool) -> None:
        """Begin a subscription, and end the one before once it is acknowledged."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._listen(uris, begun))
        try:
            await asyncio.wait_for(asyncio.shield(begun), ACKNOWLEDGED_WITHIN)
        except BaseException as error:
            if keep and isinstance(error, (MCPError, TimeoutError)):
                self._running = task
                return
            task.cancel()
            if isinstance(error, TimeoutError):
                raise unreachable(ClientError("The host does not begin the subscription.", "Try again.")) from None
            raise
        self.end()
        self._running = task

    async def _listen(self, uris: frozenset[str], begun: asyncio.Future[None]) -> None:
        wanted = uris
        while True:
            pause = AFTER_FAILURE
            try:
                reply = await self._link.execute(self._operation(wanted), lambda event: self._take(event, begun))
                if reply.ok:
                    pause = 0.0
                else:
                    pause = AFTER_REFUSAL
                    _fail(begun, refused(reply, modern=True))
            except ClientError as error:
                _fail(begun, unreachable(error))
            if begun.done() and begun.exception() is not None and uris:
                return
            self._interrupted = True
            await asyncio.sleep(pause)
            wanted = frozenset(self._watched) or uris

    def _operation(self, uris: frozenset[str]) -> Operation:
        notifications: dict[str, Any] = {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
        }
        if uris:
            found = [self._addresses.find(uri) for uri in sorted(uris)]
            notifications["resourceSubscriptions"] = [each if "server" in each else each["uri"] for each in found]
        return Operation(
            action="mcp.subscriptions.listen",
            family="subscriptions",
            payload={"notifications": notifications, "seconds": PERIOD},
            session_id=self._session_id,
            reads=True,
            seconds=PERIOD + 60.0,
        )

    async def _take(self, event: Mapping[str, Any], begun: asyncio.Future[None]) -> None:
        if event.get("type") == "acknowledged":
            if not begun.done():
                begun.set_result(None)
            if self._interrupted:
                self._interrupted = False
                for list_changed in _LISTS:
                    await self.bus.publish(list_changed)
            return
        params = event.get("params")
        change = event_from_wire(str(event.get("method")), params if isinstance(params, dict) else None)
        if isinstance(change, ResourceUpdated):
            for address in self._addresses.meaning(self._watched, event.get("server"), change.uri):
                await self.bus.publish(ResourceUpdated(uri=address))
        elif change is not None:
            await self.bus.publish(change)


def _fail(begun: asyncio.Future[None], error: MCPError) -> None:
    if not begun.done():
        begun.set_exception(error)
        begun.exception()  # Nobody may be waiting any more; that is no failure of the loop's.
