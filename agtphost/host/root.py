"""Run the host as one service: assembled at its start, reloaded on SIGHUP, shut down at its stop."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.contract.endpoint_table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.assembly import AssembledHost, assemble
from agtphost.host.host_loader import LoadedHost
from agtphost.host.reload_candidate import Candidate
from agtphost.host.reloader import Reloader, Requester
from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.host.signals import SignalHandlers
from agtphost.host.standby import StandbyHost, lease_of
from agtphost.host.start_failure import SUPERSEDED, StandardError, StartFailed, exit_now
from agtphost.host.trial_start import find_start_problems, list_problems
from agtphost.logs.json_log import use_json_lines
from agtphost.logs.log_throttle import LogThrottling
from agtphost.protocols.polling import hasten
from agtphost.protocols.steady_timers import use_steady_clock
from agtphost.stores import StoreError
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import Superseded
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.allocator import settle_allocator
from agtphost.vocabulary.foreign_errors import original_of
from agtphost.vocabulary.remembered_files import use_remembered

log = Logger()


def tune_collector() -> None:
    """
    Keep the garbage collector from scanning objects that live as long as the host.

    Requests leave no reference cycles, so rare collections lose nothing. The default ones took a twentieth of the time
    and caused most of the slowest answers. Young collections stay small and frequent: one of fifty thousand objects, or
    of twenty times as many, blocked the reactor for 30 to 400 ms while a thousand workflows were resumed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 4, 6_000)


SWITCH_INTERVAL = 0.0005
"""Seconds that a thread runs while another one waits for the interpreter."""


