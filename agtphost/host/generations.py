"""
Replace one configuration by the next without a restart: each is a generation of everything that answers requests.

Theory of operation. A generation is a whole :class:`agtphost.host.core.Core`, built while another one is in force, on
the same services: ledger, state, sessions, running calls. It comes into force in one turn of the reactor: every
listener hands its requests to the front of :mod:`agtphost.host.running_host`, and from that turn on the front hands
them to the new dispatcher. The dispatcher that gets a request judges, carries out and answers it, with all calls made
for it, so two configurations never handle one request. The generation before finishes its calls. After the last one it
drops its watchers, and servers that no other generation uses are stopped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from agtphost.dispatch.encoding import in_turns
from agtphost.host.core import Core, compose
from agtphost.host.features import NO_FEATURES, FeatureSet, require_same_after_start
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.host_loader import LoadedHost
from agtphost.host.server_pool import SharedServices
from agtphost.host.services import HostServices
from agtphost.host.upstreams import UpstreamFactory
from agtphost.identity.keys import fastest_signer
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary.steps import run_to_end

log = Logger()

START_TIMEOUT = 10.0
"""Seconds that new servers get to start before the configuration that names them is in force in any case."""

COLLECT_AFTER = 16
"""
Retired generations after which their objects, a thousand each in reference cycles, are collected.

Generations with many endpoints count for more, :data:`OBJECTS_PER_ENDPOINT` objects per endpoint: collecting those of
16 generations with 5,000 endpoints blocked the reactor for more than a second, of one it takes a tenth of that.
"""

OBJECTS_PER_ENDPOINT = 20

LOOK_EVERY = 0.05
"""Seconds between two checks of new servers."""


class Generations:
    """
    Builds generations, puts them in force, and ends them. The first one is in force when this object is made.

    :param services: the services of the first generation.
    :param upstreams: makes the connections of each generation to its upstreams.
    :param factory: owns the threads that all generations share.
    """

    def __init__(self, services: HostServices, upstreams: UpstreamFactory, factory: HandlerFactory) -> None:
        self._services = services
        self._upstreams = upstreams
        self._factory = factory
        self._before_turn: list[Callable[[Core], None]] = []
        self._after_turn: list[Callable[[Core], None]] = []
        self._garbage_objects = 0
        """Objects of retired generations that were not collected yet, estimated."""

        self.front = services.lasting.host.dispatcher
        """Answers requests under the configuration in force."""

        self.unfinished = 0
        """Generations that still have calls, with the one in force."""

        self.keys = SharedServices()
        """The services that refresh keys of identity providers."""

        self.features = SharedServices()
        """The services of features."""

        self.core = run_to_end(self._compose(services, NO_FEATURES))
        services.evidence.tree.add_witnesses(self.core.features.witnesses)
        self._begin(self.core)
        self._put_in_force(self.core)

    # Callbacks

    def before_turn(self, prepare: Callable[[Core], None]) -> None:
        """Register a callback for every generation before it comes into force; call it now with the present one."""
        self._before_turn.append(prepare)
        prepare(self.core)

    def after_turn(self, turned: Callable[[Core], None]) -> None:
        """Register a callback for every further generation, called in the reactor turn in which it comes into force."""
        self._after_turn.append(turned)

    def renew(self) -> None:
        """Publish the documents again because other agents can be called."""
        self.core.shown.publication.drop_forms()

    # Candidates

    def compose(self, loaded: LoadedHost) -> Generator[None, None, Core]:
        """
        Build a further generation, which the caller passes to :meth:`discard` or to :meth:`turn_to`. It starts nothing.

        It is built in steps while calls are answered, because thousands of endpoints take long.

        :raises agtphost.contract.endpoint_table.AmbiguousEndpoints: two endpoints match one path equally well.
        :raises agtphost.errors.ConfigurationError: the configuration names something that does not exist.
        """
        running = self.core.features
        core = yield from self._compose(self._services.with_configuration(loaded), running)
        try:
            require_same_after_start(core.services, running, core.features, self.core.services.config)
            for prepare in self._before_turn:
                prepare(core)
        except BaseException:
            self.discard(core)
            raise
        return core

    def _compose(self, services: HostServices, running: FeatureSet) -> Generator[None, None, Core]:
        connected, factory = self._upstreams.build(services), self._factory.fork()
        try:
            return (yield from compose(services, connected, factory, running))
        except BaseException:
            self._upstreams.discard(connected)
            self._factory.close(factory)
            raise

    def discard(self, core: Core) -> None:
        """Drop a generation that never comes into force."""
        core.services.lease.release()
        self._close(core)

    async def begin(self, core: Core) -> None:
        """Start its new services, and wait for them, so that calls find them as they do after a start."""
        fresh = self._begin(core)
        reactor = self._services.reactor
        await in_turns(core.shown.publication.prepare(), reactor)
        until = reactor.seconds() + START_TIMEOUT
        while any(each.state is UpstreamState.STARTING for each in fresh) and reactor.seconds() < until:
            await deferLater(reactor, LOOK_EVERY)

    def _begin(self, core: Core) -> list[Any]:
        fresh = self._upstreams.start(core.connected)
        self.keys.start(core, core.admission.issuer_keys)
        self.features.start(core, core.features.services)
        return fresh

    # Coming into force

    def turn_to(self, core: Core) -> None:
        """Put a generation in force that :meth:`begin` has started, and let the one before end."""
        before, self.core = self.core, core
        before.shown.publication.freeze()
        self._put_in_force(core)
        callbacks: list[Callable[[], None]] = [partial(each, core) for each in self._after_turn]
        for callback in (*callbacks, *core.features.activations):
            try:
                callback()
            except (Exception, SystemExit):
                # The configuration is in force already; an error of one callback must not keep the others from being
                # called.
                log.failure("a part of the host could not adopt the changed configuration")
        before.admission.dispatcher.under_way.when_over(lambda: self._retire(before))

    def _put_in_force(self, core: Core) -> None:
        self.unfinished += 1
        lasting, config = self._services.lasting, core.services.config
        lasting.directory.turn_to(core.services.loaded.directory)
        lasting.approvals.policy = config.approvals
        core.services.evidence.ledger.expect(core.admission.dispatcher.under_way.__len__)
        lasting.principals.turn_to(core.admission.principals)
        self._upstreams.adopt(core.connected)
        key = core.services.loaded.key
        if key is not None:
            # The key may have been rotated since the candidate was built.
            core.shown.publisher.adopt(fastest_signer(key), key.public)
        core.announce()

    def _retire(self, core: Core) -> None:
        """End a generation after its last call."""
        # Later, because that call is just ending and still uses its parts.
        self._services.reactor.callLater(0, self._release, core)

    def _release(self, core: Core) -> None:
        self.unfinished -= 1
        core.services.lease.release()
        self._close(core)
        core.services.registry.clear()
        self._garbage_objects += 1_000 + OBJECTS_PER_ENDPOINT * len(core.bound)
        if self._garbage_objects >= 1_000 * COLLECT_AFTER:
            # The collector runs so rarely that hundreds of retired generations would accumulate.
            self._garbage_objects = 0
            gc.collect()

    def _close(self, core: Core) -> None:
        self._upstreams.discard(core.connected)
        closing: Deferred[Any] = self._factory.close(core.factory)
        closing.addErrback(lambda failure: log.failure("connections to services were not closed", failure=failure))
        self._services.lasting.searching.keep_only(self.core.services.config.search)
        for shared, services in ((self.keys, core.admission.issuer_keys), (self.features, core.features.services)):
            shared.stop(shared.leave(core, services))
