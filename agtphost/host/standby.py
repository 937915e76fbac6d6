"""Run a host while another one has the lease of the store: what it serves, reports, and checks until it takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import invalidate_caches
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
from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.host.modules import NewImports
from agtphost.host.newest_key import OtherKey, check_standby_key
from agtphost.host.pod_label import build_pod_label
from agtphost.host.process_description import build_reporter
from agtphost.host.reload_candidate import ATTEMPTS, describe_unstable
from agtphost.host.reload_plan import CONFIGURATION, HANDLERS, SIGNING_KEY, TLS_FILES, Inventory, inventory
from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.host.surfaces import standby_service
from agtphost.identity.key_history import DIRECTORY
from agtphost.identity.keys import SigningKey
from agtphost.stores import StoreError
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import STANDBY, holder_here
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import stamps

log = Logger()


def lease_of(config: Config) -> ILease | None:
    """
    Return the lease of a configuration's store, not yet taken; None where one host alone can use the store.

    :raises agtphost.stores.StoreError: the library of the store's kind is missing.
    """
    me = holder_here(config.cluster.name, config.host.state_dir, config.cluster.takeover_after)
    return locate_store(config.store).lease(me, config.host.server_id)


CHANGED_MODULES = "modules of the handlers have changed; restart this host to import them again"


def _kid(key: SigningKey | None) -> str | None:
    return None if key is None else key.public.kid


def _stamp_files(loaded: LoadedHost, before: Inventory | None = None) -> Inventory:
    """
    Return the files of a host as they were when it was read.

    :param before: from before that; None if it was just now.
    """
    files = inventory(loaded.config, loaded.tls)
    # Modules that reading imported were not among them.
    imported = {} if before is None else {HANDLERS: {**files[HANDLERS], **before[HANDLERS]}}
    return {**(before or files), **imported, TLS_FILES: loaded.tls.read}


def _find_changes(loaded: LoadedHost, before: Inventory) -> set[str]:
    """Return the kinds of files of a host that have changed since an inventory."""
    present = inventory(loaded.config, loaded.tls)
    return {kind for kind in present if present[kind] != before.get(kind)}


class StandbyHost:
    """
    A host on standby: its probes, its notices to the service manager, and its wait for the lease.

    :param loaded: checked already.
    :param environ: of the process.
    :raises agtphost.errors.ConfigurationError: the process lacks what a key needs.
    """

    def __init__(self, loaded: LoadedHost, reactor: Any, environ: Mapping[str, str], lease: ILease) -> None:
        self.loaded = loaded
        """What the host starts with when it takes over."""

        self.files = self._seen = _stamp_files(loaded)
        """The files as they were when that was read."""

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
        read = self._read_again()
        if read is not None:
            self.loaded, self.files = read
            self._seen = self.files
            self._reporter.renew()
            log.info("the configuration was read again; it counts once this host takes over")

    def take_changed_files(self) -> None:
        """
        Read the configuration again if its files have changed: a takeover serves what a start would serve.

        The one that was read before stays if the changed one has problems, and the signing key in any case: this host
        took the lease with the key that it has.
        """
        changed = _find_changes(self.loaded, self.files)
        if HANDLERS in changed:
            log.warn(CHANGED_MODULES)
        if not changed - {HANDLERS}:
            return
        read = self._read_again()
        if read is None:
            log.error("this host serves what it read before; correct the files, and then reload")
            return
        loaded, files = read
        if _kid(loaded.key) != _kid(self.loaded.key):
            log.error("not taken: the signing key is another one; this host signs with the one that it read before")
            loaded, files = replace(loaded, key=self.loaded.key), {**files, SIGNING_KEY: self.files[SIGNING_KEY]}
        self.loaded, self.files = loaded, files
        log.info("read again, because it has changed: {kinds}", kinds=", ".join(sorted(changed)))

    def _read_again(self) -> tuple[LoadedHost, Inventory] | None:
        """Return what a start would read, with the files' stamps from before; report problems, and return None."""
        imported = NewImports(self.loaded.config.endpoints.python_path)
        invalidate_caches()
        try:
            for _ in range(ATTEMPTS):
                loaded, files, waiting = self._read()
                if not _find_changes(loaded, files) - {HANDLERS}:
                    break
            else:
                raise ConfigurationError([describe_unstable(self.loaded.config.file)])
        except Exception as error:
            # Otherwise Python would keep the code of a module that was not taken, even after its correction.
            imported.forget()
            if not isinstance(error, ConfigurationError):
                log.failure("the files could not be read")
            for problem in error.problems if isinstance(error, ConfigurationError) else (explain(error),):
                log.error("not taken: {problem}", problem=str(problem))
            return None
        for key in waiting:
            log.warn("{key} waits for a restart of this host", key=key)
        return loaded, files

    def _read(self) -> tuple[LoadedHost, Inventory, Sequence[str]]:
        """Return what a start would read, with the files' stamps from before, and the keys that wait."""
        running = self.loaded
        file = stamps([running.config.file])
        read = load(running.config.file, self._environ)
        config, _, waiting = merge_reloadable(read, running.config, STANDBY_RESTART)
        before = {**inventory(config, running.tls), CONFIGURATION: file}
        loaded = load_host(config, self._environ)
        return loaded, _stamp_files(loaded, before), waiting

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
            self._seen = inventory(self.loaded.config, self.loaded.tls)
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
