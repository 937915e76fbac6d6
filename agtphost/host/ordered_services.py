"""Start services in order and stop them in reverse, each after the one before has stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit.ledger import Ledger
from agtphost.errors import Problem
from agtphost.stores import StoreError
from agtphost.vocabulary.foreign_errors import explain, original_of

log = Logger()


class OrderedServices(MultiService):
    """
    A MultiService that stops one service at a time, last first.

    Draining connections need the ledger, and running calls need their MCP server. So a service stops only after
    everything that may use it.
    """

    def stopService(self) -> Deferred[None]:
        """Stop all services in turn; fires after the last one has stopped."""
        self.running = 0
        return Deferred.fromCoroutine(self._stop_each(list(self)))

    async def stop_started(self) -> None:
        """Stop the services that have started, after one of them could not start."""
        self.running = 0
        await self._stop_each([service for service in self if service.running])

    async def _stop_each(self, services: Sequence[IService]) -> None:
        for service in reversed(services):
            try:
                stopping: object = service.stopService()  # type: ignore[no-untyped-call]
                if isinstance(stopping, Deferred):
                    await stopping
            except Exception:
                # One service that fails to stop must not keep the ledger from being flushed.
                log.failure("{service} did not stop cleanly", service=service)


class LedgerService(Service):
    """
    A service for the ledger: first to start, last to stop.

    :param check: raises StoreError where this host may not write to the store.
    """

    name = "ledger"

    def __init__(self, ledger: Ledger, check: Callable[[], None] = lambda: None) -> None:
        self._ledger = ledger
        self._check = check

    def start_problems(self) -> Iterator[Problem]:
        """Yield a problem if the store prevents a start; see :class:`agtphost.host.rehearsal.IPrecondition`."""
        try:
            self._check()
            self._ledger.read()
        except (StoreError, OSError) as error:
            yield Problem(message=explain(error), original=original_of(error))

    def startService(self) -> None:
        """Read the chains' heads and start the writer."""
        self._check()
        self._ledger.start()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[None]:
        """Write the waiting records and stop the writer."""
        super().stopService()  # type: ignore[no-untyped-call]
        return self._ledger.stop()
