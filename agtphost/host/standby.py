"""Run a host while another one has the lease of the store: what it serves, reports, and checks until it takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.cluster.heartbeat import START_SECONDS, begin_to_keep
from agtphost.cluster.readiness import StandbyResource
from agtphost.cluster.standby import CannotTakeOver, Sighting, Standby
from agtphost.config import Config, load
from agtphost.config.reloadable_keys import STANDBY_RESTART, merge_reloadable
from agtphost.config.surfaces import METRICS
from agtphost.errors import ConfigurationError, Problem
from agtphost.handlers.modules import NewImports
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.host.newest_key import OtherKey, check_standby_key
from agtphost.host.pod_label import build_pod_label
from agtphost.host.process_description import build_reporter
from agtphost.host.reload_candidate import ATTEMPTS, describe_unstable, withdraw_issued
from agtphost.host.reload_plan import HANDLERS, SIGNING_KEY, Inventory
from agtphost.host.reserved_labels import leave_out_reserved
from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.host.start_files import find_changes
from agtphost.host.surfaces import reload_tls, standby_service
from agtphost.host.takeover_files import CHANGED_MODULES, TakeoverFiles, log_problems, log_waiting, stamp_host
from agtphost.identity.key_history import DIRECTORY
from agtphost.identity.keys import SigningKey
from agtphost.stores import StoreError
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import STANDBY, holder_here
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain, original_of
from agtphost.vocabulary.remembered_files import remember_files, use_remembered

log = Logger()


def lease_of(config: Config) -> ILease | None:
    """
    Return the lease of a configuration's store, not yet taken; None where one host alone can use the store.

    :raises agtphost.stores.StoreError: the library of the store's kind is missing.
    """
    me = holder_here(config.cluster.name, config.host.state_dir, config.cluster.takeover_after)
    return locate_store(config.store).lease(me, config.host.server_id)


def _kid(key: SigningKey | None) -> str | None:
    return None if key is None else key.public.kid


def _keep_key(loaded: LoadedHost, running: LoadedHost) -> LoadedHost:
    """Return the same with the signing key that this host took the lease with, if the key is another one."""
    if _kid(loaded.key) == _kid(running.key):
        return loaded
    return replace(loaded, key=running.key, files={**loaded.files, SIGNING_KEY: running.files[SIGNING_KEY]})


def _find_changes(loaded: LoadedHost, before: Inventory) -> set[str]:
    """Return the kinds of files of a host that have changed since they were read."""
    return find_changes(stamp_host(loaded), before)


FindProblems = Callable[[LoadedHost, bool], Sequence[Problem]]
"""Returns what would keep a host from starting, which serves immediately if the second argument is true."""


class StandbyHost:
    """
    A host on standby: its probes, its notices to the service manager, and its wait for the lease.

    :param loaded: checked already.
    :param environ: of the process.
    :param find_problems: tries a configuration before it is taken.
    :raises agtphost.errors.ConfigurationError: the host could not start with it, or the process lacks what a key needs.
    """

    def __init__(
        self,
        loaded: LoadedHost,
        reactor: Any,
        environ: Mapping[str, str],
        lease: ILease,
        find_problems: FindProblems,
    ) -> None:
        self.loaded = replace(loaded, https=loaded.https or reload_tls(loaded.config))
        """What the host starts with when it takes over."""

        self._seen = loaded.files
        self._find_problems = find_problems
        self.loaded = self._try(self.loaded, serves=False)
        self._lease = lease
        self._end_keeping: Callable[[], None] = lambda: None
        self._environ = environ
        self._manager = ServiceManagerNotifier(reactor, environ, lambda: True)
        self._offload: Callable[..., Deferred[Any]] = partial(deferToThreadPool, reactor, reactor.getThreadPool())
        self._standby = Standby(reactor, lease, self._check, self._offload, self._report)
        self._probes = standby_service(reactor, loaded.config, METRICS, StandbyResource(lambda: self._standby.last))
        self._pod_label = build_pod_label(loaded.config, reactor, environ, serving=False)
        self._reporter = build_reporter(reactor, lease, lambda: self.loaded, STANDBY)
        self._waiting: Deferred[bool] | None = None
        self._announced = False

    def start(self) -> Deferred[bool]:
        """
        Serve the probes and wait; fires with whether this host has the lease, after the probes have stopped.

        A port of the probes that cannot be bound is logged and tried again: this host can take over all the same.
        """
        self._manager.startService()
        if self._probes is not None:
            self._probes.startService()
        if self._pod_label is not None:
            self._pod_label.startService()
        self._reporter.startService()
        self._waiting = Deferred.fromCoroutine(self._wait())
        return self._waiting

    async def _wait(self) -> bool:
        risks = self._offload(self._warn)
        try:
            taken = await self._standby.wait()
            if taken:
                self._end_keeping = begin_to_keep(self._lease)
            return taken
        finally:
            await risks
            await self._reporter.stopService()
            if self._pod_label is not None:
                await self._pod_label.stopService()
            if self._probes is not None:
                await self._probes.stopService()
            self._manager.stopService()

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Return a context in which this host keeps the lease, and the service manager takes this process for alive."""
        try:
            with self._manager.keep_alive(START_SECONDS):
                yield
        finally:
            self._end_keeping()

    def stop(self) -> None:
        """End the wait: what :meth:`start` returned fires soon."""
        self._standby.stop()
        self._manager.notify_stopping()

    def reload(self) -> None:
        """
        Read the configuration again, so that a takeover starts with it; keep the present one if it has problems.

        Modules that were imported are not imported again: for changed code, restart this host.
        """
        try:
            self.loaded, waiting = self._read_usable(self.loaded, STANDBY_RESTART, serves=False)
        except ConfigurationError as error:
            log_problems(error.problems)
            return
        log_waiting(waiting)
        self._seen = self.loaded.files
        self._reporter.renew()
        log.info("the configuration was read again; it counts once this host takes over")

    def find_changed_files(self) -> TakeoverFiles:
        """
        Read the configuration again if its files have changed, and return what this host can serve.

        The signing key stays in any case, as this host took the lease with the key that it has.

        :raises agtphost.stores.StoreError: the store keeps this host from serving with any configuration.
        """
        return TakeoverFiles(self.loaded, partial(self._read_usable, serves=True))

    def _read_usable(
        self, running: LoadedHost, restart: Mapping[str, frozenset[str]], *, serves: bool
    ) -> tuple[LoadedHost, Sequence[str]]:
        """
        Return what a start would read, if the start would succeed, and the keys that stay as they were.

        :param running: what was read before.
        :param restart: by table, the keys that stay.
        :param serves: whether this host is about to serve.
        :raises ConfigurationError: the start would fail; nothing of what was read stays.
        """
        imported, issued = NewImports(running.config.endpoints.python_path), list[Path]()
        invalidate_caches()
        try:
            for _ in range(ATTEMPTS):
                loaded, waiting = self._read(running, restart, issued)
                if not _find_changes(loaded, loaded.files) - {HANDLERS}:
                    break
            else:
                raise ConfigurationError([describe_unstable(running.config.file)])
            loaded = leave_out_reserved(_keep_key(loaded, running)) if serves else loaded
            loaded = self._try(loaded, serves=serves)
        except BaseException as error:
            # The reactor has the signals: even KeyboardInterrupt comes from a module or a plugin of the operator here.
            # Otherwise Python would keep the code of a module that was not taken, even after its correction.
            imported.forget()
            withdraw_issued(issued)
            if isinstance(error, (ConfigurationError, StoreError)):
                raise
            log.failure("the files could not be read")
            problem = Problem(
                message=explain(error) or repr(error), file=str(running.config.file), original=original_of(error)
            )
            raise ConfigurationError([problem]) from error
        return loaded, waiting

    def _try(self, loaded: LoadedHost, *, serves: bool) -> LoadedHost:
        """
        Return a configuration with the files that were read while it was tried.

        :raises ConfigurationError: a start with it would fail.
        """
        with use_remembered(loaded.remembered), remember_files() as read:
            if problems := self._find_problems(loaded, serves):
                raise ConfigurationError(problems)
        return replace(loaded, remembered={**loaded.remembered, **read})

    def _read(
        self, running: LoadedHost, restart: Mapping[str, frozenset[str]], issued: list[Path]
    ) -> tuple[LoadedHost, Sequence[str]]:
        """Return what a start would read, and the keys that stay as they were."""
        config, _, waiting = merge_reloadable(load(running.config.file, self._environ), running.config, restart)
        loaded = load_host(config, self._environ, issued)
        # A module is not imported again, so it counts as it was when it was imported.
        files = {**loaded.files, HANDLERS: {**loaded.files[HANDLERS], **running.files.get(HANDLERS, {})}}
        return replace(loaded, files=files, https=reload_tls(config)), waiting

    def _warn(self) -> None:
        """Log what could keep this host from taking over; blocks."""
        with suppress(StoreError):
            for risk in locate_store(self.loaded.config.store).find_takeover_risks():
                log.warn("{risk}", risk=risk)

    def _check(self) -> None:
        """
        Report anew if files have changed, and check that this host signs with the key of the one that serves; blocks.

        :raises agtphost.stores.StoreError: it has another key, or the store cannot be read.
        """
        if changed := _find_changes(self.loaded, self._seen):
            self._seen = stamp_host(self.loaded)
            self._reporter.renew()
            self._report_changes(changed)
        config = self.loaded.config
        with closing(locate_store(config.store).open_reader()) as reader:
            try:
                check_standby_key(reader, self.loaded.key, config.audit.key, config.host.state_dir)
            except OtherKey as error:
                summary = "its signing key is not that of the host that serves"
                raise CannotTakeOver(f"{error}. Then send SIGHUP to this host", summary) from None

    def _report_changes(self, changed: set[str]) -> None:
        if HANDLERS in changed:
            log.warn(CHANGED_MODULES)
        if SIGNING_KEY in changed:
            log.warn(
                "the signing key has changed, and a takeover does not read it: send SIGHUP to this host once its .pub "
                "and {keys} are there, too",
                keys=str(self.loaded.config.host.state_dir / DIRECTORY),
            )
        if kinds := ", ".join(sorted(changed - {HANDLERS, SIGNING_KEY})):
            log.info("changed since this host read them: {kinds}; a takeover reads them", kinds=kinds)

    def _report(self, seen: Sighting) -> None:
        line = seen.describe()
        if seen.fault:
            log.error("{line}", line=line)
        if not self._announced:
            self._announced = True
            self._manager.notify_ready(line)
        else:
            self._manager.notify_status(line)
        if seen.clock:
            log.warn("{line}", line=seen.clock)
        config = self.loaded.config
        if seen.state is not None:
            log.info(
                "agtphost standby: {serving} serves, with term {term} (server {server_id}); this host, {name}, takes "
                "over when it stops",
                serving=seen.serving or "no host",
                term=seen.term,
                server_id=config.host.server_id,
                name=config.cluster.name,
            )
