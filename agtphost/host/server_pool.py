"""
Keep services over reloads: a server behind the host with an unchanged configuration goes on with all its work.

A service belongs to every configuration that has it, and stops with the last of them, after all calls that began under
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from agtphost.audit.leases import Lease, Leasing
from agtphost.errors import ConfigurationError, Problem
from agtphost.stores import StoreError

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


class _Room(MultiService):
    """The parent of one service: a replaced service has the same name as the new one, and may still have calls."""

    def startService(self) -> None:
        """
        Start the service.

        :raises ConfigurationError: it cannot be started.
        """
        try:
            super().startService()  # type: ignore[no-untyped-call]
        except (ConfigurationError, StoreError):
            raise
        except Exception as error:
            (service,) = self
            message = f"the service {service.name or service!r} cannot be started: {error!r}"
            raise ConfigurationError([Problem(message=message)]) from error


class SharedServices:
    """
    Services that several configurations have, compared by identity: each runs from the first of them to the last one.
    """

    def __init__(self) -> None:
        self._users: list[tuple[object, Sequence[Any]]] = []
        self.service = MultiService()  # type: ignore[no-untyped-call]
        """The parent of all of them."""

    def start(self, user: object, services: Sequence[Any]) -> list[Any]:
        """
        Start the services of a configuration that no other has, and return them.

        :param user: the configuration, for :meth:`leave`.
        """
        self._users.append((user, services))
        fresh = [each for each in services if each.parent is None]
        for service in fresh:
            room = _Room()  # type: ignore[no-untyped-call]
            service.setServiceParent(room)
            room.setServiceParent(self.service)  # type: ignore[no-untyped-call]
        return fresh

    def leave(self, user: object, services: Sequence[Any]) -> list[Any]:
        """
        End the use of services by a configuration, and return those that no other has, for :meth:`stop`.

        :param user: the configuration, whether its services were started or not.
        """
        self._users = [each for each in self._users if each[0] is not user]
        used = {id(each) for _, others in self._users for each in others}
        return [each for each in services if id(each) not in used]

    def stop(self, services: Iterable[Any]) -> None:
        """Stop services, as far as they were started."""
        for service in services:
            if service.parent is not None:
                stopping: Deferred[Any] = maybeDeferred(service.parent.disownServiceParent)
                stopping.addErrback(lambda failure: log.failure("a service did not stop cleanly", failure=failure))


class ServerPool:
    """
    All servers, with the configurations that use them.

    :param leasing: of the table that servers watch.
    """

    def __init__(self, leasing: Leasing) -> None:
        self._leasing = leasing
        self._in_force: Mapping[tuple[str, str], SuppliedServer] = {}
        self._shared = SharedServices()
        self.service = self._shared.service
        """The parent of all running servers."""

    def new_order(self) -> ServerOrder:
        """Return the collector of the servers of a configuration."""
        return ServerOrder(self._in_force, self._leasing)

    def start(self, order: ServerOrder) -> list[Any]:
        """Start the new services of an order and return them."""
        return self._shared.start(order, [each.service for each in order.every])

    def adopt(self, order: ServerOrder) -> None:
        """Put an order in force."""
        self._in_force = {each.key: each for each in order.every}

    def retire(self, order: ServerOrder) -> None:
        """Stop the servers of an order that no other configuration uses."""
        leases = {id(each.service): each.lease for each in order.every}
        unused = self._shared.leave(order, [each.service for each in order.every])
        for service in unused:
            leases[id(service)].release()
        self._shared.stop(unused)


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
