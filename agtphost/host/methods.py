"""Build the protocol's own methods on this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agtphost.adapters.a2a.front_tasks import front_bindings
from agtphost.audit import retention
from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.config import Config
from agtphost.config.presence import http_apis, own_address
from agtphost.contract.binding import Binding
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.host import a2a, bindings
from agtphost.host.agis import root_of, service_of
from agtphost.host.card_calls import server_bindings
from agtphost.host.cards import cards_of
from agtphost.host.configuration_bindings import configuration_bindings
from agtphost.host.delegation import DelegationParts, build_delegation
from agtphost.host.domains import FollowUp
from agtphost.host.floor import Floor, floor_methods
from agtphost.host.grant_bindings import granting_bindings
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.merchant import PurchaseFeature
from agtphost.host.notice_queue import NoticeQueue
from agtphost.host.orchestration import orchestration_bindings
from agtphost.host.page import page_access, page_bindings, register_targets
from agtphost.host.publication import Publication
from agtphost.host.services import HostServices
from agtphost.host.standard import standard_methods
from agtphost.host.upstreams import Upstreams
from agtphost.host.verifications import verification_bindings
from agtphost.host.witnesses import witness_bindings
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.keys import fastest_signer
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods.cognitive.documents import Library
from agtphost.methods.discovery.agis import AgisFace
from agtphost.methods.discovery.candidates import Candidates
from agtphost.methods.discovery.description import Description
from agtphost.methods.discovery.discover import Discovery
from agtphost.methods.discovery.namespace import Namespace
from agtphost.methods.discovery.openapi import OpenAPIFace
from agtphost.methods.discovery.publication import DocumentPublisher
from agtphost.methods.discovery.status_document import StatusDocuments
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.discovery.zones import Zones
from agtphost.methods.domains import Domains
from agtphost.methods.execution import Carrier
from agtphost.methods.inspection.access import ReadACL, RecordAccess
from agtphost.methods.inspection.agents import Chains, KnownAgents
from agtphost.methods.inspection.backups import Backups
from agtphost.methods.inspection.call_targets import Records
from agtphost.methods.inspection.definitions import TARGET, Definitions
from agtphost.methods.inspection.feed import RecordFeed
from agtphost.methods.inspection.inspect import Inspection
from agtphost.methods.inspection.sessions import Sessions
from agtphost.methods.inspection.tools import ToolReport
from agtphost.methods.inspection.upstreams import UpstreamDefinition, UpstreamReport
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.methods.overrides import Overrides
from agtphost.methods.page import PageAccess
from agtphost.methods.proposal import Ending, Proposing
from agtphost.methods.standard.collections.store import Collections
from agtphost.methods.standard.orchestration.monitor_methods import cancelling
from agtphost.methods.standard.orchestration.pause import Resumption
from agtphost.methods.standard.services import MethodServices
from agtphost.negotiation.negotiator import Negotiator
from agtphost.registry.catalogue import Cards
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


def build_disclosure(on: HostServices, upstreams: Upstreams, negotiating: Negotiator) -> Disclosure:
    """Build the manifest, the Identity Documents, and the visibility of agents."""
    config, loaded, evidence = on.config, on.loaded, on.evidence
    visibility = Visibility(
        evidence.states.state_of,
        Zones(config.policies.zones, filtering=config.policies.zone_filtering),
        disclosure=config.policies.agent_disclosure,
        authorization=on.authorization,
    )
    publication = Publication(
        config,
        catalog=loaded.catalog,
        policy=loaded.policy,
        endpoints=loaded.endpoints,
        built_ins=on.registry.built_in_bindings,
        adapters=upstreams.adapters,
        hosted=lambda: visibility.filter_offered(loaded.directory.list_hosted()),
        key=loaded.key,
        history=on.lasting.history,
        clock=on.reactor,
        versions_supported=loaded.catalogs.versions,
        # Contracts are known once the ledger has read them.
        negotiated=lambda: negotiating.persistent() if evidence.ledger.healthy else None,
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
            *(loaded.catalog, on.registry.admitted_bindings, adapters, loaded.directory, visibility, on.offload),
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
    access: PageAccess | None
    """The methods about the page; None without a page."""

    cards: Cards | None = None
    """The registry of cards; None without one."""


def built_in_methods(
    on: HostServices,
    upstreams: Upstreams,
    shown: Disclosure,
    purchase: PurchaseFeature,
    negotiating: Negotiator,
    bound: Sequence[Binding],
    factory: HandlerFactory,
) -> Methods:
    """
    Build the methods, and register the targets of INSPECT.

    :param bound: the operator's endpoints.
    :param factory: makes clients of agents elsewhere.
    """
    config, loaded, evidence = on.config, on.loaded, on.evidence
    carrier = Carrier()
    floor = _floor(on, shown, negotiating, bound)
    tasks = build_delegation(
        loaded,
        on.lasting.delegated,
        evidence.held,
        evidence.states.state_of,
        on.reactor,
        ledger=evidence.ledger,
        authorization=on.authorization,
        continuations=on.lasting.continuations,
        latest=on.latest,
    )
    fronted = on.lasting.front_tasks
    access = page_access(on)
    register_targets(on)
    cards, of_cards = cards_of(on, shown.visibility, bound, shown.adapters, factory)
    candidates = _candidates(on, shown, purchase)
    own = bindings.built_ins(
        loaded.catalog,
        discover=_discovery(on, shown, purchase, negotiating, candidates),
        describe=_description(on, shown, floor),
        inspect=_inspection(on, upstreams, negotiating, tasks, floor),
        change=_lifecycle(on, on.lasting.propagation, negotiating),
        carrier=carrier,
        propose=Proposing(negotiating),
        floor=on.floor,
        carrying=bindings.carrying_assurance(config, bound, upstreams.adapters, on.floor),
    )
    return Methods(
        bindings=(
            *own,
            *a2a.bind_execute_at(own, *(f"/{adapter.name}/{{server}}" for adapter in upstreams.web.adapters)),
            *a2a.relay_bindings(own, config),
            *floor.bindings,
            *(front_bindings(fronted) if fronted is not None else ()),
            *tasks.bindings,
            *witness_bindings(config, evidence.held, loaded.key, on.seconds),
            *purchase.built_in_bindings(loaded.catalog, bound, default_assurance(on.floor, changes=False)),
            *orchestration_bindings(on),
            *standard_methods(
                config.methods, lambda: _method_services(on, upstreams, shown, floor, candidates), bound, on.floor
            ),
            *page_bindings(access),
            *granting_bindings(on, upstreams, negotiating),
            *configuration_bindings(on),
            *verification_bindings(on),
            *of_cards,
            *(server_bindings(on, upstreams.mcp) if cards is not None else ()),
        ),
        floor=floor,
        delegating=tasks,
        carrier=carrier,
        access=access,
        cards=cards,
    )


def _floor(on: HostServices, shown: Disclosure, negotiating: Negotiator, bound: Sequence[Binding]) -> Floor:
    config, loaded, evidence = on.config, on.loaded, on.evidence
    return floor_methods(
        loaded.catalog,
        directory=loaded.directory,
        held=evidence.held,
        records=evidence.records,
        listed=on.registry.admitted_bindings,
        adapters=shown.adapters,
        endpoints=bound,
        library=Library(loaded.documents),
        offload=on.offload,
        authorization=on.authorization,
        approvals=on.lasting.approvals,
        visibility=shown.visibility,
        assurance=on.floor,
        release=negotiating.release_contract,
        now=on.seconds,
        continuations=on.lasting.continuations,
        hosts=config.lifecycle.hosts,
        address=own_address(config),
        states=evidence.states.state_of,
        sessions=on.lasting.sessions,
        suspensions=on.lasting.suspensions,
        workflows=Resumption(on.lasting.workflows).resume,
        cancel=cancelling(on.lasting.monitors),
    )


def _method_services(
    on: HostServices, upstreams: Upstreams, shown: Disclosure, floor: Floor, candidates: Candidates
) -> MethodServices:
    """Return the services that the standard methods use."""
    config, loaded, evidence = on.config, on.loaded, on.evidence
    return MethodServices(
        config=config,
        server_id=config.host.server_id,
        address=own_address(config),
        catalog=loaded.catalog,
        reactor=on.reactor,
        now=on.seconds,
        offload=on.offload,
        directory=loaded.directory,
        states=evidence.states.state_of,
        visibility=shown.visibility,
        listed=on.registry.admitted_bindings,
        find=on.registry.match,
        adapters=shown.adapters,
        upstreams=lambda: [entry for adapter in upstreams.reporting for entry in adapter.upstreams()],
        witnesses=lambda: {each.name: each.age for each in evidence.witnesses.witnesses},
        library=Library(loaded.documents),
        candidates=candidates,
        search=on.lasting.searching.engine_for(config, loaded.model, volatile=loaded.volatile),
        held=evidence.held,
        records=evidence.records,
        access=RecordAccess(ReadACL(config.audit.read_acl), on.authorization),
        ledger=evidence.ledger,
        key=loaded.key,
        signing_keys=loaded.signing_keys,
        collections=Collections(config.methods.collection, on.lasting.stocks, on.seconds),
        approvals=on.lasting.approvals,
        sessions=floor.sessions,
        suspensions=floor.suspensions,
        notification=floor.notification,
        workflows=on.lasting.workflows,
        monitors=on.lasting.monitors,
        recipes=loaded.recipes,
        confirmation=floor.confirmation,
        continuations=on.lasting.continuations,
        authorization=on.authorization,
    )


def _candidates(on: HostServices, shown: Disclosure, purchase: PurchaseFeature) -> Candidates:
    """Return the search for agents and endpoints that meet criteria."""
    loaded, catalog = on.loaded, on.loaded.catalog
    return Candidates(
        loaded.directory,
        on.registry.admitted_bindings,
        shown.adapters,
        on.lasting.searching.engine_for(on.config, loaded.model, volatile=loaded.volatile),
        shown.visibility,
        categories=lambda method: entry.categories if (entry := catalog.entry(method)) is not None else (),
        continuations=on.lasting.continuations,
        merchants=purchase.manifest_of,
    )


def _discovery(
    on: HostServices,
    shown: Disclosure,
    purchase: PurchaseFeature,
    negotiating: Negotiator,
    candidates: Candidates,
) -> IBuiltInHandler:
    loaded, catalog = on.loaded, on.loaded.catalog
    return Discovery(
        loaded.directory,
        on.registry.admitted_bindings,
        shown.adapters,
        shown.publication,
        shown.visibility,
        apis=http_apis(on.config),
        candidates=candidates,
        overrides=Overrides(loaded.overrides),
        patterns=negotiating.patterns,
        contracts=negotiating.contracts,
        merchants=purchase.manifest_of,
        openapi=OpenAPIFace(
            *(on.config.host.server_id, catalog, loaded.policy.aliases, on.registry.admitted_bindings, shown.adapters),
            *(loaded.directory, shown.visibility, on.offload),
            version=shown.publication.current_version,
            stream=on.config.gateway.stream,
        ),
        face=shown.agis,
        offload=on.offload,
    )


def _description(on: HostServices, shown: Disclosure, floor: Floor) -> IBuiltInHandler:
    config, loaded, evidence = on.config, on.loaded, on.evidence
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
        authorization=on.authorization,
    )
    return Description(
        loaded.directory,
        on.registry.methods,
        shown.adapters,
        evidence.states.state_of,
        namespace,
        shown.publisher,
        status,
        on.offload,
        shown.visibility,
        on.registry.units,
        shown.agis,
    )


def _inspection(
    on: HostServices, upstreams: Upstreams, negotiating: Negotiator, tasks: DelegationParts, floor: Floor
) -> IBuiltInHandler:
    evidence, directory = on.evidence, on.loaded.directory
    feed = RecordFeed(evidence.records, on.authorization, on.reactor)
    evidence.ledger.watch(feed.saw)
    reports = [adapter.upstreams for adapter in upstreams.reporting]
    offerings = [adapter.list_offered for adapter in upstreams.reporting]
    definitions = {adapter.name: adapter.definition for adapter in upstreams.reporting}
    on.registry.add_targets(
        {
            **tasks.targets,
            "upstreams": UpstreamReport(reports, on.authorization).read,
            "tools": ToolReport(offerings, on.authorization, on.lasting.continuations).read,
            "upstream-definition": UpstreamDefinition(definitions, on.authorization).read,
            TARGET: Definitions(
                on.registry.admitted_bindings, on.loaded.endpoints, on.loaded.catalog, on.authorization
            ).read,
            "contract": negotiating.contract,
            "rcns-attempt": negotiating.attempt,
            "records": Records(evidence.records, on.authorization, directory).read,
            "feed": feed.read,
            "backup": Backups(on.authorization).read,
            "chains": Chains(evidence.records, directory.list_hosted, on.authorization).read,
            "sessions": Sessions(
                *(floor.sessions, floor.suspensions, on.authorization, on.lasting.continuations), now=on.seconds
            ).read,
            "agents": KnownAgents(
                *(
                    directory.list_known,
                    evidence.states.state_of,
                    floor.sessions,
                    on.authorization,
                    on.lasting.continuations,
                ),
                keys=_http_clients(on.config),
                now=on.seconds,
            ).read,
        }
    )
    return Inspection(
        evidence.records,
        ReadACL(on.config.audit.read_acl),
        on.authorization,
        lambda: evidence.tree.cosigned,
        on.lasting.continuations,
        more=on.registry.targets,
        write_first=evidence.summarizing.write,
    )


def _http_clients(config: Config) -> dict[str, list[str]]:
    """Return the names of ``[[http.client]]`` entries by the agent that they call as."""
    found: dict[str, list[str]] = {}
    for client in config.http.client:
        found.setdefault(client.agent, []).append(client.name)
    return found


def follow_up(propagation: NoticeQueue, now: Callable[[], float]) -> FollowUp:
    """Return a function that gives the changes to commit with a lifecycle transition: notices, and retained data."""

    def changes(agent: Agent, status: LifecycleStatus, fields: Mapping[str, object]) -> tuple[Change, ...]:
        return (
            *propagation.notices(agent.agent_id, status.value),
            *retention.retention_changes(agent, status, fields, now()),
        )

    return changes


def _lifecycle(on: HostServices, propagation: NoticeQueue, negotiating: Negotiator) -> IBuiltInHandler:
    config, directory, evidence = on.config, on.loaded.directory, on.evidence
    held, states = evidence.held, evidence.states

    def find_reservation(agent: Agent) -> Mapping[str, Any] | None:
        kept = held.items_by(retention.RETAINED, "label", agent.name)
        return retention.reserved_by(agent.name, agent.agent_id, kept, on.seconds())

    domains = Domains(
        held,
        directory.list_known,
        config.host.server_id,
        on.authorization,
        open=config.lifecycle.auth == LifecycleAuth.OPEN.value,
        now=on.seconds,
        notices=lambda agent: propagation.notices(agent.agent_id, states.state_of(agent).status.value),
    )
    return Lifecycle(
        directory,
        states.state_of,
        LifecycleAuth(config.lifecycle.auth),
        Ending(negotiating),
        follow_up(propagation, on.seconds),
        find_reservation,
        domains,
    )
