"""The requests that listen for changes of what their agents may call."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from enum import StrEnum
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from agtphost.identity.peer import Assurance
from agtphost.vocabulary.steps import spread


class WaitEnd(StrEnum):
    """The reason why the wait of a request ended, in the word of its record."""

    TIME_UP = "time-up"
    HOST_STOPPING = "host-stopping"
    RIGHTS_CHANGED = "rights-changed"
    CONFIGURATION_CHANGED = "configuration-changed"
    CALLER_LEFT = "caller-left"
    NEWS = "news"


class RightsListeners:
    """
    A registry of listening requests by agent.

    A request whose agent's rights change ends with an ordinary answer. Its client listens again, with the rights of
    then, and reads all lists again.

    :param clock: ends many requests in several turns of the reactor.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._of: dict[str, tuple[Any, dict[Deferred[WaitEnd], Assurance]]] = {}
        self.snapshot: Callable[[str], Any] = lambda agent_id: None
        """Returns the present rights of an agent, which are kept for :meth:`rights_before`."""

    def __contains__(self, agent_id: object) -> bool:
        """Return whether a request listens for an agent."""
        return agent_id in self._of

    def add(self, agent_id: str, assurance: Assurance) -> Deferred[WaitEnd]:
        """
        Add a request of an agent; return the Deferred that ends its wait and says why. :meth:`remove` must follow.

        :param assurance: how surely the caller is known to be that agent.
        """
        news: Deferred[WaitEnd] = Deferred()
        if agent_id not in self._of:
            self._of[agent_id] = self.snapshot(agent_id), {}
        self._of[agent_id][1][news] = assurance
        return news

    def remove(self, agent_id: str, news: Deferred[WaitEnd]) -> None:
        """Remove a request."""
        _, listening = self._of[agent_id]
        del listening[news]
        if not listening:
            del self._of[agent_id]

    def rights_before(self, agent_id: str) -> Any:
        """Return the rights that an agent had when its first request began, or by :meth:`set_rights`."""
        return self._of[agent_id][0]

    def set_rights(self, agent_id: str, rights: Any) -> None:
        """Set the rights with which the next ones of an agent are compared."""
        self._of[agent_id] = rights, self._of[agent_id][1]

    def assurances(self, agent_id: str) -> frozenset[Assurance]:
        """Return how surely the callers of an agent's requests are known."""
        return frozenset(self._of[agent_id][1].values())

    def end(self, agent_id: str, assurance: Assurance) -> None:
        """End the requests of an agent whose callers are known so surely."""
        spread(self._end(agent_id, WaitEnd.RIGHTS_CHANGED, (assurance,)), self._clock)

    def end_all(self) -> None:
        """End all requests, because another configuration is in force."""
        why = WaitEnd.CONFIGURATION_CHANGED
        spread((None for agent_id in list(self._of) for _ in self._end(agent_id, why)), self._clock)

    def _end(self, agent_id: str, why: WaitEnd, assurances: Container[Assurance] = tuple(Assurance)) -> Iterator[None]:
        for news, assurance in list(self._of[agent_id][1].items()) if agent_id in self._of else ():
            if assurance in assurances and not news.called:
                news.callback(why)
            yield
