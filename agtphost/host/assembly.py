"""
What is loaded and a reactor in, services out: the bill of materials of a host.

Each part is made by one function that returns it complete, from the parts
above it. What is told of before it is known, everything that can be called, is
in the registry, which is frozen once the last method is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.logger import Logger

from agtphost.contract.binding import Binding
from agtphost.host import a2a_front
from agtphost.host.access_log import access_log, of_calls
from agtphost.host.admission import Admission, admitting
from agtphost.host.agent_admission import AgentAdmission
from agtphost.host.anchors import anchors
from agtphost.host.bootstrap import bootstrap
from agtphost.host.certificate_notices import CertificateNotices
from agtphost.host.domains import DomainWatch
from agtphost.host.evidence import keep_evidence
from agtphost.host.foundation import Foundation
from agtphost.host.granting import configure_grants
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.listener import Announcement, listening_service
from agtphost.host.loaded import Loaded
from agtphost.host.merchant import PurchaseFeature
from agtphost.host.methods import Disclosure, Methods, built_in_methods, disclosing, following
from agtphost.host.metrics import metrics
from agtphost.host.negotiation import negotiator
from agtphost.host.page import page, restarting
from agtphost.host.partings import Partings
from agtphost.host.propagation import Propagation
from agtphost.host.revision import Watch
from agtphost.host.rotation import Rotation
from agtphost.host.service_manager import ServiceManager
from agtphost.host.services import LedgerService, OrderedServices
from agtphost.host.surfaces import http_services
from agtphost.host.unmatched import unmatched
from agtphost.host.upstreams import Upstreams, upstreams
from agtphost.host.vitals import looking, tell_vitals
from agtphost.iagtp import IChainStore
from agtphost.identity.key_history import Succession
from agtphost.identity.keys import fastest_signer
from agtphost.negotiation.negotiator import Negotiator

log = Logger()


def assemble(
    loaded: Loaded, reactor: Any, environ: Mapping[str, str], store: IChainStore | None = None
) -> OrderedServices:
    """
    Build the host.

    Opens the store, so it is called once the process is the one that serves:
    a database connection must not live through the fork of a daemon.

    :param store: another one than the configuration names: a rehearsal's.
    :raises agtphost.stores.StoreError: the store cannot be opened.
    :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
    """
    for remark in unmatched(loaded):
        log.warn("{remark}", remark=remark)
    factory = HandlerFactory(reactor, loaded.config.endpoints.threads)
    on = Foundation.of(loaded, reactor, keep_evidence(loaded, reactor, store))
    core = compose(on, upstreams(on, environ), factory)
    connected, shown, methods, admission = core.connected, core.shown, core.methods, core.admission
    # Started in this order, stopped in the reverse: no connection outlives its ledger.
    host = OrderedServices()  # type: ignore[no-untyped-call]
    ledger = on.evidence.ledger
    manager = ServiceManager(reactor, environ, lambda: ledger.healthy or ledger.low)
    for service in (
        # The last to stop: whoever watches over the process hears that it lives until all is written.
        manager,
        *_keeping(on, shown, core.negotiating, core.propagation, admission),
        factory,
        # These stop together: a server that is deaf to SIGTERM takes seconds, and there may be many.
        _together((*connected.services, *connected.web.cancellations)),
        methods.delegating.service,
        *_serving(on, connected, shown, methods, admission, core.bound, manager),
    ):
        service.setServiceParent(host)
    return host


@dataclass(frozen=True, kw_only=True)
class Core:
    """What answers requests: all of a host but what listens, looks after things, and starts and stops."""

    on: Foundation
    connected: Upstreams
    shown: Disclosure
    negotiating: Negotiator
    propagation: Propagation
    methods: Methods
    admission: Admission
    bound: Sequence[Binding]
    """The operator's endpoints."""


