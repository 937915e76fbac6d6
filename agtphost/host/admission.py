"""Gates, dispatcher and sealer: every request enters and every answer leaves here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.presence import public_authority
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import EndpointTable
from agtphost.contract.prices import PriceList
from agtphost.dispatch.agent_paths import Authority
from agtphost.dispatch.attesting_sealer import AttestingSealer
from agtphost.dispatch.decision import Decider, Objecting
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.failed_calls import failure_changes
from agtphost.dispatch.gate_order import Collaborators, gates
from agtphost.dispatch.gates.action import ActionGate
from agtphost.dispatch.gates.authorization_token import GrantedGate
from agtphost.dispatch.gates.limits import RateGate
from agtphost.dispatch.gates.plugin import OperatorGate, place_gates
from agtphost.dispatch.gates.principal import ActingPrincipalGate
from agtphost.dispatch.gates.procedure import GrantingGate, ProcedureGate
from agtphost.dispatch.refusals import RefusalRecords
from agtphost.dispatch.rule_source import RuleSource
from agtphost.dispatch.scope_dimensions import BudgetGate, ScopeDimensionGate
from agtphost.dispatch.sealer import Sealer
from agtphost.dispatch.tracing import Tracer
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.features import FeatureSet
from agtphost.host.host_loader import LoadedHost
from agtphost.host.methods import Methods
from agtphost.host.oauth import Credentials, IssuerKeys
from agtphost.host.services import HostServices
from agtphost.host.summary_writer import refusal_limits
from agtphost.host.upstreams import Upstreams
from agtphost.iagtp import IGate, IOperatorGate
from agtphost.methods.discovery.visibility import disclosed_documents
from agtphost.methods.inspection.call_targets import Running
from agtphost.methods.inspection.decisions import Decisions
from agtphost.methods.purchase import PurchaseFeature
from agtphost.negotiation.negotiator import Negotiator
from agtphost.vocabulary.paths import PathGrammar
from agtphost.vocabulary.tomltext import Location


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The parts that every request passes."""

    gates: Sequence[IGate]
    """Gates in the order in which a request passes them."""

    dispatcher: Dispatcher
    objection: Objecting
    """Return why a request would be refused now, before its handler runs."""

    sealer: Sealer
    principals: Credentials

    @property
    def principal(self) -> ActingPrincipalGate | None:
        """Return the gate that checks tokens of identity providers, or None where none are trusted."""
        return self.principals.gate

    @property
    def issuer_keys(self) -> Sequence[IssuerKeys]:
        """Return the services that refresh the keys of these providers."""
        return self.principals.keys


def build_admission(
    services: HostServices,
    table: EndpointTable,
    methods: Methods,
    upstreams: Upstreams,
    purchase: PurchaseFeature,
    negotiating: Negotiator,
    bound: Sequence[Binding],
    prices: PriceList,
) -> Admission:
    """
    Put the gates in order and build the dispatcher behind them.

    :param table: everything that can be called.
    :param bound: the operator's endpoints.
    :param prices: the operator's price estimates.
    :raises agtphost.errors.ConfigurationError: a server name belongs to no hosted agent.
    """
    config, loaded, evidence = services.config, services.loaded, services.evidence
    catalog, policy, lasting = loaded.catalog, loaded.policy, services.lasting
    principals = lasting.principals.credentials_for(config.policies.oauth)
    rate = RateGate(config.limits, counted=lasting.allowances, floor=services.floor)
    narrowing_of = services.rights.narrowing_of
    order = gates(
        Collaborators(
            directory=loaded.directory,
            states=evidence.states.state_of,
            by_server_name=_server_names(loaded),
            revocations=loaded.tls.revocations,
            authorities=loaded.tls.authorities,
            agents_at=config.identity.redirect_to or "",
            own=Authority(*public_authority(config)),
            catalog=catalog,
            other_catalogs=loaded.catalogs.others,
            custom_methods=policy.custom,
            grammar=PathGrammar({*catalog.methods, *policy.custom}),
            policy=policy,
            table=table,
            granted=GrantedGate(
                evidence.held, loaded.directory, evidence.states.state_of, narrowing_of, services.seconds
            ),
            action=ActionGate(methods.carrier, upstreams.adapters, bound, services.floor),
            principal=principals.gate,
            rate=rate,
            bounds=(*bound_gates(config, bound, prices), *methods.delegating.gates, *_procedure_gates(table, services)),
            sessions=methods.floor.gate,
            merchant=purchase.gate,
            ledger=evidence.ledger,
            is_fresh=evidence.is_fresh,
            negotiator=negotiating,
            discloses=disclosed_documents(config.policies.agent_disclosure, services.authorization),
            yaml=config.wire.yaml,
            offload=services.offload,
            anonymous_discovery=config.policies.anonymous_discovery,
            floor=services.floor,
            authorization=services.authorization,
            approvals=services.lasting.approvals,
            narrowings=narrowing_of,
            listening=lasting.listening,
        )
    )
    order = _place_operator_gates(services, order, methods.features)
    # Decisions ask these same gates, so they cannot differ from calls (design decision 14).
    ruling, decider = RuleSource(config), Decider(order, services.latest)
    asked = (decider.decide, loaded.directory, services.authorization, ruling)
    services.registry.add_targets(
        {"decision": Decisions(*asked, find_tool=upstreams.find_tool, find_action=upstreams.find_action)}
    )
    sealer = _sealer(services, catalog.warnings, ruling)
    services.registry.add_targets(
        {"running": Running(services.lasting.running.list, services.authorization, services.latest).read}
    )
    return Admission(
        gates=order,
        dispatcher=_dispatcher(services, order, sealer, rate, methods.features.tracer),
        objection=decider.objection,
        sealer=sealer,
        principals=principals,
    )


