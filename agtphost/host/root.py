"""The host as one service: assembled when it starts, reloaded on SIGHUP, gone when it stops."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from agtphost.contract.table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.assembly import assemble
from agtphost.host.candidate import Candidate
from agtphost.host.loaded import Loaded
from agtphost.host.log_throttle import LogThrottling
from agtphost.host.reloading import Reloading, Requester
from agtphost.host.service_manager import ServiceManager
from agtphost.host.services import OrderedServices
from agtphost.host.signals import Signals
from agtphost.host.standing_down import CannotStart, StandardError
from agtphost.protocols.polling import hasten
from agtphost.protocols.steady import use_steady_clock
from agtphost.stores import StoreError
from agtphost.stores.state_lock import StateLock
from agtphost.vocabulary.allocator import settle_allocator

log = Logger()


def settle_collector() -> None:
    """
    Keep the garbage collector from walking, again and again, what lives as long as the host.

    A request leaves no cycles behind, so rare collections lose nothing; usual ones took a twentieth of the time
    and most of the slowest answers. But those of what is young are small, and thus many: one of fifty thousand things
    and what they replaced, or of twenty times as many, held everybody up for 30 to 400 ms where a thousand workflows
    were taken up.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 4, 6_000)


SWITCH = 0.0005
"""Seconds that a thread computes on where another one waits for the interpreter."""


def settle_threads() -> None:
    """
    Have the reactor's thread wait less for those that compute beside it.

    A call passes the interpreter from thread to thread a dozen times, at each read, write and statement of the store.
    With the usual 5 ms each time it took up to 100 ms while somebody else had a long text evaluated.
    """
    sys.setswitchinterval(SWITCH)


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
        # Before anything is scheduled.
        use_steady_clock(reactor)
        self._reactor = reactor
        self._environ = environ
        self._services: OrderedServices | None = None
        self._signals = Signals(reactor, self.reload)
        self._log = LogThrottling(reactor)
        config = loaded.config
        self._lock = StateLock(config.host.state_dir, config.store.path)
        self._said = said or StandardError()
        self._reloading: Reloading | None = None

    def startService(self) -> None:
        """
        Assemble and start everything.

        :raises CannotStart: where the state, the store or the port cannot be had; it ends the process with status 1.
        """
        super().startService()  # type: ignore[no-untyped-call]
        try:
            # By the process that serves, whose number is in it, and not by the one that a daemon is forked from.
            self._lock.acquire()
            assembled = assemble(self._loaded, self._reactor, self._environ)
            self._services = assembled.services
            self._reloading = Reloading(
                *(self._loaded, self._reactor, self._environ, assembled.generations, assembled.agents),
                self._renew,
            )
            assembled.generations.core.on.lasting.reloads.reload = self._reloading.asked
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
        hasten(self._reactor)
        settle_threads()

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
        Take what was changed: see :mod:`agtphost.host.reloading`.

        For every kind of file the log says what was taken, what waits for a restart and what failed; the last line
        sums it up.
        """
        if self._reloading is not None:
            self._tell_manager(ServiceManager.reloading)
            asked = Deferred.fromCoroutine(self._reloading.reload(Requester(by="signal")))
            asked.addErrback(lambda failure: log.failure("SIGHUP: the configuration was not taken", failure=failure))
            asked.addCallback(lambda _: self._tell_manager(ServiceManager.reloaded))

    def _tell_manager(self, word: Callable[[ServiceManager], None]) -> None:
        if self._services is not None:
            word(self._service("service manager"))

    def _renew(self, candidate: Candidate) -> None:
        for name, tls in candidate.https.items():
            self._service(name).renew(tls.creator, tls.names)
        self._service("rotation").look()
        self._service("refusals").write()

    def _service(self, name: str) -> Any:
        assert self._services is not None
        return self._services.getServiceNamed(name)  # type: ignore[no-untyped-call]
