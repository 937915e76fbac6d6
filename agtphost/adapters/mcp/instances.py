"""Processes and HTTP sessions that belong to one caller: ``isolation`` (adapters rule G3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from agtphost.upstream.failures import Busy

Key = tuple[str, str, bool]
"""Agent-ID, Session-ID (empty where it does not matter), and whether it has to be of the handshake era."""

SWEEP = 5.0
"""Seconds between two looks for idle ones, at most."""


class Instance(Protocol):
    """What the pool asks of a server."""

    @property
    def busy(self) -> bool:
        """Whether a call is under way, or parked."""

    @property
    def last_used(self) -> float:
        """When it was last called, reactor time."""

    def startService(self) -> None:
        """Begin."""

    def stopService(self) -> Deferred[None]:
        """End; fires when nothing of it is left."""


T = TypeVar("T", bound=Instance)


class Instances(Generic[T]):
    """
    A bounded number of servers, each for one caller.

    :param clock: for idleness.
    :param make: makes one for a key, not started.
    :param most: how many there may be.
    :param idle: seconds without a call after which one is ended.
    """

    def __init__(self, clock: IReactorTime, make: Callable[[Key], T], most: int, idle: float) -> None:
        self._clock = clock
        self._make = make
        self._most = most
        self._share = max(1, most - max(1, most // 4))
        self._idle = idle
        self._by_key: OrderedDict[Key, T] = OrderedDict()
        self._ending: set[Deferred[None]] = set()
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self.evicted = 0
        """Ended because nobody used them, or to make room."""

    def __len__(self) -> int:
        return len(self._by_key)

    def all(self) -> list[T]:
        """Every one, the one used longest ago first."""
        return list(self._by_key.values())

    def get(self, key: Key) -> T | None:
        """The caller's own where it has one."""
        found = self._by_key.get(key)
        if found is not None:
            self._by_key.move_to_end(key)
        return found

    def of_agent(self, agent_id: str) -> list[T]:
        """Every one of an agent."""
        return [each for key, each in self._by_key.items() if key[0] == agent_id]

    def end(self, key: Key) -> None:
        """End one, if it is there."""
        if key in self._by_key:
            self._end(key)

    def of(self, key: Key) -> T:
        """
        The caller's own, begun where it is new.

        :raises Busy: there are as many as may be, or this agent has three quarters of them, and all are busy.
        """
        found = self._by_key.get(key)
        if found is None:
            if self._stopped:
                raise Busy("the host stops")
            own = [each for each in self._by_key if each[0] == key[0]]
            if len(own) >= self._share:
                self._make_room(own)
            elif len(self._by_key) >= self._most:
                self._make_room(list(self._by_key))
            found = self._by_key[key] = self._make(key)
            found.startService()
            self._watch()
        self._by_key.move_to_end(key)
        return found

    def stop(self) -> Deferred[Any]:
        """End all; fires when nothing of them is left."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        for key in list(self._by_key):
            self._end(key)
        return DeferredList(list(self._ending))

    def _make_room(self, among: list[Key]) -> None:
        for key in among:
            if not self._by_key[key].busy:
                self.evicted += 1
                self._end(key)
                return
        raise Busy("as many processes or sessions as may be are busy")

    def _end(self, key: Key) -> None:
        ended = self._by_key.pop(key).stopService()
        self._ending.add(ended)

        def gone(result: Any) -> Any:
            self._ending.discard(ended)
            return result

        ended.addBoth(gone)

    def _watch(self) -> None:
        if self._timer is None or not self._timer.active():
            self._timer = self._clock.callLater(min(self._idle, SWEEP), self._sweep)

    def _sweep(self) -> None:
        now = self._clock.seconds()
        for key, instance in list(self._by_key.items()):
            if not instance.busy and now - instance.last_used >= self._idle:
                self.evicted += 1
                self._end(key)
        if self._by_key:
            self._watch()
