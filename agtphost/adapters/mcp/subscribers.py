"""Keep the subscribers to changes at one server, and subscribe at the server for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.vocabulary.steps import spread

_log = Logger()

LIST_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Notifications, and the names that subscribers use for them."""

UPDATED = "notifications/resources/updated"
MOST = 1_000
"""The largest number of subscribers of one server."""


class Subscriber:
    """
    A subscriber to changes.

    :param lists: names of :data:`LIST_CHANGES`.
    :param uris: resources.
    :param take: takes method and params.
    """

    __slots__ = ("lists", "take", "uris")

    def __init__(
        self, lists: frozenset[str], uris: frozenset[str], take: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self.lists = lists
        self.uris = uris
        self.take = take

    def wants(self, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether the subscriber wants a notification."""
        if method in LIST_CHANGES:
            return LIST_CHANGES[method] in self.lists
        uri = params.get("uri")
        if method != UPDATED or not isinstance(uri, str):
            return False
        # The changed resource may be a part of the one that was subscribed to.
        return any(uri == wanted or uri.startswith(wanted.rstrip("/") + "/") for wanted in self.uris)


class Subscribers:
    """
    The subscribers of one server.

    :param server: the server to subscribe at.
    """

    def __init__(self, server: IsMcpServer) -> None:
        self._server = server
        self._subscribers: dict[Subscriber, None] = {}  # in order of their subscription
        self._unannounced: dict[tuple[Subscriber, str], Mapping[str, Any]] = {}
        self._guests = 0
        self._uris: Counter[str] = Counter()
        self._listening: dict[str, Deferred[Any]] = {}

    def __len__(self) -> int:
        """Return the number of subscribers that keep the server running, without guests."""
        return len(self._subscribers) - self._guests

    def add(self, subscriber: Subscriber, *, guest: bool = False) -> None:
        """
        Add a subscriber.

        :param guest: whether it does not keep the server running: see :class:`AgentListeners`.
        """
        if subscriber in self._subscribers:
            return
        self._guests += guest
        self._subscribers[subscriber] = None
        for uri in subscriber.uris:
            self._uris[uri] += 1
            if self._uris[uri] == 1:
                self._begin(uri)

    def remove(self, subscriber: Subscriber, *, guest: bool = False) -> None:
        """Remove a subscriber."""
        if subscriber not in self._subscribers:
            return
        self._guests -= guest
        del self._subscribers[subscriber]
        for uri in subscriber.uris:
            self._uris[uri] -= 1
            if not self._uris[uri]:
                del self._uris[uri]
                self._end(uri)

    def announce(self, method: str, params: Mapping[str, Any]) -> None:
        """
        Pass a notification on to the subscribers who want it.

        Notifications of a changed list are spread over several turns of the reactor, since each subscriber checks which
        entries it may use. A subscriber whose turn is still to come gets one notification for two changes.
        """
        wanting = [subscriber for subscriber in self._subscribers if subscriber.wants(method, params)]
        if method not in LIST_CHANGES:
            for subscriber in wanting:
                subscriber.take(method, params)
            return
        telling = bool(self._unannounced)
        self._unannounced.update(((subscriber, method), params) for subscriber in wanting)
        if not telling:
            spread(self._announce_all(), self._server.clock)

    def _announce_all(self) -> Iterator[None]:
        while self._unannounced:
            subscriber, method = next(iter(self._unannounced))
            params = self._unannounced.pop((subscriber, method))
            if subscriber in self._subscribers:
                try:
                    subscriber.take(method, params)
                except Exception:
                    _log.failure("a listener did not get {method}", method=method)
            yield

    def forget_link(self) -> None:
        """Forget all subscriptions at the server, because the link ended."""
        self._listening.clear()

    def restore(self, *, again: bool) -> None:
        """
        Subscribe at the new link. After an earlier link, all resources count as changed, since changes may have been
        missed.
        """
        for uri in self._uris:
            self._begin(uri)
            if again:
                self.announce(UPDATED, {"uri": uri})

    def _begin(self, uri: str) -> None:
        terms = self._server.terms
        if terms is None:
            return
        if terms.stateless:
            wanted = {"notifications": {"resourceSubscriptions": [uri]}}
            asked = self._server.listen("subscriptions/listen", wanted)
        else:
            asked = self._server.post("resources/subscribe", {"uri": uri}, self._server.settings.timeout)
        asked.addErrback(lambda _: None)
        self._listening[uri] = asked

    def _end(self, uri: str) -> None:
        asked = self._listening.pop(uri, None)
        terms = self._server.terms
        if asked is None or terms is None:
            return
        if terms.stateless:
            asked.cancel()
        else:
            ended = self._server.post("resources/unsubscribe", {"uri": uri}, self._server.settings.timeout)
            ended.addErrback(lambda _: None)


class AgentListeners:
    """
    The subscriptions of agents at a server, in all their processes or HTTP sessions.

    An agent's call may run in another process than the one that its subscription began with, and that process announces
    the changes of the call. So all processes of an agent announce to all its subscriptions, and none to another
    agent's.

    :param of_agent: returns the subscribers at each of an agent's own processes.
    """

    def __init__(self, of_agent: Callable[[str], Iterable[Subscribers]]) -> None:
        self._of_agent = of_agent
        self._of: dict[str, list[Subscriber]] = {}

    def add(self, agent_id: str, subscriber: Subscriber) -> None:
        """Add a subscriber to every present and future process of an agent."""
        self._of.setdefault(agent_id, []).append(subscriber)
        for events in self._of_agent(agent_id):
            events.add(subscriber, guest=True)

    def remove(self, agent_id: str, subscriber: Subscriber) -> None:
        """Remove a subscriber from every process of an agent."""
        listening = self._of[agent_id]
        listening.remove(subscriber)
        if not listening:
            del self._of[agent_id]
        for events in self._of_agent(agent_id):
            events.remove(subscriber, guest=True)

    def introduce(self, agent_id: str, events: Subscribers) -> None:
        """Add an agent's subscribers to a new process of the agent."""
        for subscriber in self._of.get(agent_id, ()):
            events.add(subscriber, guest=True)
