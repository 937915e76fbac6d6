"""Materials and reactor in, services out: what this host is made of."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.application.service import MultiService
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.adapters.a2a.fronted import front_bindings
from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.audit import retention
from agtphost.audit.drafts import Change
from agtphost.audit.held import HeldTable
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.summaries import Summaries
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import WitnessFile
from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.contract.table import EndpointTable
from agtphost.dispatch.attesting import AttestingSealer
from agtphost.dispatch.decision import Decider
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.order import Collaborators, gates
from agtphost.dispatch.refusals import RefusalRecords
from agtphost.dispatch.running import RunningCalls
from agtphost.dispatch.sealing import Sealer
from agtphost.errors import ConfigurationError, Problem
from agtphost.handlers.authorization import Authorization
from agtphost.host import a2a, a2a_front, bindings, bounds, delegation, upstreams
from agtphost.host.anchors import anchors
from agtphost.host.bootstrap import sidecar
from agtphost.host.certificate_notices import CertificateNotices
from agtphost.host.domains import DomainWatch
from agtphost.host.floor import floor_methods, state_changing_floor
from agtphost.host.handling import Workshop
from agtphost.host.listener import Announcement, listening_service
from agtphost.host.materials import Materials
from agtphost.host.merchant import Market
from agtphost.host.negotiation import negotiator
from agtphost.host.oauth import acting_principals
from agtphost.host.partings import Partings
from agtphost.host.propagation import Propagation
from agtphost.host.publication import Publication
from agtphost.host.refusals import Summarizing, refusal_limits
from agtphost.host.revision import Watch
from agtphost.host.rotation import Rotation
from agtphost.host.services import Keeping, OrderedServices
from agtphost.host.traces import traces
from agtphost.host.unmatched import unmatched
from agtphost.host.uptake import Uptake
from agtphost.host.witnesses import Witnesses, witnessing
from agtphost.identity.agents import Agent
from agtphost.identity.key_history import Succession, every_key
from agtphost.identity.keys import fastest_signer
from agtphost.methods.candidates import Candidates
from agtphost.methods.continuation import Continuations
from agtphost.methods.decisions import Decisions
from agtphost.methods.definitions import TARGET, Definitions
from agtphost.methods.description import Description
from agtphost.methods.discovery import Discovery
from agtphost.methods.documents import Library
from agtphost.methods.domains import Domains
from agtphost.methods.execution import ActionGate, Carrier
from agtphost.methods.inspection import Inspection, ReadACL
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.methods.namespace import Namespace
from agtphost.methods.notification import Addresses
from agtphost.methods.overrides import Overrides
from agtphost.methods.proposal import Ending, Proposing
from agtphost.methods.publishing import DocumentPublisher
from agtphost.methods.status_document import StatusDocuments
from agtphost.methods.upstreams import UpstreamReport
from agtphost.methods.visibility import Visibility
from agtphost.methods.zones import Zones
from agtphost.stores import MemoryStore, OffReactorRecords, SQLiteStore, open_store
from agtphost.stores.ballast import Ballast
from agtphost.vocabulary.holdings import ANSWERS
from agtphost.vocabulary.paths import PathGrammar

log = Logger()

Store = SQLiteStore | MemoryStore


def now() -> str:
    """The present time, RFC 3339 with seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def assemble(
    materials: Materials, reactor: Any, environ: Mapping[str, str], store: Store | None = None
) -> OrderedServices:
    """
    Build the host.

    Opens the store, so it is called once the process is the one that serves:
    a database connection must not live through the fork of a daemon.

    :param store: another one than the configuration names: a rehearsal's.
    :raises agtphost.stores.StoreError: the store cannot be opened.
    :raises agtphost.contract.table.AmbiguousEndpoints: two endpoints match one path equally well.
    """
    config = materials.config
    catalog, policy, directory = materials.catalog, materials.policy, materials.directory
    for remark in unmatched(materials):
        log.warn("{remark}", remark=remark)

    # Evidence: store, ledger, lifecycle states.
    if store is None:
        store = open_store(config.store.url, create=is_new(config))
    states = LifecycleTable()
    held = HeldTable()
    signer = None if materials.key is None else fastest_signer(materials.key)
    records = OffReactorRecords(store.reader(), partial(deferToThreadPool, reactor, reactor.getThreadPool()))
    # A cosignature comes in long after the ledger below was made.
    remote = Witnesses(reactor, config, materials.key, records, lambda size, line: ledger.cosign(size, line))
    tree = TreeKeeper(
        store,
        config.host.server_id,
        materials.key,
        (_witness(materials), *remote.witnesses),
        traces=() if config.host.development else traces(config),
    )
    ledger = Ledger(
        store,
        signer,
        reactor,
        server_id=config.host.server_id,
        lifecycle=states,
        held=held,
        events=config.audit.envelope,
        tree=tree,
        free_space_floor=config.store.free_space_floor,
        ballast=_ballast(config),
        answers=replace(
            ANSWERS,
            keys=config.limits.keyed_requests_per_agent,
            octets=config.limits.keyed_octets_per_agent,
            keys_in_all=config.limits.keyed_requests_in_all,
            octets_in_all=config.limits.keyed_octets_in_all,
        ),
    )

    # Operators, registrars, and the agents that stand in for them.
    authorization = Authorization(config.audit.operators, directory, state_changing_floor(config))

    # Upstreams, and what carries payloads to them.
    mcp = upstreams.mcp_adapter(
        reactor,
        config.mcp.server,
        environ,
        held=held,
        ledger=ledger,
        authorization=authorization,
        production=not config.host.development,
    )
    servers = tuple(mcp.servers.values())
    web = upstreams.web_upstreams(
        reactor,
        config,
        held=held,
        ledger=ledger,
        states=states,
        authorization=authorization,
    )
    upkeep = web.upkeep
    adapters = (mcp, *web.adapters)
    # Tasks of A2A clients that come from outside.
    fronted = a2a_front.fronted_tasks(config, held, ledger)
    carrier = Carrier()

    # The operator's endpoints.
    workshop = Workshop(reactor, config.endpoints.threads)
    # What merchants sell is bought and quoted under the rules of core v08 section 9.
    market = Market(
        config,
        held,
        states.state_of,
        materials.key,
        lambda method, path: table.match(method, path),
        lambda agent, state: publisher.octets(agent, state, tuple(bindings.methods_of(admitted()))),
    )
    bound = market.quoting(prepared.bind(workshop) for prepared in materials.bound)

    # Methods and endpoints. The lists show what is in `everything`, which is complete before the first request.
    everything: list[Binding] = []
    visibility = Visibility(
        states.state_of,
        Zones(config.policies.zones, filtering=config.policies.zone_filtering),
        disclosure=config.policies.agent_disclosure,
        authorization=authorization,
    )
    publication = Publication(
        config,
        catalog=catalog,
        policy=policy,
        endpoints=materials.endpoints,
        built_ins=everything,
        adapters=adapters,
        hosted=lambda: visibility.offered(directory.hosted()),
        key=materials.key,
        now=now,
        versions_supported=materials.catalogs.versions,
        # Contracts are known once the ledger has read them.
        negotiated=lambda: negotiating.persistent() if ledger.healthy else None,
    )
    namespace = Namespace(
        directory,
        states.state_of,
        materials.key,
        org_domain=config.host.server_id,
        certificate_fingerprint=_certificate_fingerprint(materials),
        now=now,
        agents_at=config.identity.redirect_to or "",
    )
    publisher = DocumentPublisher(
        config.host.server_id, signer, None if materials.key is None else materials.key.public
    )
    status = StatusDocuments(config.host.server_id, now)
    # A method that the policy shuts out is in no list.
    listed = adapters if policy.admits("EXECUTE") else ()

    def admitted() -> list[Binding]:
        return [binding for binding in (*everything, *bound) if policy.admits(binding.method)]

    # Contracts: held items that stand in for endpoints nobody registered.
    negotiating = negotiator(materials, held, lambda: (*everything, *bound), authorization, reactor)

    propagation = Propagation(reactor, config, held, records, lambda: ledger)

    def following(agent: Agent, status: LifecycleStatus, fields: Mapping[str, object]) -> tuple[Change, ...]:
        return (
            *propagation.notices(agent.agent_id, status.value),
            *retention.retained(agent, status, fields, time.time()),
        )

    domains = Domains(
        held,
        directory.known,
        config.host.server_id,
        authorization,
        open=config.lifecycle.auth == LifecycleAuth.OPEN.value,
        notices=lambda agent: propagation.notices(agent.agent_id, states.state_of(agent).status.value),
    )
    continuations = Continuations()
    inspection = Inspection(
        records, ReadACL(config.audit.read_acl), authorization, lambda: tree.cosigned, continuations
    )
    inspection.ask_first(lambda: summarizing.write())
    built_ins = bindings.built_ins(
        catalog,
        discover=Discovery(
            directory,
            admitted,
            listed,
            publication,
            visibility,
            apis=[entry.document() for entry in config.api],
            candidates=Candidates(
                directory,
                admitted,
                listed,
                partial(deferToThreadPool, reactor, reactor.getThreadPool()),
                visibility,
                categories=lambda method: entry.categories if (entry := catalog.entry(method)) is not None else (),
                continuations=continuations,
                merchants=market.manifest_of,
            ),
            overrides=Overrides(materials.overrides),
            patterns=negotiating.patterns,
            contracts=negotiating.contracts,
            merchants=market.manifest_of,
        ),
        describe=Description(
            directory,
            lambda: bindings.methods_of(admitted()),
            listed,
            states.state_of,
            namespace,
            publisher,
            status,
            partial(deferToThreadPool, reactor, reactor.getThreadPool()),
            visibility,
            lambda: bindings.units_of(admitted()),
        ),
        inspect=inspection,
        change=Lifecycle(
            directory,
            states.state_of,
            LifecycleAuth(config.lifecycle.auth),
            Ending(negotiating),
            following,
            lambda agent: retention.reserved_by(
                agent.name, agent.agent_id, held.by(retention.RETAINED, "label", agent.name), time.time()
            ),
            domains,
        ),
        carrier=carrier,
        propose=Proposing(negotiating),
    )
    floor = floor_methods(
        catalog,
        directory=directory,
        held=held,
        records=records,
        listed=admitted,
        adapters=listed,
        endpoints=bound,
        library=Library(materials.documents),
        aside=partial(deferToThreadPool, reactor, reactor.getThreadPool()),
        authorization=authorization,
        visibility=visibility,
        assurance=state_changing_floor(config),
        release=negotiating.release_contract,
        continuations=continuations,
        hosts=config.lifecycle.hosts,
        server_id=config.host.server_id,
        addresses=Addresses(people=config.notify.people, groups=config.notify.groups),
    )
    status.watch(records, held, floor.sessions, authorization)
    delegating = delegation.delegating(
        materials,
        held,
        states.state_of,
        reactor,
        ledger=ledger,
        authorization=authorization,
        inspection=inspection,
        continuations=continuations,
    )
    built_ins = (
        *built_ins,
        *a2a.carried_at(built_ins, *(f"/{adapter.name}/{{server}}" for adapter in web.adapters)),
        *floor.bindings,
        *(front_bindings(fronted) if fronted is not None else ()),
        *delegating.bindings,
        *witnessing(config, held, materials.key),
        *market.built_in(catalog, bound),
    )
    everything.extend(built_ins)
    table = EndpointTable((*built_ins, *bound))

    # The one way in and the one way out. Every response carries the version of what can be called here.
    sealer = _sealer(config, tuple(bindings.methods_of(admitted())), catalog.warnings)
    publication.announce_to(sealer.announce)
    principal, issuer_keys = acting_principals(reactor, config.policies.oauth)
    rate = bounds.rate_gate(config)
    order = gates(
        Collaborators(
            directory=directory,
            states=states.state_of,
            by_server_name=_server_names(materials),
            revocations=materials.tls.revocations,
            authorities=materials.tls.authorities,
            agents_at=config.identity.redirect_to or "",
            port=config.listen.port if config.listen.endpoint is None else 0,
            catalog=catalog,
            other_catalogs=materials.catalogs.others,
            custom_methods=policy.custom,
            grammar=PathGrammar({*catalog.methods, *policy.custom}),
            policy=policy,
            table=table,
            action=ActionGate(carrier, adapters, bound),
            principal=principal,
            rate=rate,
            bounds=(*bounds.bounds(config, bound), *delegating.gates),
            sessions=floor.gate,
            merchant=market.gate,
            ledger=ledger,
            negotiator=negotiating,
            yaml=config.wire.yaml,
            anonymous_discovery=config.policies.anonymous_discovery,
            floor=state_changing_floor(config),
            authorization=authorization,
        )
    )
    reports = [adapter.upstreams for adapter in adapters]
    inspection.offer("upstreams", UpstreamReport(reports, authorization).read, own_rules=True)
    definitions = Definitions(admitted, materials.endpoints, catalog)
    inspection.offer(TARGET, definitions.read, own_rules=True)
    inspection.offer("contract", negotiating.contract, own_rules=True)
    inspection.offer("rcns-attempt", negotiating.attempt, own_rules=True)
    inspection.offer("decision", Decisions(Decider(order).decide, directory, authorization), own_rules=True)
    running = RunningCalls(states.state_of, reactor)
    states.watch(running.changed)
    states.watch(floor.sessions.changed)
    # The manifest names those agents alone that can be called.
    states.watch(lambda agent_id, state: publication.renew())
    summaries = Summaries()
    summarizing = Summarizing(reactor, summaries, ledger, config.audit.refusal_summary_seconds)
    refusals = RefusalRecords(refusal_limits(config), summaries, ledger, rate)
    dispatcher = Dispatcher(order, ledger, sealer, reactor, config.limits.request_timeout, running, refusals)

    # Started in this order, stopped in the reverse: no connection outlives its ledger.
    host = OrderedServices()  # type: ignore[no-untyped-call]
    Keeping(ledger).setServiceParent(host)  # type: ignore[no-untyped-call]
    summarizing.setServiceParent(host)  # type: ignore[no-untyped-call]
    Partings(reactor, negotiating, ledger).setServiceParent(host)  # type: ignore[no-untyped-call]
    propagation.setServiceParent(host)  # type: ignore[no-untyped-call]
    withdrawn = CertificateNotices(
        reactor, config, held, directory, states.state_of, materials.tls.revocations, propagation, ledger
    )
    states.watch(withdrawn.changed)
    withdrawn.setServiceParent(host)  # type: ignore[no-untyped-call]
    watch = DomainWatch(
        reactor, held, directory, states.state_of, ledger, following, config.host.server_id, publication.renew
    )

    def known() -> None:
        publication.renew()
        watch.look()

    Uptake(directory, states, held, ledger, known).setServiceParent(host)  # type: ignore[no-untyped-call]
    watch.setServiceParent(host)  # type: ignore[no-untyped-call]
    remote.setServiceParent(host)  # type: ignore[no-untyped-call]
    for keys in issuer_keys:
        keys.setServiceParent(host)  # type: ignore[no-untyped-call]
    for anchor in anchors(reactor, config, directory):
        anchor.setServiceParent(host)  # type: ignore[no-untyped-call]
    workshop.setServiceParent(host)  # type: ignore[no-untyped-call]
    # These stop together: a server that is deaf to SIGTERM takes seconds, and there may be many.
    upstreaming = MultiService()  # type: ignore[no-untyped-call]
    upstreaming.setServiceParent(host)  # type: ignore[no-untyped-call]
    for server in (*servers, *upkeep, *web.endings):
        server.setServiceParent(upstreaming)  # type: ignore[no-untyped-call]
    delegating.service.setServiceParent(host)  # type: ignore[no-untyped-call]

    def rotated(_: Succession) -> None:
        assert materials.key is not None
        publisher.adopt(fastest_signer(materials.key), materials.key.public)
        publication.renew()

    Rotation(reactor, config, materials.tls, materials.key, ledger, rotated).setServiceParent(host)  # type: ignore[no-untyped-call]
    Watch(reactor, publication.refresh).setServiceParent(host)  # type: ignore[no-untyped-call]
    if config.wellknown.listen is not None:
        sidecar(reactor, config, config.wellknown.listen).setServiceParent(host)  # type: ignore[no-untyped-call]
    front = a2a_front.a2a_front(
        reactor, config, directory, dispatcher, materials.key, fronted, principal, visibility.offered
    )
    if front is not None:
        front.setServiceParent(host)  # type: ignore[no-untyped-call]
    listening = listening_service(reactor, config, materials.tls, dispatcher)
    listening.setServiceParent(host)  # type: ignore[no-untyped-call]
    upstreamed: tuple[Any, ...] = (*servers, *upkeep)
    Announcement(reactor, listening, upstreamed, _summary(materials, (mcp,))).setServiceParent(host)  # type: ignore[no-untyped-call]
    return host


