"""
Build the services of a host from what was loaded and a reactor.

Each part is built by one function, which returns it complete, from the parts above it. What answers requests is in
:mod:`agtphost.host.core`, rebuilt for each configuration; the services here outlive a reload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.logger import Logger

from agtphost.host import a2a_front, gateway, mcp_front, registry_http
from agtphost.host.access_log import AccessLog
from agtphost.host.agent_admission import AgentAdmission
from agtphost.host.anchors import anchors, judge_anew
from agtphost.host.bootstrap import bootstrap
from agtphost.host.card_watch import CardWatch
from agtphost.host.certificate_notices import CertificateNotices
from agtphost.host.core import Core
from agtphost.host.domains import DomainWatch
from agtphost.host.evidence import keep_evidence
from agtphost.host.expiry import ExpiryWatch
from agtphost.host.foundation import Foundation
from agtphost.host.generations import Generations
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.listener import Announcement, listening_service
from agtphost.host.loaded import Loaded
from agtphost.host.methods import following
from agtphost.host.metrics import metrics
from agtphost.host.orchestration import orchestration_service
from agtphost.host.page import page
from agtphost.host.partings import Partings
from agtphost.host.revision import Watch
from agtphost.host.rotation import Rotation
from agtphost.host.service_manager import ServiceManager
from agtphost.host.services import LedgerService, OrderedServices
from agtphost.host.surfaces import Served, http_services
from agtphost.host.unmatched import unmatched
from agtphost.host.upstreams import Upstreaming
from agtphost.host.vitals import looking, tell_vitals
from agtphost.http.refusals import Door
from agtphost.http.registry import RegistryResource
from agtphost.iagtp import IChainStore
from agtphost.identity.key_history import Succession
from agtphost.identity.keys import fastest_signer
from agtphost.metrics.vitals import obstacles

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """A host that is ready to start."""

    services: OrderedServices
    generations: Generations
    agents: AgentAdmission


def assemble(loaded: Loaded, reactor: Any, environ: Mapping[str, str], store: IChainStore | None = None) -> Assembled:
    """
    Build the host.

    This opens the store, so call it once the process is the one that serves: a database connection must not live
    through the fork of a daemon.

    :param store: a store to use instead of the configured one, for a rehearsal.
    :raises agtphost.stores.StoreError: the store cannot be opened.
    :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
    """
    for remark in unmatched(loaded):
        log.warn("{remark}", remark=remark)
    factory = HandlerFactory(reactor, loaded.config.endpoints.threads)
    on = Foundation.of(loaded, reactor, keep_evidence(loaded, reactor, store))
    making = Upstreaming(reactor, on.evidence, environ)
    generations = Generations(on, making, factory)
    agents = _agents(on, generations)
    # Started in this order, stopped in the reverse: the ledger outlives every connection.
    host = OrderedServices()  # type: ignore[no-untyped-call]
    ledger = on.evidence.ledger
    manager = ServiceManager(reactor, environ, lambda: ledger.healthy or ledger.low)
    for service in (
        # It stops last, so that the service manager gets its watchdog notices until everything is written.
        manager,
        *_keeping(on, generations, agents),
        factory,
        _workers(on, generations),
        # These stop together: a server that ignores SIGTERM takes seconds, and there may be many.
        _together(making.servers.service, making.cancellations.service),
        on.lasting.delegated.service,
        orchestration_service(on, lambda: generations.core.connected),
        *_serving(on, generations, manager),
    ):
        service.setServiceParent(host)
    return Assembled(services=host, generations=generations, agents=agents)


def _workers(on: Foundation, generations: Generations) -> IService:
    """Return the worker processes; a reload restarts them, like everything that answers requests."""
    compute = on.lasting.compute
    generations.when_turned(lambda core: compute.renew())
    return compute


def _together(*services: Any) -> MultiService:
    parent = MultiService()  # type: ignore[no-untyped-call]
    for service in services:
        service.setServiceParent(parent)
    return parent


def _agents(on: Foundation, generations: Generations) -> AgentAdmission:
    evidence = on.evidence
    return AgentAdmission(
        *(on.lasting.directory, evidence.states, evidence.held, evidence.ledger, generations.renew), on.seconds
    )


def _keeping(on: Foundation, generations: Generations, agents: AgentAdmission) -> Iterator[Any]:
    """Yield the services that maintain what is on record, the ledger first."""
    config, evidence, directory, propagation = on.config, on.evidence, on.lasting.directory, on.lasting.propagation
    held, states, ledger = evidence.held, evidence.states, evidence.ledger
    yield LedgerService(ledger)
    yield evidence.clock_watch
    if on.traces is not None:
        yield on.traces
    yield evidence.observers
    yield evidence.summarizing
    partings = Partings(on.reactor, generations.core.negotiating, ledger)
    generations.when_turned(lambda core: partings.follow(core.negotiating))
    yield partings
    yield propagation
    withdrawn = CertificateNotices(
        on.reactor, config, held, directory, states.state_of, on.loaded.tls, propagation, ledger
    )
    states.watch(withdrawn.changed)
    yield withdrawn
    watch = DomainWatch(
        on.reactor,
        held,
        directory,
        states.state_of,
        ledger,
        following(propagation, on.seconds),
        config.host.server_id,
        generations.renew,
        on.seconds,
    )
    generations.when_turned(lambda core: watch.look())
    cards = CardWatch(on.reactor, on.lasting.cards, ledger, on.seconds)
    cards.turn_to(generations.core)
    generations.when_turned(cards.turn_to)
    yield cards
    yield agents
    yield watch
    yield evidence.witnesses
    yield generations.keys
    kept = anchors(on.reactor, config, directory)
    # A reload reads agents again, without asking which issuers the anchors' present keys make trusted.
    generations.prepare(lambda core: judge_anew(kept, core.on.config, core.on.loaded.directory))
    yield from kept


def _serving(on: Foundation, generations: Generations, manager: ServiceManager) -> Iterator[IService]:
    """Yield the services that take outside events: signals, changed files, connections. The ready line comes last."""
    config, loaded, reactor, front = on.config, on.loaded, on.reactor, generations.front

    def rotated(_: Succession) -> None:
        assert loaded.key is not None
        shown = generations.core.shown
        shown.publisher.adopt(fastest_signer(loaded.key), loaded.key.public)
        shown.publication.renew()

    yield Rotation(reactor, config, loaded.tls, loaded.key, on.evidence.ledger, rotated)
    yield Watch(reactor, lambda: generations.core.shown.publication.refresh())
    listening = listening_service(reactor, config, loaded.tls, front)
    access = AccessLog(on.evidence.ledger)
    access.turn(config.log.access)
    generations.when_turned(lambda core: access.turn(core.on.config.log.access))
    ending = ExpiryWatch(reactor, lambda: generations.core.on, on.lasting.directory.list_known)
    yield ending
    look = looking(on, lambda: generations.core.connected, listening, ending)
    generations.prepare(lambda core: tell_vitals(core.on, look))
    manager.look_with(look)
    operated = page(on, front, lambda: generations.core.on.config)
    fronts = (_a2a_front(on, generations), _registry(generations), _mcp_front(on, generations))
    fronted, listed, _ = fronts
    if fronted is not None and listed is not None:
        # Both protocols serve their card at the same path (HAIDIP-002).
        fronted.resource.other = listed.resource
    known = bootstrap(config, lambda: generations.core.summary())
    served = (known, *fronts, operated, metrics(on, look), _gateway(on, generations))
    yield from http_services(reactor, config, (each for each in served if each is not None), Door(front))
    yield listening

    def summary() -> Mapping[str, object]:
        core = generations.core
        return {
            "server_id": config.host.server_id,
            "agents": len(on.lasting.directory.list_hosted()),
            "endpoints": len(core.bound),
            "tools": len(core.connected.mcp.tools()),
        }

    def hindered() -> str:
        return "; ".join(each.why for each in obstacles(look()) if each.what == "ledger")

    yield Announcement(reactor, listening, generations.core.connected.services, summary, manager.ready, hindered)


def _a2a_front(on: Foundation, generations: Generations) -> Served | None:
    facts, tasks = generations.core.front, on.lasting.fronted
    if facts is None or tasks is None:
        return None
    resource = a2a_front.a2a_front(on.reactor, facts, generations.front, on.loaded.key, tasks)

    def turned(core: Core) -> None:
        if core.front is not None:
            resource.turn_to(core.front)

    generations.when_turned(turned)
    return a2a_front.surface(resource)


def _gateway(on: Foundation, generations: Generations) -> Served | None:
    facts = generations.core.gateway
    if facts is None:
        return None
    resource = gateway.gateway(facts, generations.front, on.config)

    def turned(core: Core) -> None:
        if core.gateway is not None:
            resource.turn_to(core.gateway)

    generations.when_turned(turned)
    return gateway.surface(resource)


def _registry(generations: Generations) -> Served | None:
    facts = generations.core.registry
    if facts is None:
        return None
    resource = RegistryResource(facts, generations.front)

    def turned(core: Core) -> None:
        if core.registry is not None:
            resource.turn_to(core.registry)

    generations.when_turned(turned)
    return registry_http.surface(resource)


def _mcp_front(on: Foundation, generations: Generations) -> Served | None:
    facts = generations.core.mcp_front
    if facts is None:
        return None
    resource = mcp_front.mcp_front(on.reactor, facts, generations.front)
    on.evidence.states.watch(mcp_front.stopping(resource))

    def turned(core: Core) -> None:
        if core.mcp_front is not None:
            resource.turn_to(core.mcp_front)

    generations.when_turned(turned)
    return mcp_front.surface(resource)
