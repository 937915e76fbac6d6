"""
Keep servers behind a host over reloads: one with an unchanged configuration goes on with all its work.

A server belongs to every configuration that has it, and stops with the last of them, after all calls that began under
it.
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


class ServiceSupply(Protocol):
    """A function that returns the service of an entry: an existing one, or one that it makes."""

    def __call__(self, protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
        """
        Return the service of an entry.

        :param made_of: the settings; an existing service with equal ones is reused.
        """


def make_new(protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
    """Make a new service: a :class:`ServiceSupply` without existing ones."""
    return make()


@dataclass(frozen=True, kw_only=True, eq=False)
class SuppliedServer:
    """A server with the settings that it was made from."""

    key: tuple[str, str]
    """The protocol and the name."""

    settings: object
    service: Any
    lease: Lease
    """The watchers that the server registered."""


class ServerPool:
    """
    All servers, with the configurations that use them.

    :param leasing: of the table that servers watch.
    """

    def __init__(self, leasing: Leasing) -> None:
        self._leasing = leasing
        self._in_force: Mapping[tuple[str, str], SuppliedServer] = {}
        self._users: list[ServerOrder] = []
        self.service = MultiService()  # type: ignore[no-untyped-call]
        """The parent of all running servers."""

    def new_order(self) -> ServerOrder:
        """Return the collector of the servers of a configuration."""
        return ServerOrder(self._in_force, self._leasing)

    def start(self, order: ServerOrder) -> list[Any]:
        """Start the new services of an order and return them."""
        self._users.append(order)
        fresh = [each.service for each in order.every if each.service.parent is None]
        for service in fresh:
            # Each has a separate parent: a replaced service has the same name and may still have calls.
            room = MultiService()  # type: ignore[no-untyped-call]
            service.setServiceParent(room)
            room.setServiceParent(self.service)  # type: ignore[no-untyped-call]
        return fresh

    def adopt(self, order: ServerOrder) -> None:
        """Put an order in force."""
        self._in_force = {each.key: each for each in order.every}

    def retire(self, order: ServerOrder) -> None:
        """Stop the servers of an order that no other configuration uses."""
        if order in self._users:
            self._users.remove(order)
        used = {each for user in self._users for each in user.every}
        for each in order.every:
            if each not in used:
                self._stop(each)

    def _stop(self, supplied: SuppliedServer) -> None:
        supplied.lease.release()
        if supplied.service.parent is None:
            return
        stopping = supplied.service.parent.disownServiceParent()
        if isinstance(stopping, Deferred):
            stopping.addErrback(lambda failure: log.failure("a server did not stop cleanly", failure=failure))


class ServerOrder:
    """
    The servers of one configuration.

    :param there: the existing servers, which can be reused.
    """

    def __init__(self, there: Mapping[tuple[str, str], SuppliedServer], leasing: Leasing) -> None:
        self._existing = there
        self._leasing = leasing
        self.every: list[SuppliedServer] = []

    def __call__(self, protocol: str, name: str, made_of: object, make: Callable[[], S]) -> S:
        """Return the service of an entry; see :class:`ServiceSupply`."""
        known = self._existing.get((protocol, name))
        if known is None or known.settings != made_of:
            lease = Lease()
            with self._leasing.filling(lease):
                service = make()
            known = SuppliedServer(key=(protocol, name), settings=made_of, service=service, lease=lease)
        self.every.append(known)
        taken: S = known.service
        return taken
