"""
Build the services of a host from what was loaded and a reactor.

Each part is built by one function, which returns it complete, from the parts above it. What answers requests is in
:mod:`agtphost.host.core`, rebuilt for each configuration; the services here outlive a reload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.logger import Logger

from agtphost.cluster.pod_label import PodLabel
from agtphost.cluster.process_reports import ProcessReporter
from agtphost.config.surfaces import FRONT, REGISTRY
from agtphost.host.agent_admission import AgentAdmission
from agtphost.host.agents import restore
from agtphost.host.bootstrap import bootstrap
from agtphost.host.called_endpoints import find_unanswered
from agtphost.host.certificate_notices import CertificateNotices
from agtphost.host.domains import DomainWatch
from agtphost.host.drain_delay import DrainDelay
from agtphost.host.evidence import Evidence, keep_evidence
from agtphost.host.expiry_watch import ExpiryWatch
from agtphost.host.file_rotation import FileRotation
from agtphost.host.generations import Generations
from agtphost.host.grant_bindings import GrantWatch
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.host_loader import LoadedHost
from agtphost.host.listener import Announcement, listening_service, quic_service
from agtphost.host.notice_queue import follow_up
from agtphost.host.orchestration import orchestration_service
from agtphost.host.ordered_services import LedgerService, OrderedServices
from agtphost.host.pod_label import build_pod_label
from agtphost.host.process_description import build_reporter
from agtphost.host.publication_history import UpstreamComparison
from agtphost.host.rights_watch import RightsWatch
from agtphost.host.service_manager import ServiceManagerNotifier
from agtphost.host.services import HostServices
from agtphost.host.surfaces import http_services
from agtphost.host.trust_anchors import build_anchors, resolve_postures_again
from agtphost.host.unmatched import RemarkLog, find_unmatched
from agtphost.host.upstreams import UpstreamFactory
from agtphost.host.vitals_reader import register_vitals, vitals_reader
from agtphost.http.refusals import RefusalRecorder
from agtphost.iagtp import IChainStore
from agtphost.identity.key_history import Succession
from agtphost.identity.keys import fastest_signer
from agtphost.logs.access_log import AccessLog
from agtphost.methods.continuation import continuation_key
from agtphost.negotiation.contract_cleanup import ContractCleanup
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import SERVING
from agtphost.vocabulary.vitals import obstacles

log = Logger()


@dataclass(frozen=True, kw_only=True)
class AssembledHost:
    """A host that is ready to start."""

    services: OrderedServices
    generations: Generations
    agents: AgentAdmission
    remarks: RemarkLog
    """The warnings about the configuration that were logged."""

    async def discard(self) -> None:
        """Undo a start that failed: stop what has started, and close the store, which gives its lease up."""
        await self.services.stop_started()
        self.generations.core.services.evidence.discard()


def assemble(
    loaded: LoadedHost,
    reactor: Any,
    environ: Mapping[str, str],
    store: IChainStore | None = None,
    lease: ILease | None = None,
    remarks: RemarkLog | None = None,
) -> AssembledHost:
    """
    Build the host.

    This opens the store, so call it once the process is the one that serves: a database connection must not live
    through the fork of a daemon.

    :param store: a store to use instead of the configured one, for a rehearsal.
    :param lease: of the configured store, already taken; None where one host alone can use the store.
    :param remarks: takes the warnings about the configuration; by default a new log of them.
    :raises agtphost.stores.StoreError: the store cannot be opened.
    :raises agtphost.contract.endpoint_table.AmbiguousEndpoints: two endpoints match one path equally well.
    :raises agtphost.errors.ConfigurationError: the process lacks what a key needs.
    """
    pod_label = build_pod_label(loaded.config, reactor, environ, serving=True)
    remarks = remarks or RemarkLog(loaded.warnings)
    remarks.write(find_unmatched(loaded))
    evidence = keep_evidence(loaded, reactor, store, lease=lease)
    try:
        return _assemble(loaded, reactor, environ, evidence, remarks, pod_label)
    except BaseException:
        # Another configuration may be tried with the lease; without one, the store is the caller's.
        if lease is not None:
            evidence.discard()
        else:
            evidence.close_reader()
        raise


def _assemble(
    loaded: LoadedHost,
    reactor: Any,
    environ: Mapping[str, str],
    evidence: Evidence,
    remarks: RemarkLog,
    pod_label: PodLabel | None,
) -> AssembledHost:
    """Build the host on what holds its records; see :func:`assemble`."""
    services = HostServices.for_host(loaded, reactor, evidence)
    factory = HandlerFactory(reactor, loaded.config.endpoints.threads, services.lasting.computing)
    listening = services.lasting.listening
    making = UpstreamFactory(reactor, services.evidence, environ, listening)
    generations = Generations(services, making, factory)
    remarks.write(find_unanswered(generations.core.services))
    agents = _build_admission(services, generations)
    # Started in this order, stopped in the reverse: the ledger outlives every connection.
    host = OrderedServices()  # type: ignore[no-untyped-call]
    ledger = services.evidence.ledger
    manager = ServiceManagerNotifier(reactor, environ, lambda: ledger.healthy or ledger.low)
    reporter = None
    if services.evidence.lease is not None:
        reporter = build_reporter(reactor, services.evidence.lease, lambda: generations.core.services.loaded, SERVING)
    for service in (
        # It stops last, so that the service manager gets its watchdog notices until everything is written.
        manager,
        *_record_services(services, generations, agents, reporter),
        factory,
        _worker_processes(services, generations),
        # These stop together: a server that ignores SIGTERM takes seconds, and there may be many.
        _group(making.servers.service, making.cancellations.service),
        services.lasting.delegated.service,
        orchestration_service(services, lambda: generations.core.connected),
        *_outside_services(services, generations, manager, remarks, reporter),
        # Before the listeners wait for their answers.
        listening,
        # After the port accepts; it stops first, so that no new connection comes while the others end.
        *(() if pod_label is None else (pod_label,)),
    ):
        service.setServiceParent(host)
    return AssembledHost(services=host, generations=generations, agents=agents, remarks=remarks)


def _worker_processes(services: HostServices, generations: Generations) -> IService:
    """Return the worker processes; a reload restarts them, like everything that answers requests."""
    compute = services.lasting.compute
    generations.after_turn(lambda core: compute.renew())
    return compute


def _group(*services: Any) -> MultiService:
    parent = MultiService()  # type: ignore[no-untyped-call]
    for service in services:
        service.setServiceParent(parent)
    return parent


def _build_admission(services: HostServices, generations: Generations) -> AgentAdmission:
    evidence = services.evidence
    return AgentAdmission(
        services.lasting.directory,
        evidence.states,
        evidence.held,
        evidence.ledger,
        generations.renew,
        services.seconds,
        partial(restore, services.config),
    )


def _record_services(
    services: HostServices, generations: Generations, agents: AgentAdmission, reporter: ProcessReporter | None
) -> Iterator[Any]:
    """Yield the services that maintain what is on record, the ledger first."""
    config, evidence, directory, propagation = (
        services.config,
        services.evidence,
        services.lasting.directory,
        services.lasting.propagation,
    )
    held, states, ledger = evidence.held, evidence.states, evidence.ledger
    yield LedgerService(ledger, evidence.check_key)
    if evidence.heartbeat is not None:
        yield evidence.heartbeat
    if reporter is not None:
        generations.after_turn(lambda core: reporter.renew())
        yield reporter
    yield evidence.clock_watch
    yield generations.features.service
    yield evidence.observers
    yield evidence.summarizing
    partings = ContractCleanup(services.reactor, generations.core.negotiating, ledger)
    generations.after_turn(lambda core: partings.switch_to(core.negotiating))
    yield partings
    yield propagation
    withdrawn = CertificateNotices(
        services.reactor, config, held, directory, states.state_of, services.loaded.tls, propagation, ledger
    )
    states.watch(withdrawn.note_state)
    yield withdrawn
    watch = DomainWatch(
        services.reactor,
        held,
        directory,
        states.state_of,
        ledger,
        follow_up(propagation, services.seconds),
        config.host.server_id,
        generations.renew,
        services.seconds,
    )
    generations.after_turn(lambda core: watch.check())
    yield agents
    yield watch
    yield generations.keys.service
    kept = build_anchors(services.reactor, config, directory)
    # A reload reads agents again, without asking which issuers the anchors' present keys make trusted.
    generations.before_turn(
        lambda core: resolve_postures_again(kept, core.services.config, core.services.loaded.directory)
    )
    yield from kept


def _outside_services(
    services: HostServices,
    generations: Generations,
    manager: ServiceManagerNotifier,
    remarks: RemarkLog,
    reporter: ProcessReporter | None,
) -> Iterator[IService]:
    """Yield the services that take outside events: signals, changed files, connections."""
    config, loaded, reactor, front = services.config, services.loaded, services.reactor, generations.front

    def adopt_key(_: Succession) -> None:
        assert loaded.key is not None
        shown = generations.core.shown
        shown.publisher.adopt(fastest_signer(loaded.key), loaded.key.public)
        shown.publication.drop_forms()
        services.lasting.continuations.adopt(continuation_key(loaded.key, config.host.server_id))

    changed = (lambda: None) if reporter is None else reporter.renew
    yield FileRotation(
        reactor, config, loaded.tls, loaded.key, services.evidence.ledger, services.evidence.held, adopt_key, changed
    )
    grants = GrantWatch(remarks.write)

    def compare_upstreams() -> None:
        core = generations.core
        core.shown.publication.refresh()
        grants.check(core.services, core.connected)

    yield UpstreamComparison(reactor, compare_upstreams)
    yield _watch_rights(services, generations)
    listening = listening_service(reactor, config, loaded.tls, front)
    access = AccessLog(services.evidence.ledger)
    access.switch(config.log.access)
    generations.after_turn(lambda core: access.switch(core.services.config.log.access))
    ending = ExpiryWatch(reactor, lambda: generations.core.services, services.lasting.directory.list_known)
    yield ending
    draining = DrainDelay(reactor, config.limits.drain_delay)
    quic = quic_service(reactor, loaded, services.evidence.held, listening, services.lasting.transports)
    look = vitals_reader(services, lambda: generations.core, listening, ending, draining, quic)
    generations.before_turn(lambda core: register_vitals(core.services, look))
    manager.look_with(look)
    known, surfaces = bootstrap(config, services.lasting.host.render_agis_summary), generations.core.features.surfaces
    resources = {each.name: each.resource for each in surfaces}
    if {FRONT, REGISTRY} <= resources.keys():
        # Both protocols serve their card at the same path (HAIDIP-002).
        resources[FRONT].other = resources[REGISTRY]
    served = surfaces if known is None else (known, *surfaces)
    yield from http_services(reactor, config, served, RefusalRecorder(front), loaded.https)
    yield listening
    if quic is not None:
        yield quic

    def summary() -> Mapping[str, object]:
        core = generations.core
        return {
            "server_id": config.host.server_id,
            "agents": len(services.lasting.directory.list_hosted()),
            "endpoints": len(core.bound),
            "tools": len(core.connected.mcp.tools()),
        }

    def find_hindrance() -> str:
        return "; ".join(each.why for each in obstacles(look()) if each.what == "ledger")

    yield Announcement(
        reactor,
        listening,
        generations.core.connected.services,
        summary,
        manager.notify_ready,
        find_hindrance,
        lambda: None if quic is None else quic.port,
    )
    # The last to start is the first to stop.
    yield draining


def _watch_rights(services: HostServices, generations: Generations) -> IService:
    """Return the service by which open clients hear that they may call other things."""
    listeners = services.lasting.listening.rights
    generations.after_turn(lambda core: listeners.end_all())
    states, held = services.evidence.states, services.evidence.held
    return RightsWatch(services.reactor, held, states, listeners, lambda: generations.core, services.seconds)
