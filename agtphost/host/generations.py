"""
One configuration after the other, without a restart: each is a generation of everything that answers requests.

Theory of operation. A generation is a whole :class:`agtphost.host.core.Core`, made beside the one in force from the
same foundation: ledger, state, sessions, running calls. It comes into force in one turn of the reactor: every listener
hands its requests to a :class:`Front`, and from that turn on the front hands them to another dispatcher. A request is
judged, carried out and answered by the dispatcher that it was handed to, with every call that is made in its course, so
none is judged by one configuration and answered by another. The generation before ends its calls; once the last one is
over it lets go of what it watches, and servers that no other generation has are stopped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.encoding import in_turns
from agtphost.host.core import Core, compose
from agtphost.host.foundation import Foundation
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.loaded import Loaded
from agtphost.host.oauth import IssuerKeys
from agtphost.host.upstreams import Upstreaming
from agtphost.iagtp import IDispatcher
from agtphost.identity.keys import fastest_signer
from agtphost.upstream.supervision import State
from agtphost.vocabulary.steps import run_to_end

log = Logger()

PATIENCE = 10.0
"""Seconds that new servers have to come up before the configuration that names them is in force; it is then anyway."""

COLLECT = 16
"""
Generations whose parts hold one another, a thousand objects of each, until what they leave is collected.

Of fewer where they had many endpoints, which leave :data:`OF_EACH` objects more: collecting those of 16 generations
with 5,000 endpoints held everybody up for more than a second, and of one it is a tenth of that.
"""

OF_EACH = 20

LOOK = 0.05
"""Seconds between two looks at them."""


@implementer(IDispatcher)
class Front:
    """Where every listener takes its requests: to the dispatcher in force, whose methods it has for its own."""

    dispatch: Callable[..., Any]
    refuse: Callable[..., Any]
    turn_away: Callable[..., Any]

    def turn_to(self, dispatcher: Dispatcher) -> None:
        """Hand the next request to this one."""
        self.dispatch = dispatcher.dispatch
        self.refuse = dispatcher.refuse
        self.turn_away = dispatcher.turn_away


class Generations:
    """
    Makes generations, puts them in force, and ends them.

    :param on: of the first one.
    :param factory: whose threads all of them share.
    """

    def __init__(self, on: Foundation, upstreaming: Upstreaming, factory: HandlerFactory) -> None:
        self._on = on
        self._upstreaming = upstreaming
        self._factory = factory
        self._prepared: list[Callable[[Core], None]] = []
        self._turned: list[Callable[[Core], None]] = []
        self._keys: list[list[IssuerKeys]] = []
        self._over = 0
        self.front = Front()
        self.living = 0
        """Generations whose calls are not all over, the one in force included."""

        self.keys = MultiService()  # type: ignore[no-untyped-call]
        """Parent of what keeps the keys of identity providers fresh."""

        self.core = run_to_end(self._compose(on))
        self._begin(self.core)
        self._put_in_force(self.core)

    # What lasts is told

    def prepare(self, prepare: Callable[[Core], None]) -> None:
        """Have it called with every generation before that comes into force, and now with the present one."""
        self._prepared.append(prepare)
        prepare(self.core)

    def when_turned(self, turned: Callable[[Core], None]) -> None:
        """Have it called with every further generation, in the turn of the reactor in which that comes into force."""
        self._turned.append(turned)

    def renew(self) -> None:
        """Other agents can be called: what is published is told anew."""
        self.core.shown.publication.renew()

    # Candidates

    def compose(self, loaded: Loaded) -> Generator[None, None, Core]:
        """
        A further generation, which is to be given to :meth:`discard` or to :meth:`turn_to`. It starts nothing.

        It is made in steps, as is due to thousands of endpoints: while calls are answered.

        :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
        :raises agtphost.errors.ConfigurationError: something is named that there is not.
        """
        core = yield from self._compose(self._on.under(loaded))
        for prepare in self._prepared:
            prepare(core)
        return core

    def _compose(self, on: Foundation) -> Generator[None, None, Core]:
        connected, factory = self._upstreaming.of(on), self._factory.another()
        try:
            return (yield from compose(on, connected, factory))
        except BaseException:
            self._upstreaming.discard(connected)
            self._factory.close(factory)
            raise

    def discard(self, core: Core) -> None:
        """It never comes into force."""
        core.on.lease.release()
        self._let_go(core)

    async def begin(self, core: Core) -> None:
        """Start what is new behind it, and wait for that: calls should find it, as they do after a start."""
        fresh = self._begin(core)
        reactor = self._on.reactor
        await in_turns(core.shown.publication.prepare(), reactor)
        until = reactor.seconds() + PATIENCE
        while any(each.state is State.STARTING for each in fresh) and reactor.seconds() < until:
            await deferLater(reactor, LOOK)

    def _begin(self, core: Core) -> list[Any]:
        fresh = self._upstreaming.start(core.connected)
        self._keys.append(list(core.admission.issuer_keys))
        for keys in core.admission.issuer_keys:
            if keys.parent is None:
                keys.setServiceParent(self.keys)  # type: ignore[no-untyped-call]
        return fresh

    # Coming into force

    def turn_to(self, core: Core) -> None:
        """Put it in force, now, and have the one before end. :meth:`begin` was called with it."""
        before, self.core = self.core, core
        before.shown.publication.end()
        self._put_in_force(core)
        for turned in self._turned:
            try:
                turned(core)
            except Exception:
                # It is in force: what one of them makes of it must not keep the others from hearing of it.
                log.failure("something of the host did not follow its configuration")
        before.admission.dispatcher.under_way.when_over(lambda: self._retire(before))

    def _put_in_force(self, core: Core) -> None:
        self.living += 1
        lasting, config = self._on.lasting, core.on.config
        lasting.directory.turn_to(core.on.loaded.directory)
        lasting.approvals.policy = config.approvals
        core.on.evidence.ledger.expect(core.admission.dispatcher.under_way.__len__)
        lasting.principals.turn_to(core.admission.principals)
        self._upstreaming.adopt(core.connected)
        key = core.on.loaded.key
        if key is not None:
            # It may have been followed by another one since the candidate was made.
            core.shown.publisher.adopt(fastest_signer(key), key.public)
        core.announce()
        self.front.turn_to(core.admission.dispatcher)

    def _retire(self, core: Core) -> None:
        """Its last call is over."""
        # Not in the middle of that call's end: what it still has in hand is its own.
        self._on.reactor.callLater(0, self._retired, core)

    def _retired(self, core: Core) -> None:
        self.living -= 1
        core.on.lease.release()
        self._let_go(core)
        core.on.registry.clear()
        self._over += 1_000 + OF_EACH * len(core.bound)
        if self._over >= 1_000 * COLLECT:
            # The collector comes so rarely by itself that hundreds of them would wait for it.
            self._over = 0
            gc.collect()

    def _let_go(self, core: Core) -> None:
        self._upstreaming.discard(core.connected)
        closing: Deferred[Any] = self._factory.close(core.factory)
        closing.addErrback(lambda failure: log.failure("connections to services were not closed", failure=failure))
        self._on.lasting.searching.keep(self.core.on.config.search)
        mine = list(core.admission.issuer_keys)
        if mine in self._keys:
            self._keys.remove(mine)
        for keys in mine:
            if keys.parent is not None and not any(keys in others for others in self._keys):
                keys.disownServiceParent()  # type: ignore[no-untyped-call]
