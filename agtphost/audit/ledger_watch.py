"""Watch the ledger for as long as a service runs."""

from __future__ import annotations

from collections.abc import Callable

from twisted.application.service import Service

from agtphost.audit.interfaces import ILedger
from agtphost.audit.observed_records import ObservedGroup


class LedgerWatch(Service):
    """
    A service that shows a watcher each group that the ledger seals while it runs.

    :param name: of the service.
    """

    def __init__(self, name: str, ledger: ILedger, watcher: Callable[[ObservedGroup], object]) -> None:
        self.name = name
        self._ledger = ledger
        self._watcher = watcher

    def startService(self) -> None:
        """Begin to watch."""
        super().startService()  # type: ignore[no-untyped-call]
        self._ledger.watch(self._watcher)

    def stopService(self) -> None:
        """End the watch."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._ledger.unwatch(self._watcher)