def _sealer(config: Config, methods: tuple[str, ...], warnings: Mapping[str, str]) -> Sealer:
    """One that attests, where there is evidence."""
    given, server_id, floor = config.attestation, config.host.server_id, state_changing_floor(config)
    if given.type is None or given.evidence is None:
        return Sealer(server_id, methods, warnings, floor=floor)
    return AttestingSealer(server_id, methods, warnings, kind=given.type, evidence=given.evidence, floor=floor)


def _ballast(config: Config) -> Ballast:
    """Beside the database: what is given back there helps there."""
    octets = config.store.free_space_reserve
    if octets is None:
        octets = 0 if config.host.development else 16 * 1024 * 1024
    database = config.store.path
    return Ballast(database.with_name(f"{database.name}.reserve"), octets)


def is_new(config: Config) -> bool:
    """Whether this host never ran before: only then is a store made. A missing one later is a fault."""
    return config.host.development or not traces(config)


def _witness(materials: Materials) -> WitnessFile:
    audit, state = materials.config.audit, materials.config.host.state_dir
    if not audit.witnesses and audit.witness.resolve().is_relative_to(state.resolve()):
        log.warn(
            "the witness file {file} lies in the state directory, and no other host witnesses the log: whoever brings "
            "back an older state directory brings back the file with it, and nobody notices; put [audit] witness on "
            "another disk, or name [audit] witnesses",
            file=str(audit.witness),
        )
    keys = () if materials.key is None else every_key(materials.key)
    return WitnessFile(audit.witness, keys)


def _server_names(materials: Materials) -> Mapping[str, str]:
    """
    Which hosted agent a name asked for by SNI stands for.

    :raises agtphost.errors.ConfigurationError: it is none of this host's.
    """
    config = materials.config
    wrong = [
        Problem(
            message=f"[identity] server_names: {name} stands for {label}, and no hosted agent has that label",
            file=str(config.file),
            hint="`agtp agent ls` lists them",
        )
        for name, label in config.identity.server_names.items()
        if materials.directory.by_name(label) is None
    ]
    if wrong:
        raise ConfigurationError(wrong)
    return config.identity.server_names


def _certificate_fingerprint(materials: Materials) -> str:
    certificate = x509.load_pem_x509_certificate(materials.config.tls.certificate.read_bytes())
    return sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def _summary(materials: Materials, adapters: tuple[McpAdapter, ...]) -> Any:
    """What the ready line counts; asked for when it is written."""

    def summary() -> Mapping[str, object]:
        return {
            "server_id": materials.config.host.server_id,
            "agents": len(materials.directory.hosted()),
            "endpoints": len(materials.bound),
            "tools": sum(len(adapter.tools()) for adapter in adapters),
        }

    return summary
