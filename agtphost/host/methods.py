"""Build the protocol's own methods on this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agtphost.audit import retention
from agtphost.config import Config
from agtphost.config.presence import http_apis, own_address, root_of
from agtphost.contract.binding import Binding
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.host import a2a, bindings
from agtphost.host.configuration_bindings import configuration_bindings
from agtphost.host.delegation import DelegationParts, build_delegation
from agtphost.host.features import FeatureSet
from agtphost.host.grant_bindings import granting_bindings
from agtphost.host.notice_queue import NoticeQueue, follow_up
from agtphost.host.orchestration import orchestration_bindings
from agtphost.host.publication import Publication
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.host.verifications import verification_bindings
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.keys import fastest_signer
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods.cognitive.documents import Library
from agtphost.methods.discovery.agis import AgisFace
from agtphost.methods.discovery.agis_service import service_of
from agtphost.methods.discovery.candidates import Candidates
from agtphost.methods.discovery.description import Description
from agtphost.methods.discovery.discover import Discovery
from agtphost.methods.discovery.namespace import Namespace
from agtphost.methods.discovery.openapi import OpenAPIFace
from agtphost.methods.discovery.publication import DocumentPublisher
from agtphost.methods.discovery.status_document import StatusDocuments
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.domains import Domains
from agtphost.methods.execution import Carrier
from agtphost.methods.floor import Floor, floor_methods
from agtphost.methods.inspection.access import ReadACL, RecordAccess
from agtphost.methods.inspection.agents import Chains, KnownAgents
from agtphost.methods.inspection.backups import Backups
from agtphost.methods.inspection.call_targets import Records
from agtphost.methods.inspection.definitions import ALL, TARGET, Definitions
from agtphost.methods.inspection.feed import RecordFeed
from agtphost.methods.inspection.inspect import Inspection
from agtphost.methods.inspection.sessions import Sessions
from agtphost.methods.inspection.tools import ToolReport
from agtphost.methods.inspection.upstreams import UpstreamDefinition, UpstreamReport
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.methods.overrides import Overrides
from agtphost.methods.proposal import Ending, Proposing
from agtphost.methods.purchase import PurchaseFeature
from agtphost.methods.standard.bindings import standard_methods
from agtphost.methods.standard.collections.store import Collections
from agtphost.methods.standard.orchestration.monitor_methods import cancelling
from agtphost.methods.standard.orchestration.pause import Resumption
from agtphost.methods.standard.services import MethodServices
from agtphost.negotiation.negotiator import Negotiator
from agtphost.vocabulary import times


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """The manifest, the Identity Documents, and who may see which agents."""

    visibility: Visibility
    publication: Publication
    publisher: DocumentPublisher
    adapters: Sequence[IPayloadAdapter]
    """The adapters whose tools are listed; none if the policy excludes EXECUTE."""

    agis: AgisFace


def build_disclosure(services: HostServices, upstreams: Upstreams, negotiating: Negotiator) -> Disclosure:
    """Build the manifest, the Identity Documents, and the visibility of agents."""
    config, loaded, evidence = services.config, services.loaded, services.evidence
    visibility = Visibility.for_policies(config.policies, evidence.states.state_of, services.authorization)
    publication = Publication(
        config,
        catalog=loaded.catalog,
        policy=loaded.policy,
        endpoints=loaded.endpoints,
        built_ins=services.registry.built_in_bindings,
        adapters=upstreams.adapters,
        hosted=lambda: visibility.filter_offered(loaded.directory.list_hosted()),
        key=loaded.key,
        history=services.lasting.history,
        clock=services.reactor,
        versions_supported=loaded.catalogs.versions,
        # Contracts are known once the ledger has read them.
        negotiated=lambda: negotiating.persistent() if evidence.ledger.healthy else None,
        transports=services.lasting.transports.entries,
    )
    # The key may have been rotated since the host started.
    signer, public = (None, None) if loaded.key is None else (fastest_signer(loaded.key), loaded.key.public)
    # A method that the policy excludes is in no list.
    adapters = upstreams.adapters if loaded.policy.admits("EXECUTE") else ()
    return Disclosure(
        visibility=visibility,
        publication=publication,
        publisher=DocumentPublisher(config.host.server_id, signer, public),
        adapters=adapters,
        agis=AgisFace(
            partial(service_of, config, root_of(config), endpoints=loaded.endpoints),
            loaded.catalog,
            services.registry.admitted_bindings,
            adapters,
            loaded.directory,
            visibility,
            services.offload,
            version=publication.current_version,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Methods:
    """The built-in bindings, and the parts of them that the rest of the host needs."""

    bindings: tuple[Binding, ...]
    floor: Floor
    delegating: DelegationParts
    carrier: Carrier
    features: FeatureSet


def built_in_methods(
    services: HostServices,
    upstreams: Upstreams,
    shown: Disclosure,
    purchase: PurchaseFeature,
    negotiating: Negotiator,
    features: FeatureSet,
    bound: Sequence[Binding],
) -> Methods:
    """
    Build the methods, and register the targets of INSPECT.

    :param features: their bindings are among those of the host.
    :param bound: the operator's endpoints.
    """
    config, loaded, evidence = services.config, services.loaded, services.evidence
    carrier = Carrier()
    floor = _floor(services, shown, negotiating, bound)
    tasks = build_delegation(
        loaded,
        services.lasting.delegated,
        evidence,
        services.reactor,
        authorization=services.authorization,
        continuations=services.lasting.continuations,
        latest=services.latest,
    )
    candidates = _candidates(services, shown, purchase)
    own = bindings.built_ins(
        loaded.catalog,
        discover=_discovery(services, shown, purchase, negotiating, candidates),
        describe=_description(services, shown, floor),
        inspect=_inspection(services, upstreams, negotiating, tasks, floor),
        change=_lifecycle(services, services.lasting.propagation, negotiating),
        carrier=carrier,
        propose=Proposing(negotiating),
        floor=services.floor,
        carrying=bindings.carrying_assurance(config, bound, upstreams.adapters, services.floor),
    )
    return Methods(
        bindings=(
            *own,
            *a2a.bind_execute_at(own, *(f"/{adapter.name}/{{server}}" for adapter in upstreams.web.adapters)),
            *a2a.relay_bindings(own, config),
            *floor.bindings,
            *tasks.bindings,
            *purchase.built_in_bindings(loaded.catalog, bound, default_assurance(services.floor, changes=False)),
            *orchestration_bindings(services),
            *standard_methods(
                config.methods,
                lambda: _method_services(services, upstreams, shown, floor, candidates, features),
                bound,
                services.floor,
            ),
            *features.bindings,
            *granting_bindings(services, upstreams, negotiating),
            *configuration_bindings(services),
            *verification_bindings(services),
        ),
        floor=floor,
        delegating=tasks,
        carrier=carrier,
        features=features,
    )


def _floor(services: HostServices, shown: Disclosure, negotiating: Negotiator, bound: Sequence[Binding]) -> Floor:
    config, loaded, evidence = services.config, services.loaded, services.evidence
    return floor_methods(
        loaded.catalog,
        directory=loaded.directory,
        held=evidence.held,
        records=evidence.records,
        listed=services.registry.admitted_bindings,
        adapters=shown.adapters,
        endpoints=bound,
        library=Library(loaded.documents),
        offload=services.offload,
        authorization=services.authorization,
        approvals=services.lasting.approvals,
        visibility=shown.visibility,
        assurance=services.floor,
        release=negotiating.release_contract,
        now=services.seconds,
        continuations=services.lasting.continuations,
        hosts=config.lifecycle.hosts,
        address=own_address(config),
        states=evidence.states.state_of,
        sessions=services.lasting.sessions,
        suspensions=services.lasting.suspensions,
        workflows=Resumption(services.lasting.workflows).resume,
        cancel=cancelling(services.lasting.monitors),
    )


def _method_services(
    services: HostServices,
    upstreams: Upstreams,
    shown: Disclosure,
    floor: Floor,
    candidates: Candidates,
    features: FeatureSet,
) -> MethodServices:
    """Return the services that the standard methods use."""
    config, loaded, evidence = services.config, services.loaded, services.evidence
    return MethodServices(
        config=config,
        server_id=config.host.server_id,
        address=own_address(config),
        catalog=loaded.catalog,
        reactor=services.reactor,
        now=services.seconds,
        offload=services.offload,
        directory=loaded.directory,
        states=evidence.states.state_of,
        visibility=shown.visibility,
        listed=services.registry.admitted_bindings,
        find=services.registry.match,
        adapters=shown.adapters,
        upstreams=lambda: [entry for adapter in upstreams.reporting for entry in adapter.upstreams()],
        witnesses=features.witness_ages,
        library=Library(loaded.documents),
        candidates=candidates,
        search=services.registry.search,
        held=evidence.held,
        records=evidence.records,
        access=RecordAccess(ReadACL(config.audit.read_acl), services.authorization),
        ledger=evidence.ledger,
        key=loaded.key,
        signing_keys=loaded.signing_keys,
        collections=Collections(config.methods.collection, services.lasting.stocks, services.seconds),
        approvals=services.lasting.approvals,
        sessions=floor.sessions,
        suspensions=floor.suspensions,
        notification=floor.notification,
        workflows=services.lasting.workflows,
        monitors=services.lasting.monitors,
        recipes=loaded.recipes,
        confirmation=floor.confirmation,
        continuations=services.lasting.continuations,
        authorization=services.authorization,
    )


def _candidates(services: HostServices, shown: Disclosure, purchase: PurchaseFeature) -> Candidates:
    """Return the search for agents and endpoints that meet criteria."""
    loaded, catalog = services.loaded, services.loaded.catalog
    return Candidates(
        loaded.directory,
        services.registry.admitted_bindings,
        shown.adapters,
        services.registry.search,
        shown.visibility,
        categories=lambda method: entry.categories if (entry := catalog.entry(method)) is not None else (),
        continuations=services.lasting.continuations,
        merchants=purchase.manifest_of,
    )


def _discovery(
    services: HostServices,
    shown: Disclosure,
    purchase: PurchaseFeature,
    negotiating: Negotiator,
    candidates: Candidates,
) -> IBuiltInHandler:
    loaded, catalog = services.loaded, services.loaded.catalog
    return Discovery(
        loaded.directory,
        services.registry.admitted_bindings,
        shown.adapters,
        shown.publication,
        shown.visibility,
        apis=http_apis(services.config),
        candidates=candidates,
        overrides=Overrides(loaded.overrides),
        patterns=negotiating.patterns,
        contracts=negotiating.contracts,
        merchants=purchase.manifest_of,
        openapi=OpenAPIFace(
            services.config.host.server_id,
            catalog,
            loaded.policy.aliases,
            services.registry.admitted_bindings,
            shown.adapters,
            loaded.directory,
            shown.visibility,
            services.offload,
            version=shown.publication.current_version,
            stream=services.config.gateway.stream,
        ),
        face=shown.agis,
        offload=services.offload,
    )


def _description(services: HostServices, shown: Disclosure, floor: Floor) -> IBuiltInHandler:
    config, loaded, evidence = services.config, services.loaded, services.evidence
    namespace = Namespace(
        loaded.directory,
        evidence.states.state_of,
        loaded.key,
        org_domain=config.host.server_id,
        certificate_fingerprint=lambda: loaded.tls.fingerprint,
        now=times.stamp,
        agents_at=config.identity.redirect_to or "",
    )
    status = StatusDocuments(
        config.host.server_id,
        times.stamp,
        records=evidence.records,
        held=evidence.held,
        sessions=floor.sessions,
        authorization=services.authorization,
    )
    return Description(
        loaded.directory,
        services.registry.methods,
        shown.adapters,
        evidence.states.state_of,
        namespace,
        shown.publisher,
        status,
        services.offload,
        shown.visibility,
        services.registry.units,
        shown.agis,
    )


def _inspection(
    services: HostServices, upstreams: Upstreams, negotiating: Negotiator, tasks: DelegationParts, floor: Floor
) -> IBuiltInHandler:
    evidence, directory = services.evidence, services.loaded.directory
    listening, counts = services.lasting.listening, services.still_counts
    feed = RecordFeed(evidence.records, services.authorization, services.reactor, listening, counts)
    evidence.ledger.watch(feed.saw)
    reports = [adapter.upstreams for adapter in upstreams.reporting]
    offerings = [adapter.list_offered for adapter in upstreams.adapters]
    definitions = {adapter.name: adapter.definition for adapter in upstreams.reporting}
    described = Definitions(
        services.registry.admitted_bindings,
        services.loaded.endpoints,
        services.loaded.catalog,
        services.authorization,
    )
    services.registry.add_targets(
        {
            **tasks.targets,
            "upstreams": UpstreamReport(reports, services.authorization).read,
            "tools": ToolReport(offerings, services.authorization, services.lasting.continuations).read,
            "upstream-definition": UpstreamDefinition(definitions, services.authorization).read,
            TARGET: described.read,
            ALL: described.read_all,
            "contract": negotiating.contract,
            "rcns-attempt": negotiating.attempt,
            "records": Records(evidence.records, services.authorization, directory, services.seconds).read,
            "feed": feed.read,
            "backup": Backups(services.authorization).read,
            "chains": Chains(evidence.records, directory.list_hosted, services.authorization).read,
            "sessions": Sessions(
                floor.sessions,
                floor.suspensions,
                services.authorization,
                services.lasting.continuations,
                directory=directory,
                now=services.seconds,
            ).read,
            "agents": KnownAgents(
                directory.list_known,
                evidence.states.state_of,
                floor.sessions,
                services.authorization,
                services.lasting.continuations,
                statements=services.scopes,
                keys=_http_clients(services.config),
                now=services.seconds,
            ).read,
        }
    )
    return Inspection(
        evidence.records,
        ReadACL(services.config.audit.read_acl),
        services.authorization,
        lambda: evidence.tree.cosigned,
        services.lasting.continuations,
        more=services.registry.targets,
        write_first=evidence.summarizing.write,
        find_summary=evidence.summarizing.find_counted,
    )


def _http_clients(config: Config) -> dict[str, list[str]]:
    """Return the names of ``[[http.client]]`` entries by the agent that they call as."""
    found: dict[str, list[str]] = {}
    for client in config.http.client:
        found.setdefault(client.agent, []).append(client.name)
    return found


def _lifecycle(services: HostServices, propagation: NoticeQueue, negotiating: Negotiator) -> IBuiltInHandler:
    config, directory, evidence = services.config, services.loaded.directory, services.evidence
    held, states = evidence.held, evidence.states

    def find_reservation(agent: Agent) -> Mapping[str, Any] | None:
        kept = (item.value for item in held.items_by(retention.RETAINED, "label", agent.name))
        return retention.reserved_by(agent.name, agent.agent_id, kept, services.seconds())

    domains = Domains(
        held,
        directory.list_known,
        config.host.server_id,
        services.authorization,
        open=config.lifecycle.auth == LifecycleAuth.OPEN.value,
        now=services.seconds,
        notices=lambda agent: propagation.notices(agent.agent_id, states.state_of(agent).status.value),
    )
    return Lifecycle(
        directory,
        states.state_of,
        LifecycleAuth(config.lifecycle.auth),
        Ending(negotiating),
        follow_up(propagation, services.seconds),
        find_reservation,
        domains,
        services.authorization,
    )
