"""
Announce changes at the host to clients.

One ``mcp.subscriptions.listen`` at the host serves all clients of one caller. When a client watches one more resource,
a new subscription begins, and the old one ends once the new one is acknowledged. A subscription that ends otherwise is
begun again, and clients are notified that all lists may have changed since. The host ends one when the rights of its
caller change or another configuration is in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from agtphost.client.errors import ClientError
from agtphost.client.mcp.addresses import Addresses
from agtphost.client.reply import Reply
from agtphost.client.requests import new_session_id
from agtphost.mcp.link import McpHostLink, McpOperation
from agtphost.mcp.messages import McpFault, refusal_fault, unreachable_fault
from agtphost.vocabulary.status import Status

log = Logger()

ACKNOWLEDGE_SECONDS = 10.0
"""Seconds within which the host must acknowledge a subscription."""

SUBSCRIPTION_SECONDS = 3600
"""Seconds that one subscription lasts at the host."""

AFTER_FAILURE = 5.0
"""Seconds until a subscription that broke is begun again."""

AFTER_REFUSAL = 60.0
"""
The longest time in seconds until a refused subscription is begun again. The first pause is :data:`SHORTEST`, and each
further one twice the last: an agent that is suspended for a minute hears soon that it may call again.
"""

REINSTATEMENT_SECONDS = 60
"""Seconds for which the host may keep back the refusal of a suspended agent."""

SHORTEST = 1.0
"""Seconds from one subscription's beginning to the next: a host that stops ends each one immediately."""

UPDATED = "notifications/resources/updated"
LISTS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""The names that clients use for changes of lists, and the notifications of these changes."""


@dataclass(frozen=True, slots=True)
class McpChange:
    """A change to announce to clients."""

    method: str
    """MCP notification method, such as ``notifications/tools/list_changed``."""

    uri: str = ""
    """The resource that was updated; empty for other changes."""

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters of the notification."""
        return {"uri": self.uri} if self.uri else {}


ChangeListener = Callable[[McpChange], None]


class _HostSubscription:
    """A subscription at the host, from its request on."""

    def __init__(self) -> None:
        self.acknowledgement: Deferred[None] = Deferred()
        self.work: Deferred[None] | None = None
        self.pause: IDelayedCall | None = None
        """The end of the pause before it is begun again, which lasts longer only after refusals."""

    def acknowledge(self) -> None:
        if not self.acknowledgement.called:
            self.acknowledgement.callback(None)

    def fail(self, fault: McpFault) -> bool:
        """Fail the subscription unless it has begun; return whether it had not."""
        if self.acknowledgement.called:
            return False
        self.acknowledgement.errback(fault)
        return True