def compose(on: Foundation, connected: Upstreams, factory: HandlerFactory) -> Core:
    """
    Build what answers requests. It starts nothing, and listens nowhere.

    :param connected: MCP servers, A2A agents and ACP servers.
    :param factory: what handlers are made with.
    :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
    """
    config, loaded, reactor, evidence = on.config, on.loaded, on.reactor, on.evidence
    # Contracts: state items that stand in for endpoints nobody registered.
    negotiating = negotiator(loaded, evidence.held, on.registry.all, on.authorization, reactor, on.seconds)
    shown = disclosing(on, connected, negotiating)
    # What merchants sell is bought and quoted under the rules of core v08 section 9.
    purchase = PurchaseFeature(
        config,
        evidence.held,
        evidence.states.state_of,
        loaded.key,
        on.registry.match,
        lambda agent, state: shown.publisher.octets(agent, state, tuple(on.registry.methods())),
    )
    bound = purchase.quoting(prepared.bind(factory) for prepared in loaded.bound)
    propagation = Propagation(reactor, config, evidence.held, evidence.records, evidence.ledger)
    methods = built_in_methods(on, connected, shown, purchase, negotiating, propagation, bound)
    table = on.registry.freeze(methods.bindings, bound)
    configure_grants(on, connected)
    admission = admitting(on, table, methods, connected, purchase, negotiating, bound)
    _tell_each_other(on, shown, methods, admission)
    if methods.access is not None:
        methods.access.restart_by(restarting(connected.services))
    return Core(
        on=on,
        connected=connected,
        shown=shown,
        negotiating=negotiating,
        propagation=propagation,
        methods=methods,
        admission=admission,
        bound=bound,
    )


def _tell_each_other(on: Foundation, shown: Disclosure, methods: Methods, admission: Admission) -> None:
    """Who is told of what happens."""
    states = on.evidence.states
    # Every response carries the version of what can be called here.
    shown.publication.announce_to(admission.sealer.announce)
    states.watch(admission.running.changed)
    if methods.access is not None:
        methods.access.end_by(admission.running.end)
    states.watch(methods.floor.sessions.changed)
    # The manifest names those agents alone that can be called.
    states.watch(lambda agent_id, state: shown.publication.renew())


def _together(services: Sequence[Any]) -> MultiService:
    parent = MultiService()  # type: ignore[no-untyped-call]
    for service in services:
        service.setServiceParent(parent)
    return parent


def _keeping(
    on: Foundation, shown: Disclosure, negotiating: Negotiator, propagation: Propagation, admission: Admission
) -> Iterator[Any]:
    """Services that look after what is on record; the ledger first."""
    config, evidence, directory = on.config, on.evidence, on.loaded.directory
    held, states, ledger, publication = evidence.held, evidence.states, evidence.ledger, shown.publication
    yield LedgerService(ledger)
    if on.traces is not None:
        yield on.traces
    yield evidence.observers
    yield evidence.summarizing
    yield Partings(on.reactor, negotiating, ledger)
    yield propagation
    withdrawn = CertificateNotices(
        on.reactor, config, held, directory, states.state_of, on.loaded.tls.revocations, propagation, ledger
    )
    states.watch(withdrawn.changed)
    yield withdrawn
    watch = DomainWatch(
        on.reactor,
        held,
        directory,
        states.state_of,
        ledger,
        following(propagation),
        config.host.server_id,
        publication.renew,
    )

    def known() -> None:
        publication.renew()
        watch.look()

    yield AgentAdmission(directory, states, held, ledger, known)
    yield watch
    yield evidence.witnesses
    yield from admission.issuer_keys
    yield from anchors(on.reactor, config, directory)


def _serving(
    on: Foundation,
    connected: Upstreams,
    shown: Disclosure,
    methods: Methods,
    admission: Admission,
    bound: Sequence[Binding],
    manager: ServiceManager,
) -> Iterator[IService]:
    """Services that take what comes from outside: signals, changed files, connections. The ready line comes last."""
    config, loaded, reactor = on.config, on.loaded, on.reactor
    publication = shown.publication

    def rotated(_: Succession) -> None:
        assert loaded.key is not None
        shown.publisher.adopt(fastest_signer(loaded.key), loaded.key.public)
        publication.renew()

    yield Rotation(reactor, config, loaded.tls, loaded.key, on.evidence.ledger, rotated)
    yield Watch(reactor, publication.refresh)
    front = a2a_front.a2a_front(
        reactor,
        config,
        loaded.directory,
        admission.dispatcher,
        loaded.key,
        methods.fronted,
        admission.principal,
        shown.visibility.offered,
        connected.web.a2a,
    )
    operated = page(on, methods.entrance, admission.dispatcher)
    listening = listening_service(reactor, config, loaded.tls, admission.dispatcher)
    if config.log.access:
        on.evidence.ledger.watch(of_calls(access_log()))
    look = looking(on, connected, admission.running, listening)
    tell_vitals(on, look)
    manager.look_with(look)
    watched = metrics(on, look)
    served = (each for each in (bootstrap(config), front, operated, watched) if each is not None)
    yield from http_services(reactor, config, served)
    yield listening

    def summary() -> Mapping[str, object]:
        return {
            "server_id": config.host.server_id,
            "agents": len(loaded.directory.hosted()),
            "endpoints": len(bound),
            "tools": len(connected.mcp.tools()),
        }

    yield Announcement(reactor, listening, connected.services, summary, manager.ready)
