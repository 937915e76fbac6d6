"""Build what answers requests under one configuration: everything between a request and its record."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from agtphost.contract.binding import Binding
from agtphost.contract.prices import PriceList
from agtphost.host.admission import Admission, build_admission
from agtphost.host.features import NO_FEATURES, FeatureSet, add_targets, build_features
from agtphost.host.grant_bindings import configure_grants
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.methods import Disclosure, Methods, build_disclosure, built_in_methods
from agtphost.host.negotiation import build_negotiator
from agtphost.host.orchestration import observe_configuration
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.methods.discovery.agis_service import summary_renderer
from agtphost.methods.merchant import ActionResolver
from agtphost.methods.purchase import PurchaseFeature
from agtphost.methods.standard.bindings import apply_tables
from agtphost.negotiation.negotiator import Negotiator


@dataclass(frozen=True, kw_only=True)
class Core:
    """
    The part of a host that answers requests under one configuration; services and state that outlive it are elsewhere.
    """

    services: HostServices
    connected: Upstreams
    shown: Disclosure
    factory: HandlerFactory
    negotiating: Negotiator
    methods: Methods
    admission: Admission
    bound: Sequence[Binding]
    """The operator's endpoints."""

    @property
    def features(self) -> FeatureSet:
        """The features of this configuration, and what they contribute."""
        return self.methods.features

    def announce(self) -> None:
        """Answer requests from now on, with the present version of what can be called in every response."""
        self.shown.publication.announce_to(self.admission.sealer.announce)
        admission = self.admission
        self.services.lasting.workflows.turn_to(admission.dispatcher, self.services.registry.match, admission.objection)
        observe_configuration(self.services, self.connected, admission.objection)
        self.services.lasting.host.turn_to(
            self.services.config,
            admission.dispatcher,
            self.connected,
            self.features.witness_keys,
            self.services.certificate_counts,
            self.shown.publication,
            admission.principal,
            summary_renderer(
                self.services.config,
                self.services.loaded.endpoints,
                self.services.registry.admitted_bindings,
                self.shown.adapters,
                self.shown.publication.current_version,
            ),
        )


ENDPOINTS_PER_STEP = 100
"""Endpoints that are bound in one step."""


def compose(
    services: HostServices, connected: Upstreams, factory: HandlerFactory, running: FeatureSet = NO_FEATURES
) -> Generator[None, None, Core]:
    """
    Build what answers requests. It starts nothing and listens nowhere until :meth:`Core.announce` is called.

    It is built in steps, because thousands of endpoints would take longer than other work can wait.

    :param connected: MCP servers, A2A agents and ACP servers.
    :param factory: makes handlers.
    :param running: the features of the configuration in force.
    :raises agtphost.contract.endpoint_table.AmbiguousEndpoints: two endpoints match one path equally well.
    :raises agtphost.errors.ConfigurationError: the configuration names something that does not exist.
    """
    held, states, lease = services.evidence.held, services.evidence.states, services.lease
    steps = _compose_steps(services, connected, factory, running)
    try:
        while True:
            # Watchers that others add between two steps do not belong to this lease.
            with held.leasing.filling(lease), states.leasing.filling(lease):
                try:
                    next(steps)
                except StopIteration as end:
                    core: Core = end.value
                    return core
            yield
    except BaseException:
        lease.release()
        raise


def _compose_steps(
    services: HostServices, connected: Upstreams, factory: HandlerFactory, running: FeatureSet
) -> Generator[None, None, Core]:
    config, loaded, reactor, evidence = services.config, services.loaded, services.reactor, services.evidence
    # Contracts are state items that act as endpoints.
    negotiating = build_negotiator(
        loaded,
        evidence.held,
        services.registry.all_bindings,
        services.authorization,
        reactor,
        services.lasting.computing,
        services.seconds,
        services.lasting.negotiations,
    )
    shown = build_disclosure(services, connected, negotiating)
    services.registry.adapters = connected.adapters
    # What merchants sell is bought and quoted under the rules of core v08 section 9.
    purchase = PurchaseFeature(
        config,
        evidence.held,
        evidence.states.state_of,
        loaded.key,
        services.registry.match,
        lambda agent, state: shown.publisher.octets(agent, state, tuple(services.registry.methods())),
        services.seconds,
        ActionResolver(connected.adapters, services.registry.admitted_bindings),
    )
    prices = PriceList(config.methods.price)
    yield
    ready: list[Binding] = []
    for prepared in loaded.bound:
        ready.append(prepared.bind(factory))
        if not len(ready) % ENDPOINTS_PER_STEP:
            yield
    bound = apply_tables(
        config.methods, purchase.bind_quotes(list(map(prices.apply, ready))), services.offload, services.seconds
    )
    services.registry.endpoints = bound
    yield
    features = build_features(services, running)
    methods = built_in_methods(services, connected, shown, purchase, negotiating, features, bound)
    yield
    table = services.registry.freeze(map(prices.apply, methods.bindings))
    yield
    configure_grants(services, connected)
    admission = build_admission(services, table, methods, connected, purchase, negotiating, bound, prices)
    add_targets(services, features)
    # The manifest lists only agents that can be called, so it changes with their states.
    evidence.states.watch(lambda agent_id, state: shown.publication.drop_forms())
    return Core(
        services=services,
        connected=connected,
        shown=shown,
        factory=factory,
        negotiating=negotiating,
        methods=methods,
        admission=admission,
        bound=bound,
    )
