"""Who wants to hear of changes at one server, and what the server is asked for on their behalf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.adapters.mcp.requests import SendsRequests
from agtphost.vocabulary.steps import spread

_log = Logger()

LIST_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""Notifications, and what subscribers call them."""

UPDATED = "notifications/resources/updated"
MOST = 1_000
"""Subscribers of one server."""


class Subscriber:
    """
    One who wants to hear.

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
        """Whether a notification is one of those."""
        if method in LIST_CHANGES:
            return LIST_CHANGES[method] in self.lists
        uri = params.get("uri")
        if method != UPDATED or not isinstance(uri, str):
            return False
        # What changed may be a part of what was subscribed to.
        return any(uri == wanted or uri.startswith(wanted.rstrip("/") + "/") for wanted in self.uris)


class Subscribers:
    """
    The subscribers of one server.

    :param server: is asked to tell of resources.
    """

    def __init__(self, server: SendsRequests) -> None:
        self._server = server
        self._subscribers: dict[Subscriber, None] = {}  # in the order in which they came
        self._untold: dict[tuple[Subscriber, str], Mapping[str, Any]] = {}
        self._guests = 0
        self._uris: Counter[str] = Counter()
        self._listening: dict[str, Deferred[Any]] = {}

    def __len__(self) -> int:
        """Those for whose sake the server is kept, so without guests."""
        return len(self._subscribers) - self._guests

    def add(self, subscriber: Subscriber, *, guest: bool = False) -> None:
        """
        Tell someone from now on.

        :param guest: as long as there is this server anyhow: see :class:`Listeners`.
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
        """Tell them no more."""
        if subscriber not in self._subscribers:
            return
        self._guests -= guest
        del self._subscribers[subscriber]
        for uri in subscriber.uris:
            self._uris[uri] -= 1
            if not self._uris[uri]:
                del self._uris[uri]
                self._end(uri)

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """
        Pass a notification on to those who want it.

        That a list changed is told to many in several turns, since each is asked what of the list is for it; who is
        still to be told of one change hears once of two.
        """
        wanting = [subscriber for subscriber in self._subscribers if subscriber.wants(method, params)]
        if method not in LIST_CHANGES:
            for subscriber in wanting:
                subscriber.take(method, params)
            return
        telling = bool(self._untold)
        self._untold.update(((subscriber, method), params) for subscriber in wanting)
        if not telling:
            spread(self._told(), self._server.clock)

    def _told(self) -> Iterator[None]:
        while self._untold:
            subscriber, method = next(iter(self._untold))
            params = self._untold.pop((subscriber, method))
            if subscriber in self._subscribers:
                try:
                    subscriber.take(method, params)
                except Exception:
                    _log.failure("a listener cannot be told of {method}", method=method)
            yield

    def lost(self) -> None:
        """The link ended, and every subscription with it."""
        self._listening.clear()

    def restore(self, *, again: bool) -> None:
        """There is a link. Where there was one before, whatever was missed meanwhile counts as a change."""
        for uri in self._uris:
            self._begin(uri)
            if again:
                self.tell(UPDATED, {"uri": uri})

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


class Listeners:
    """
    What agents listen for at a server, wherever it happens: in a process, or HTTP session, of their own too.

    An agent's call may work in another process than the one that its subscription began with, and what it changes is
    told there. So all processes of an agent tell all that it listens for, and no process of another's does.

    :param of_agent: the subscribers at each of an agent's own processes.
    """

    def __init__(self, of_agent: Callable[[str], Iterable[Subscribers]]) -> None:
        self._of_agent = of_agent
        self._of: dict[str, list[Subscriber]] = {}

    def add(self, agent_id: str, subscriber: Subscriber) -> None:
        """Have every process of an agent tell, those yet to come included."""
        self._of.setdefault(agent_id, []).append(subscriber)
        for events in self._of_agent(agent_id):
            events.add(subscriber, guest=True)

    def remove(self, agent_id: str, subscriber: Subscriber) -> None:
        """Have them tell no more."""
        listening = self._of[agent_id]
        listening.remove(subscriber)
        if not listening:
            del self._of[agent_id]
        for events in self._of_agent(agent_id):
            events.remove(subscriber, guest=True)

    def introduce(self, agent_id: str, events: Subscribers) -> None:
        """A new process of an agent."""
        for subscriber in self._of.get(agent_id, ()):
            events.add(subscriber, guest=True)
