"""
Choose what a host serves when it takes over, as its files may have changed since they were read.

A takeover serves what a start would serve. Where a start would fail, it serves what a reload would take: keys that wait
for a restart stay as they were read before. Where that fails, too, all stays, so that a working configuration is served
as long as this process has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from twisted.logger import Logger

from agtphost.config.reloadable_keys import RESTART, STANDBY_RESTART, WHOLE
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.host_loader import LoadedHost
from agtphost.host.reload_candidate import ATTEMPTS
from agtphost.host.reload_plan import CONFIGURATION, HANDLERS, Inventory, stamp_endpoint_files
from agtphost.host.reserved_labels import leave_out_reserved
from agtphost.host.start_files import UntakenChange, find_changes, stamp_files

log = Logger()

Staying = Mapping[str, frozenset[str]]
"""By table, the keys that stay as they were."""

ReadFiles = Callable[[LoadedHost, Staying], tuple[LoadedHost, Sequence[str]]]
"""
Returns what a start would read, and the keys that stay as they were; :exc:`ConfigurationError` if the start would fail.
The first argument is what was read before.
"""

READINGS: Final[Sequence[Staying]] = (STANDBY_RESTART, RESTART)
"""The keys that stay at each of the readings to try."""

WAITING = frozenset(
    f"[{table}]" if keys == WHOLE else f"[{table}] {key}" for table, keys in STANDBY_RESTART.items() for key in keys
)
"""Keys that a takeover takes from the configuration before in any case."""

CHANGED_MODULES = "modules of the handlers have changed; restart this host to import them again"


def log_problems(problems: Iterable[Problem]) -> None:
    """Log why files are not taken."""
    for problem in problems:
        log.error("not taken: {problem}", problem=str(problem))


def log_waiting(keys: Iterable[str]) -> None:
    """Log that keys stay as they were."""
    for key in keys:
        log.warn("{key} waits for a restart of this host", key=key)


def stamp_host(loaded: LoadedHost) -> Inventory:
    """Return the files of a host as they are now."""
    return {**stamp_files(loaded.config, loaded.tls), **stamp_endpoint_files(loaded.endpoints)}


class TakeoverFiles:
    """
    The configurations that a host can serve when it takes over, in the order in which they are tried.

    :param before: what was read before.
    :param read: reads the files, and tries a start with them.
    :raises agtphost.stores.StoreError: the store keeps this host from serving with any configuration.
    """

    def __init__(self, before: LoadedHost, read: ReadFiles) -> None:
        self._read = read
        changed = find_changes(stamp_host(before), before.files)
        self._before = self.loaded = leave_out_reserved(before)
        self._compared = stamp_host(self.loaded)
        self._next: list[Staying] = []
        self._can_stay = False
        self._again = ATTEMPTS - 1
        self._problems: Sequence[Problem] = ()
        """Those that kept the files as they are now from being taken."""

        if HANDLERS in changed:
            log.warn(CHANGED_MODULES)
        if changed - {HANDLERS}:
            self._begin()

    def _begin(self) -> None:
        self._next, self._can_stay, self._problems = list(READINGS), True, ()
        self._take()

    @property
    def can_fall_back(self) -> bool:
        """Whether there is something else to serve after a start that failed."""
        return self._can_stay or self._must_read_again

    def fall_back(self, problems: Sequence[Problem]) -> None:
        """
        Choose something else after a start that failed although its trial found nothing.

        Files that have changed since they were read are read again. Otherwise it is what would be served if the trial
        had found the problems.

        :param problems: of the start.
        """
        log_problems(problems)
        if self._must_read_again:
            self._again -= 1
            self._begin()
        else:
            # The first start was with all changes; a later one may have failed for another reason.
            self._problems = self._problems or problems
            self._take()

    @property
    def _must_read_again(self) -> bool:
        return self._again > 0 and bool(find_changes(stamp_host(self.loaded), self._compared) - {HANDLERS})

    def _take(self) -> None:
        """Take the next configuration that a start would succeed with, as far as a trial can tell."""
        before = self._before
        self._compared = stamp_host(before)
        changed = find_changes(self._compared, before.files) - {HANDLERS}
        while self._next:
            try:
                loaded, waiting = self._read(before, self._next.pop(0))
            except ConfigurationError as error:
                if not self._problems:
                    self._problems = error.problems
                    log_problems(self._problems)
                continue
            problems = self._problems
            keys = tuple(key for key in waiting if key not in WAITING) if problems else ()
            # Without such keys, what was in the way has gone in the meantime.
            kinds = frozenset({CONFIGURATION})
            untaken = UntakenChange(kinds=kinds, keys=keys, problems=tuple(problems)) if keys else None
            log_waiting(waiting)
            if loaded.key is not None and loaded.key is before.key:
                log.error("not taken: the signing key is another one; this host signs with the one that it read before")
            log.info("read again, because it has changed: {kinds}", kinds=", ".join(sorted(changed)))
            self.loaded, self._compared = replace(loaded, untaken=untaken), loaded.files
            return
        self._can_stay = False
        log.error("this host serves what it read before; correct the files, and then reload")
        self.loaded = replace(before, untaken=UntakenChange(kinds=frozenset(changed), problems=tuple(self._problems)))