def tune_threads() -> None:
    """
    Let the reactor's thread wait less for other threads that compute.

    A call passes the interpreter between threads a dozen times, at each read, write and statement of the store. With
    the default of 5 ms each time, a call took up to 100 ms while another evaluated a long text.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)


MOST_OUTAGES = 5
"""Failures of the store at takeovers after which the next one ends the process."""


def end_superseded(error: Superseded) -> None:
    """End the process, from any thread: another host has the lease, so no handler may begin any more."""
    log.critical("{why}", why=str(error))
    exit_now(SUPERSEDED)


class HostService(Service):
    """
    The service that ``twistd agtp`` runs.

    :param loaded: checked already.
    :param environ: the source of secrets, and of six variables for MCP servers.
    :param said: where a failed start is reported, in addition to the log.
    """

    name = "agtphost"

    def __init__(
        self, loaded: LoadedHost, reactor: Any, environ: Mapping[str, str], said: StandardError | None = None
    ) -> None:
        self._loaded = loaded
        # It must be replaced before anything is scheduled.
        use_steady_clock(reactor)
        self._reactor = reactor
        self._environ = environ
        self._assembled: AssembledHost | None = None
        self._signals = SignalHandlers(reactor, self.reload)
        self._log = LogThrottling(reactor)
        config = loaded.config
        if config.log.format == "json":
            use_json_lines()
        self._lock = locate_store(config.store).lock(config.host.state_dir)
        self._standard_error = said or StandardError()
        self._reloading: Reloader | None = None
        self._lease: ILease | None = None
        self._standby: StandbyHost | None = None
        self._waiting: Deferred[None] | None = None
        self._outages: set[str] = set()
        """Why takeovers failed, after which this host stood by again."""

    def startService(self) -> None:
        """
        Assemble and start everything; or stand by, where another host has the lease of the store.

        :raises StartFailed: the state, the store or the port cannot be used; it ends the process with status 1.
        """
        super().startService()  # type: ignore[no-untyped-call]
        with self._report_failures():
            # In the serving process, whose number the lock holds, not in the one that forks the daemon.
            self._lock.acquire()
            self._lease = lease = lease_of(self._loaded.config)
            if lease is not None:
                lease.when_superseded = end_superseded
            if lease is None or lease.take():
                self._serve()
            else:
                self._stand_by(lease)
        # A reader of the pipe, who waits for its end, has everything now.
        self._standard_error.close()
        # Log lines of the start are the operator's own, so they are not throttled.
        self._log.startService()

    def _serve(self) -> None:
        """
        Assemble and start everything.

        :raises agtphost.stores.StoreError: the store cannot be used; other causes have other errors.
        """
        with use_remembered(self._loaded.remembered):
            self._assembled = assembled = assemble(self._loaded, self._reactor, self._environ, lease=self._lease)
        self._reloading = Reloader(
            self._loaded,
            self._reactor,
            self._environ,
            assembled.generations,
            assembled.agents,
            assembled.remarks,
            self._renew,
        )
        assembled.generations.core.services.lasting.reloads.reload = self._reloading.reload_for_operator
        # Before the ready line: a SIGHUP right after it would end the process.
        self._signals.startService()
        assembled.services.startService()  # type: ignore[no-untyped-call]
        tune_collector()
        settle_allocator()
        hasten(self._reactor)
        tune_threads()

    def _stand_by(self, lease: ILease) -> None:
        self._standby = StandbyHost(self._loaded, self._reactor, self._environ, lease, self._find_problems)
        self._signals.startService()
        ended = Deferred.fromCoroutine(self._end_wait(self._standby, self._standby.start(), lease))
        self._waiting = ended.addErrback(self._end_in_failure)

    def _find_problems(self, loaded: LoadedHost, serves: bool) -> list[Problem]:
        return find_start_problems(loaded, self._reactor, self._environ, serves=serves)

    async def _end_wait(self, standby: StandbyHost, waiting: Deferred[bool], lease: ILease) -> None:
        taken = await waiting
        self._standby = None
        with self._report_failures(), standby.keep_alive():
            if not (taken and self.running):
                lease.give_up()
                return
            try:
                await self._take_over(standby, lease)
                return
            except StoreError as error:
                await self._discard_start(lease)
                if not self.running:
                    return
                if self._is_lasting(error):
                    raise
                self._outages.add(str(error))
                log.error("this host is a standby again: {why}", why=str(error))
            self._standby = StandbyHost(standby.loaded, self._reactor, self._environ, lease, self._find_problems)
        await self._end_wait(self._standby, self._standby.start(), lease)

    def _is_lasting(self, error: StoreError) -> bool:
        """Return whether a takeover failed for that reason before, although the database was there in between."""
        return str(error) in self._outages or len(self._outages) >= MOST_OUTAGES

    async def _take_over(self, standby: StandbyHost, lease: ILease) -> None:
        """
        Serve with the present files; where the start fails, with what else the standby has.

        If no start succeeds, this raises what the last one did.
        """
        log.info("this host takes over")
        files = standby.find_changed_files()
        while True:
            self._loaded = files.loaded
            try:
                self._serve()
                return
            except StoreError as error:
                if not self._is_lasting(error):
                    # No other configuration helps where the database is away.
                    raise
                failure: Exception = error
            except Exception as error:
                failure = error
            await self._discard_start(lease)
            if not self.running:
                return
            if not files.can_fall_back:
                raise failure
            if not lease.take():
                name = (lease.look().holder or lease.me).name
                log.critical("{name} took over while a start that failed was undone: {why}", name=name, why=failure)
                exit_now(SUPERSEDED)
            files.fall_back(list_problems(failure, self._loaded))

    async def _discard_start(self, lease: ILease) -> None:
        """Undo a start that failed, and give the lease up."""
        assembled, self._assembled, self._reloading = self._assembled, None, None
        if assembled is not None:
            await assembled.discard()
        lease.give_up()

    def _end_in_failure(self, failure: Failure) -> None:
        """End a process whose reactor runs already, so that raising would not end it."""
        if not isinstance(failure.value, StartFailed):
            if not isinstance(failure.value, StoreError):
                log.failure("this host cannot stand by", failure=failure)
            self._refuse_start((Problem(message=str(failure.value)),))
        exit_now(1)

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        """
        Report an error of the enclosed block that keeps the host from starting.

        :raises StartFailed: instead of the errors that have a message for the operator.
        """
        try:
            yield
        except (StoreError, AmbiguousEndpoints) as error:
            raise self._refuse_start((Problem(message=str(error), original=original_of(error)),)) from None
        except ConfigurationError as error:
            raise self._refuse_start(error.problems) from None

    def _refuse_start(self, problems: Sequence[Problem]) -> StartFailed:
        if self._lease is not None:
            self._lease.give_up()
        self._lock.release()
        self._standard_error.tell(self._loaded.config.file, problems)
        return StartFailed(1)

    def stopService(self) -> Deferred[None]:
        """Stop everything in order."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._notify_manager(ServiceManagerNotifier.notify_stopping)
        if self._standby is not None:
            self._standby.stop()
        stopped = succeed(None) if self._assembled is None else self._assembled.services.stopService()
        if self._assembled is None and self._waiting is not None:
            stopped = self._waiting
        return stopped.addBoth(self._release)

    def _release(self, outcome: Any) -> Any:
        self._lock.release()
        if self._log.running:
            self._log.stopService()
        return outcome

    # SIGHUP

    def reload(self) -> None:
        """
        Apply changed files: see :mod:`agtphost.host.reloader`.

        For every kind of file the log says what was applied, what needs a restart and what failed; the last line sums
        it up.
        """
        if self._standby is not None:
            self._standby.reload()
        elif self._reloading is not None:
            self._notify_manager(ServiceManagerNotifier.notify_reloading)
            asked = Deferred.fromCoroutine(self._reloading.reload(Requester(by="signal")))
            asked.addErrback(lambda failure: log.failure("SIGHUP: the configuration was not applied", failure=failure))
            asked.addCallback(lambda _: self._notify_manager(ServiceManagerNotifier.end_reload))

    def _notify_manager(self, word: Callable[[ServiceManagerNotifier], None]) -> None:
        if self._assembled is not None:
            word(self._service("service manager"))

    def _renew(self, candidate: Candidate) -> None:
        for name, tls in candidate.https.items():
            self._service(name).renew(tls.creator, tls.names)
        self._service("rotation").check()
        self._service("refusals").write()

    def _service(self, name: str) -> Any:
        assert self._assembled is not None
        return self._assembled.services.getServiceNamed(name)  # type: ignore[no-untyped-call]
