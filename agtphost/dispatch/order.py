"""
The order of the gates, as data: design decision 6, security.md invariant 6.

Each gate may rely on what the gates above it proved. A test fails each gate
with all later ones mined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agtphost.contract.policy import MethodPolicy
from agtphost.contract.table import EndpointTable
from agtphost.dispatch import contract_gates, identity_gates
from agtphost.iagtp import IAgentDirectory, IGate, ILedger
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import PathGrammar


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What the gates consult."""

    directory: IAgentDirectory
    states: identity_gates.States
    by_server_name: Mapping[str, str]
    catalog: Catalog
    custom_methods: Collection[str]
    grammar: PathGrammar
    policy: MethodPolicy
    table: EndpointTable
    action: IGate
    ledger: ILedger


def gates(given: Collaborators) -> Sequence[IGate]:
    """Every gate, first to last. After the last comes the handler."""
    return (
        identity_gates.FramingGate(),
        identity_gates.ConnectionGate(),
        identity_gates.CallerGate(given.directory, given.states),
        identity_gates.AddresseeGate(given.directory, given.states, given.by_server_name),
        contract_gates.ReservedHeadersGate(),
        contract_gates.AliasGate(given.policy),
        contract_gates.CatalogGate(given.catalog, given.custom_methods),
        contract_gates.PathGate(given.grammar),
        contract_gates.PolicyGate(given.policy, given.table),
        contract_gates.BodyGate(),
        contract_gates.EndpointGate(given.table, given.policy),
        contract_gates.AnonymousGate(),
        given.action,
        contract_gates.ClaimedScopesGate(),
        contract_gates.AuthorityGate(),
        contract_gates.SchemaGate(),
        contract_gates.IdempotencyGate(given.ledger),
        contract_gates.StoreGate(given.ledger),
    )