class ChangeFeed:
    """
    A caller's subscription at the host.

    :param link: the link to the host.
    :param addresses: the resources of the addresses that clients watch.
    """

    def __init__(self, link: McpHostLink, addresses: Addresses, clock: IReactorTime) -> None:
        self._link = link
        self._addresses = addresses
        self._clock = clock
        self._session_id = new_session_id()
        self._watched: Counter[str] = Counter()
        self._lock = DeferredLock()
        self._running: _HostSubscription | None = None
        self._interrupted = False
        self._refusals = 0
        self._hurried = False
        """Whether :meth:`hurry` was called since the last request of a subscription began."""

        self._reinstated = False
        """Whether the agent could call for a moment after the last refusal: clients may have listed again."""

        self._listeners: dict[object, ChangeListener] = {}

    def add_listener(self, hear: ChangeListener) -> Callable[[], None]:
        """Call a function with each change; return a function that ends this."""
        key = object()
        self._listeners[key] = hear

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def publish(self, change: McpChange) -> None:
        """Announce a change to all listeners."""
        for hear in list(self._listeners.values()):
            hear(change)

    async def begin(self) -> None:
        """Begin to listen for changes of lists, if that has not begun; if the host refuses, it is asked again later."""
        await self._lock.acquire()
        try:
            if self._running is None:
                await self._switch(frozenset(), keep=True)
        finally:
            self._lock.release()

    async def watch(self, uris: Collection[str]) -> None:
        """
        Listen for updates of resources too.

        :raises McpFault: if the host refuses that; the earlier subscription continues.
        """
        await self._lock.acquire()
        try:
            wanted = frozenset(self._watched) | frozenset(uris)
            if wanted != frozenset(self._watched) or self._running is None:
                await self._switch(wanted, keep=False)
            self._watched.update(uris)
        finally:
            self._lock.release()

    def unwatch(self, uris: Collection[str]) -> None:
        """Stop watching resources for one client; the subscription at the host shrinks when it next begins."""
        self._watched.subtract(uris)
        self._watched = +self._watched

    def hurry(self) -> None:
        """Begin a refused subscription again now, and not after its pause: the caller may call again."""
        self._hurried = True
        pause = None if self._running is None else self._running.pause
        if self._refusals and pause is not None and pause.active():
            pause.reset(0)

    def end(self) -> None:
        """End the subscription."""
        turn, self._running = self._running, None
        if turn is not None and turn.work is not None:
            turn.work.cancel()

    async def _switch(self, uris: frozenset[str], *, keep: bool) -> None:
        """
        Begin a subscription, and end the former one once the new one is acknowledged.

        :param keep: whether the new one is kept even if it fails.
        """
        turn = _HostSubscription()
        begun, patience = (
            turn.acknowledgement,
            self._clock.callLater(
                ACKNOWLEDGE_SECONDS,
                lambda: turn.fail(
                    unreachable_fault(ClientError("The host did not begin the subscription in time.", "Try again."))
                ),
            ),
        )
        turn.work = Deferred.fromCoroutine(self._listen(uris, turn))
        turn.work.addErrback(_log_end)
        try:
            await begun
        except McpFault:
            if not keep:
                turn.work.cancel()
                raise
        finally:
            if patience.active():
                patience.cancel()
        self.end()
        self._running = turn

    async def _listen(self, uris: frozenset[str], turn: _HostSubscription) -> None:
        wanted = uris
        while True:
            pause, begun, self._hurried = AFTER_FAILURE, self._clock.seconds(), False
            try:
                operation = self._operation(wanted, begun_before=turn.acknowledgement.called)
                reply = await self._link.execute(operation, lambda event: self._take(event, turn))
                shortest = max(0.0, begun + SHORTEST - self._clock.seconds())
                if reply.ok:
                    pause = shortest
                else:
                    pause = self._pause_after_refusal(reply, shortest)
                    if turn.fail(refusal_fault(reply, modern=True)):
                        if uris:
                            return
                    elif not self._refusals or self._reinstated:
                        # What was listed before may not be called any more: the agent was stopped.
                        self._publish_lists()
                    self._refusals += 1
                    self._reinstated = _is_reinstatement(reply, self._clock.seconds() - begun)
            except ClientError as error:
                if turn.fail(unreachable_fault(error)) and uris:
                    return
            self._interrupted = True
            await self._rest(turn, pause)
            wanted = frozenset(self._watched) or uris

    async def _rest(self, turn: _HostSubscription, seconds: float) -> None:
        """Wait before a subscription is begun again, until :meth:`hurry` ends that."""
        over: Deferred[None] = Deferred()
        turn.pause = pause = self._clock.callLater(seconds, over.callback, None)
        try:
            await over
        finally:
            if pause.active():
                pause.cancel()

    def _pause_after_refusal(self, reply: Reply, shortest: float) -> float:
        """
        Return the seconds until a refused subscription is begun again.

        :param shortest: after a refusal that the host kept back until the agent's state changed, as it was asked to;
            after the next one; after the end of one that lasted, so that the host can keep back the next one; and after
            one during which the agent's state changed.
        """
        if not self._refusals or self._reinstated or self._hurried or reply.headers.get("preference-applied"):
            return shortest
        return min(AFTER_REFUSAL, SHORTEST * float(2 ** min(self._refusals, 9)))

    def _operation(self, uris: frozenset[str], *, begun_before: bool) -> McpOperation:
        """
        Return the request of a subscription.

        :param begun_before: whether resources may be left out that the caller may not read any more.
        """
        notifications: dict[str, Any] = dict.fromkeys(LISTS, True)
        if uris:
            found = [self._addresses.find(uri) for uri in sorted(uris)]
            notifications["resourceSubscriptions"] = [each if "server" in each else each["uri"] for each in found]
        return McpOperation(
            action="mcp.subscriptions.listen",
            family="subscriptions",
            payload={
                "notifications": notifications,
                "seconds": SUBSCRIPTION_SECONDS,
                **({"optional": True} if begun_before and uris else {}),
            },
            session_id=self._session_id,
            reads=True,
            seconds=SUBSCRIPTION_SECONDS + 60.0,
            # The client that waits for the first one gets a refusal immediately, and so does one whose agent was
            # reinstated: if it is suspended again, clients are notified.
            reinstatement_wait=REINSTATEMENT_SECONDS if begun_before and not self._reinstated else 0,
        )

    def _publish_lists(self) -> None:
        self._interrupted = False
        for method in LISTS.values():
            self.publish(McpChange(method))

    def _take(self, event: Mapping[str, Any], turn: _HostSubscription) -> None:
        if event.get("type") == "acknowledged":
            turn.acknowledge()
            self._refusals, self._reinstated = 0, False
            if self._interrupted:
                self._publish_lists()
            return
        method, params = str(event.get("method")), event.get("params")
        if method == UPDATED and isinstance(params, dict) and isinstance(params.get("uri"), str):
            for address in self._addresses.meaning(self._watched, event.get("server"), params["uri"]):
                self.publish(McpChange(UPDATED, address))
        elif method in LISTS.values():
            self.publish(McpChange(method))


def _is_reinstatement(reply: Reply, seconds: float) -> bool:
    """Return whether a host kept the refusal of a suspended agent back, and ended that before its time was up."""
    _, _, longest = (reply.headers.get("preference-applied") or "").partition("wait=")
    return reply.status == Status.UNAVAILABLE and longest.isdecimal() and seconds < int(longest[:9])


def _log_end(failure: Any) -> None:
    if not isinstance(failure.value, CancelledError):
        log.failure("listening for changes ended", failure)