def _dispatcher(
    services: HostServices, order: Sequence[IGate], sealer: Sealer, rate: RateGate, tracer: Tracer | None
) -> Dispatcher:
    """Return the dispatcher behind the gates."""
    evidence = services.evidence
    records = RefusalRecords(
        refusal_limits(services.config),
        evidence.summaries,
        evidence.ledger,
        rate,
        counted=services.lasting.allowances,
    )
    return Dispatcher(
        order,
        evidence.ledger,
        sealer,
        services.reactor,
        services.config.limits.request_timeout,
        services.lasting.running,
        records,
        approvals=services.lasting.approvals,
        tracer=tracer,
        offload=services.offload,
        now=services.latest,
        compute=services.lasting.compute,
        rest_always=not services.loaded.volatile,
    )


def _procedure_gates(table: EndpointTable, services: HostServices) -> Sequence[IGate]:
    """
    Return the gate for RUN, and the one for an operator's AUTHORIZE that replaces the built-in, where they are bound.
    """
    found: list[IGate] = []
    if any(binding.method == "RUN" for binding in table.bindings):
        found.append(ProcedureGate(services.evidence.held, services.reactor))
    if any(binding.method == "AUTHORIZE" and binding.table is not None for binding in table.bindings):
        found.append(GrantingGate())
    return found


def bound_gates(config: Config, endpoints: Iterable[Binding], prices: PriceList) -> Sequence[IGate]:
    """
    Return the gates for scope dimensions and budgets, where the configuration gives them something to check.

    :param prices: the operator's price estimates.
    """
    rules = config.policies.scope_dimensions
    found: list[IGate] = [ScopeDimensionGate(rules)] if rules else []
    if prices or any(binding.cost is not None for binding in endpoints):
        found.append(BudgetGate(prices))
    return found


def _place_operator_gates(services: HostServices, order: Sequence[IGate], features: FeatureSet) -> Sequence[IGate]:
    """
    Return the gates of the host with those of plugins and features in their places.

    :raises agtphost.errors.ConfigurationError: a gate names a place that it cannot take.
    """
    seconds, faults = services.config.limits.request_timeout, []
    placed: list[tuple[Location, str, IOperatorGate]] = [
        (("gate", at, "after"), section.after, gate) for at, (section, gate) in enumerate(services.loaded.plugins.gates)
    ]
    for location, made in features.contributions.items():
        placed += [(location, each.after, each.gate) for each in made.gates]
    for location, after, gate in placed:
        try:
            order = place_gates(order, [(after, OperatorGate(gate, services.reactor, seconds))])
        except ValueError as error:
            what = "cannot be" if location[0] == "gate" else "has a gate at a place that cannot be"
            faults.append(ConfigFault(location=location, message=f"{what}: {error}"))
    if faults:
        raise ConfigurationError(problems_in(services.config.file, faults))
    return order


def _sealer(services: HostServices, warnings: Mapping[str, str], ruling: RuleSource) -> Sealer:
    """Return a sealer, which attests answers if evidence is configured."""
    given, server_id, methods = (
        services.config.attestation,
        services.config.host.server_id,
        tuple(services.registry.methods()),
    )
    operators = services.authorization.operators
    kept = failure_changes if "RETRY" in methods else None
    if given.type is None or given.evidence is None:
        return Sealer(
            server_id, methods, warnings, floor=services.floor, ruling=ruling, failed=kept, operators=operators
        )
    return AttestingSealer(
        server_id,
        methods,
        warnings,
        kind=given.type,
        evidence=given.evidence,
        floor=services.floor,
        ruling=ruling,
        failed=kept,
        operators=operators,
    )


def _server_names(loaded: LoadedHost) -> Mapping[str, str]:
    """
    Return the labels of hosted agents by the server names (SNI) that lead to them.

    :raises agtphost.errors.ConfigurationError: a label is not that of a hosted agent.
    """
    config = loaded.config
    wrong = [
        Problem(
            message=f"[identity] server_names: {name} = {label!r}, but no hosted agent has that label",
            file=str(config.file),
            hint="`agtp agent ls` lists them",
        )
        for name, label in config.identity.server_names.items()
        # The name of an agent that is left out leads to no other one.
        if loaded.directory.by_name(label) is None and label not in loaded.left_out
    ]
    if wrong:
        raise ConfigurationError(wrong)
    return config.identity.server_names
