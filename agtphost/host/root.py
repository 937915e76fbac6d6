"""The host as one service: assembled when it starts, reloaded on SIGHUP, gone when it stops."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.config import load
from agtphost.contract.table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.assembly import assemble
from agtphost.host.hang_up import TAKEN, Inventory, Outcome, differing, inventory, judged
from agtphost.host.loaded import Loaded, load_host
from agtphost.host.log_throttle import LogThrottling
from agtphost.host.service_manager import ServiceManager
from agtphost.host.services import OrderedServices
from agtphost.host.signals import Signals
from agtphost.host.standing_down import CannotStart, StandardError
from agtphost.host.surfaces import renewed
from agtphost.stores import StoreError
from agtphost.stores.state_lock import StateLock

log = Logger()


def settle_collector() -> None:
    """
    Keep the garbage collector from walking, again and again, what lives as long as the host.

    A request leaves no cycles behind, so rare collections lose nothing; usual ones took a twentieth of the time
    and most of the slowest answers.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


LARGE_BLOCK = 524_288
"""Octets: a block of memory of this size is the system's own again as soon as it is free."""

_M_MMAP_THRESHOLD = -3


def settle_allocator() -> None:
    """
    Have large blocks come from the system and go back to it, with glibc; others do as they do.

    By itself glibc takes the size of what was freed for a hint to keep such blocks, and after some large answers that
    were read slowly, or not at all, it held three times as much as was in use.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


class Host(Service):
    """
    What ``twistd agtp`` runs.

    :param loaded: checked already.
    :param environ: of which MCP servers get six names, and secrets are resolved from.
    :param said: where a start in vain is told, besides the log.
    """

    name = "agtphost"

    def __init__(
        self, loaded: Loaded, reactor: Any, environ: Mapping[str, str], said: StandardError | None = None
    ) -> None:
        self._loaded = loaded
        self._reactor = reactor
        self._environ = environ
        self._services: OrderedServices | None = None
        self._signals = Signals(reactor, self.reload)
        self._log = LogThrottling(reactor)
        config = loaded.config
        self._lock = StateLock(config.host.state_dir, config.store.path)
        self._said = said or StandardError()
        self._files: Inventory = {}

    def startService(self) -> None:
        """
        Assemble and start everything.

        :raises CannotStart: where the state, the store or the port cannot be had; it ends the process with status 1.
        """
        super().startService()  # type: ignore[no-untyped-call]
        try:
            # By the process that serves, whose number is in it, and not by the one that a daemon is forked from.
            self._lock.acquire()
            self._services = assemble(self._loaded, self._reactor, self._environ)
            self._files = inventory(self._loaded.config, self._loaded.tls)
            # Before what says that the host is ready: a SIGHUP right after that would end it.
            self._signals.startService()
            self._services.startService()  # type: ignore[no-untyped-call]
        except (StoreError, AmbiguousEndpoints) as error:
            raise self._refusal((Problem(message=str(error)),)) from None
        except ConfigurationError as error:
            raise self._refusal(error.problems) from None
        # Whoever waits for the end of what was said, such as a pipe's reader, has it now.
        self._said.close()
        # What is said while it starts is said in full: it is the operator's own.
        self._log.startService()
        settle_collector()
        settle_allocator()

    def _refusal(self, problems: Sequence[Problem]) -> CannotStart:
        self._lock.release()
        self._said.tell(self._loaded.config.file, problems)
        return CannotStart(1)

    def stopService(self) -> Deferred[None]:
        """Stop everything in order."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._tell_manager(ServiceManager.stopping)
        stopped = succeed(None) if self._services is None else self._services.stopService()
        return stopped.addBoth(self._let_go)

    def _let_go(self, outcome: Any) -> Any:
        self._lock.release()
        if self._log.running:
            self._log.stopService()
        return outcome

    # SIGHUP

    def reload(self) -> None:
        """
        Read the configuration again, and adopt renewed TLS files and further agents.

        All of it is validated first, off the reactor. Anything wrong, or any
        setting that needs a restart, changes nothing and is said. For every
        kind of file it is told what was taken, what waits for a restart and
        what failed; the last line sums it up.
        """
        read = partial(_read, self._loaded, self._environ)
        self._tell_manager(ServiceManager.reloading)
        reading = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), read)
        reading.addCallbacks(self._adopt, self._keep)
        reading.addBoth(self._reloaded)

    def _reloaded(self, outcome: Any) -> Any:
        self._tell_manager(ServiceManager.reloaded)
        return outcome

    def _tell_manager(self, word: Callable[[ServiceManager], None]) -> None:
        if self._services is not None:
            word(self._service("service manager"))

    def _adopt(self, read: tuple[Loaded, Inventory]) -> None:
        loaded, now = read
        outcome = judged(self._files, now, self._loaded.directory, loaded.directory)
        if loaded.config != self._loaded.config:
            log.warn(
                "SIGHUP: nothing changed: the configuration file differs from the running one in {tables}, "
                "which takes a restart",
                tables=", ".join(differing(self._loaded.config, loaded.config)),
            )
            self._conclude(replace(outcome, taken=()))
            return
        config = loaded.config
        try:
            # Read before anything is adopted: all of it, or nothing.
            https = renewed(config)
            self._loaded.tls.reload()
        except ConfigurationError as error:
            log.error("SIGHUP: nothing changed: {why}", why=str(error))
            self._conclude(replace(outcome, taken=(), failed=("TLS files",)))
            return
        if self._services is not None:
            for name, tls in https.items():
                self._service(name).renew(tls.creator, tls.names)
            self._service("rotation").look()
            self._service("agents").admit(loaded.directory)
            self._service("refusals").write()
        log.info("SIGHUP: the TLS certificate, key and client authorities were read again; new connections use them")
        self._conclude(outcome)
        # What was taken is the measure from now on; what waits for a restart is told again each time.
        self._files = {**self._files, **{kind: now[kind] for kind in TAKEN if kind in now}}

    def _conclude(self, outcome: Outcome) -> None:
        for each in outcome.left:
            log.warn("SIGHUP: takes a restart: {what}", what=each)
        log.info("SIGHUP: {summary}", summary=outcome.summary)

    def _service(self, name: str) -> Any:
        assert self._services is not None
        return self._services.getServiceNamed(name)  # type: ignore[no-untyped-call]

    def _keep(self, failure: Any) -> None:
        log.error("SIGHUP: nothing changed: {why}", why=failure.getErrorMessage())
        problems = failure.value.problems if failure.check(ConfigurationError) else ()
        files = dict.fromkeys(Path(problem.file).name for problem in problems if problem.file)
        self._conclude(Outcome(taken=(), left=(), failed=tuple(files) or ("the configuration",)))


def _read(running: Loaded, environ: Mapping[str, str]) -> tuple[Loaded, Inventory]:
    config = running.config
    loaded = load_host(load(config.file, environ), environ)
    return loaded, inventory(config, running.tls)
