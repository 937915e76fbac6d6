"""
The servers behind a host over its configurations: one that is configured as it was goes on, with all it has begun.

A server belongs to every configuration that has it, and stops with the last of them: by then all calls are over that
began under it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit.leases import Lease, Leasing

S = TypeVar("S", bound=Service)

log = Logger()


class Supply(Protocol):
    """Makes the service of an entry, or has it already."""

    def __call__(self, protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
        """
        One service.

        :param made_of: what tells whether one of that name still is what is asked for.
        """


def anew(protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
    """A :class:`Supply` that has nothing."""
    return make()


@dataclass(frozen=True, kw_only=True, eq=False)
class Supplied:
    """One server."""

    key: tuple[str, str]
    """Protocol and name."""

    made_of: object
    service: Any
    lease: Lease
    """What it watches."""


class Servers:
    """
    Every server there is, by the configurations that have it.

    :param leasing: of the table that servers watch.
    """

    def __init__(self, leasing: Leasing) -> None:
        self._leasing = leasing
        self._in_force: Mapping[tuple[str, str], Supplied] = {}
        self._users: list[Order] = []
        self.service = MultiService()  # type: ignore[no-untyped-call]
        """Parent of all that run."""

    def order(self) -> Order:
        """What a configuration asks for its servers."""
        return Order(self._in_force, self._leasing)

    def start(self, order: Order) -> list[Any]:
        """Start what is new in it; those services are returned."""
        self._users.append(order)
        fresh = [each.service for each in order.every if each.service.parent is None]
        for service in fresh:
            # In a room of its own: one that is replaced has the same name, and still has calls to end.
            room = MultiService()  # type: ignore[no-untyped-call]
            service.setServiceParent(room)
            room.setServiceParent(self.service)  # type: ignore[no-untyped-call]
        return fresh

    def adopt(self, order: Order) -> None:
        """It is in force from now on."""
        self._in_force = {each.key: each for each in order.every}

    def retire(self, order: Order) -> None:
        """Nothing goes on by it any more: stop what no other configuration has."""
        if order in self._users:
            self._users.remove(order)
        used = {each for user in self._users for each in user.every}
        for each in order.every:
            if each not in used:
                self._stop(each)

    def _stop(self, supplied: Supplied) -> None:
        supplied.lease.release()
        if supplied.service.parent is None:
            return
        stopping = supplied.service.parent.disownServiceParent()
        if isinstance(stopping, Deferred):
            stopping.addErrback(lambda failure: log.failure("a server did not stop cleanly", failure=failure))


class Order:
    """
    The servers of one configuration.

    :param there: what can go on.
    """

    def __init__(self, there: Mapping[tuple[str, str], Supplied], leasing: Leasing) -> None:
        self._there = there
        self._leasing = leasing
        self.every: list[Supplied] = []

    def __call__(self, protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
        """See :class:`Supply`."""
        known = self._there.get((protocol, name))
        if known is None or known.made_of != made_of:
            lease = Lease()
            with self._leasing.filling(lease):
                service = make()
            known = Supplied(key=(protocol, name), made_of=made_of, service=service, lease=lease)
        self.every.append(known)
        taken: S = known.service
        return taken
