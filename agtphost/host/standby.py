"""Run a host while another one has the lease of the store: what it serves, reports, and checks until it takes over."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.cluster.heartbeat import START_SECONDS
from agtphost.cluster.readiness import StandbyResource
from agtphost.cluster.standby import CannotTakeOver, Sighting, Standby
from agtphost.config import Config, load
from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.config.surfaces import METRICS
from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.host.newest_key import OtherKey, check_standby_key
from agtphost.host.pod_label import build_pod_label
from agtphost.host.process_description import build_reporter
from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.host.surfaces import standby_service
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import STANDBY, holder_here
from agtphost.stores.settings import locate_store

log = Logger()


def lease_of(config: Config) -> ILease | None:
    """
    Return the lease of a configuration's store, not yet taken; None where one host alone can use the store.

    :raises agtphost.stores.StoreError: the library of the store's kind is missing.
    """
    me = holder_here(config.cluster.name, config.host.state_dir, config.cluster.takeover_after)
    return locate_store(config.store).lease(me, config.host.server_id)


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

        self._environ = environ
        self._manager = ServiceManagerNotifier(reactor, environ, lambda: True)
        offload = partial(deferToThreadPool, reactor, reactor.getThreadPool())
        self._standby = Standby(reactor, lease, self._check_key, offload, self._report)
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
        try:
            return await self._standby.wait()
        finally:
            await self._reporter.stopService()
            if self._pod_label is not None:
                await self._pod_label.stopService()
            if self._probes is not None:
                await self._probes.stopService()
            self._manager.stopService()

    def keep_alive(self) -> AbstractContextManager[None]:
        """Return a context in which the service manager takes this process for alive, while the host starts."""
        return self._manager.keep_alive(START_SECONDS)

    def stop(self) -> None:
        """End the wait: what :meth:`start` returned fires soon."""
        self._standby.stop()
        self._manager.notify_stopping()

    def reload(self) -> None:
        """
        Read the configuration again, so that a takeover starts with it; keep the present one if it has problems.

        Modules that were imported are not imported again: for changed code, restart this host.
        """
        running = self.loaded.config
        try:
            config, _, waiting = merge_reloadable(load(running.file, self._environ), running)
            self.loaded = load_host(config, self._environ)
        except ConfigurationError as error:
            for problem in error.problems:
                log.error("not taken: {problem}", problem=str(problem))
            return
        for key in waiting:
            log.warn("{key} waits for a restart of this host", key=key)
        self._reporter.renew()
        log.info("the configuration was read again; it counts once this host takes over")

    def _check_key(self) -> None:
        """
        Check that this host signs with the key of the host that serves; blocks.

        :raises agtphost.stores.StoreError: it has another key, or the store cannot be read.
        """
        config = self.loaded.config
        with closing(locate_store(config.store).open_reader()) as reader:
            try:
                check_standby_key(reader, self.loaded.key, config.audit.key, config.host.state_dir)
            except OtherKey as error:
                raise CannotTakeOver(str(error), "its signing key is not that of the host that serves") from None

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
