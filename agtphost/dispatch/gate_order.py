"""
The order of the gates, as data: design decision 6, security invariant 6.

Each gate may rely on what the gates above it proved. A test fails each gate
with all later ones mined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agtphost.audit.interfaces import ILedger
from agtphost.contract.endpoint_table import EndpointTable
from agtphost.contract.policy import MethodPolicy
from agtphost.dispatch.agent_paths import NOWHERE, Authority
from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.gates import authority, body, endpoint, identity, method
from agtphost.dispatch.gates.approval import ApprovalGate
from agtphost.dispatch.gates.discovery import DiscoveryGate
from agtphost.dispatch.gates.idempotency import IdempotencyGate, LeasedStoreGate, StoreGate
from agtphost.dispatch.gates.purchase import METHOD, MerchantGate
from agtphost.dispatch.gates.reinstatement import PatientCallerGate
from agtphost.dispatch.interfaces import IContractResolver, IGate
from agtphost.dispatch.merchants import MerchantManifests
from agtphost.dispatch.rights import Narrowings
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.handlers.operators import OperatorAction
from agtphost.identity.authorities import ClientAuthorities
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance
from agtphost.identity.revocation import Revocations
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import PathGrammar
from agtphost.vocabulary.steps import Executor


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """The objects that the gates consult."""

    directory: IAgentDirectory
    states: identity.States
    by_server_name: Mapping[str, str]
    catalog: Catalog
    custom_methods: Collection[str]
    grammar: PathGrammar
    policy: MethodPolicy
    table: EndpointTable
    action: IGate
    ledger: ILedger
    granted: IGate | None = None
    """Accepts the tokens of AUTHORIZE; None: they are not supported."""

    principal: IGate | None = None
    """Looks at external credentials; None where no identity provider is configured."""

    other_catalogs: Sequence[Catalog] = ()
    """Further versions that requests can ask to be validated against."""

    discloses: identity.Discloses = lambda exchange, agent: True
    """Who may read documents about an agent."""

    rate: IGate | None = None
    """Counts callers; None counts none."""

    bounds: Sequence[IGate] = ()
    """What holds a call to its budget and to the operator's scope dimensions."""

    sessions: IGate | None = None
    """Holds sessions and tasks that were stopped; None where nothing stops any."""

    agents_at: str = ""
    """The subdomain that agents' addresses are redirected to; empty where they are here."""

    own: Authority = NOWHERE
    """Where the host is reached, for addresses that it tells."""

    merchant: IGate | None = None
    """Verifies the counterparty of PURCHASE; None: one that believes no Intent-Assertion and knows no quote."""

    revocations: Revocations | None = None
    """Asked about every client certificate; None: none is revoked."""

    authorities: ClientAuthorities | None = None
    """Which client authority vouches for whom; None: each for everybody."""

    yaml: bool = False
    """Whether YAML bodies are read."""

    offload: Executor | None = None
    """Where schemas are compiled that take long; None: in the reactor's thread."""

    anonymous_discovery: bool = True
    """Whether callers that are not authenticated may read the built-ins."""

    floor: Assurance = Assurance.CERTIFICATE
    """How surely a caller must be known to count as authenticated there."""

    approvals: Approvals | None = None
    """Which calls a person has approved; None where nothing needs it."""

    authorization: Authorization = field(default_factory=Authorization)
    """Tells operators and registrars apart from everybody else."""

    listening: ListeningRequests | None = None
    """Lets requests of suspended agents wait for their reinstatement; None: they are refused immediately."""

    narrowings: Narrowings = lambda agent_id: None
    """Finds the grants that narrow an agent; None for an agent that is not narrowed."""

    is_fresh: Callable[[], bool] | None = None
    """Returns whether this host still has the lease of its store for certain; None where it shares it with no other."""

    negotiator: IContractResolver | None = None
    """None: nothing is negotiated, and contracts are unknown."""


def gates(given: Collaborators) -> Sequence[IGate]:
    """Return every gate, first to last. After the last one, the handler runs."""
    claimed, may_try = authority.ClaimedScopesGate(given.floor), given.authorization.operators.may
    callers = identity.CallerGate if given.listening is None else partial(PatientCallerGate, listening=given.listening)
    return (
        identity.FramingGate(),
        identity.ConnectionGate(given.revocations),
        callers(
            given.directory,
            given.states,
            given.authorities,
            given.narrowings,
            given.floor,
            may_try=partial(may_try, action=OperatorAction.TRY),
        ),
        *((given.rate,) if given.rate is not None else ()),
        identity.AddresseeGate(
            given.directory,
            given.states,
            given.by_server_name,
            given.agents_at,
            _verbs(given.policy, METHOD),
            own=given.own,
            documents=_documents(given.policy, given.table),
            discloses=given.discloses,
        ),
        *((given.granted,) if given.granted is not None else ()),
        method.ReservedHeadersGate(),
        method.AliasGate(given.policy),
        *((endpoint.ContractGate(given.negotiator),) if given.negotiator is not None else ()),
        method.CatalogGate(given.catalog, given.custom_methods, given.policy, given.other_catalogs),
        method.PathGate(given.grammar),
        method.PolicyGate(given.policy, given.table),
        endpoint.EndpointGate(given.table, given.policy, given.negotiator, claimed.check),
        authority.AnonymousGate(given.authorization, given.floor),
        *(() if given.anonymous_discovery else (DiscoveryGate(given.floor, given.authorization),)),
        *((given.principal,) if given.principal is not None else ()),
        claimed,
        authority.AuthorityGate(),
        # The body is read here for the first time, and only for callers that may call.
        body.BodyGate(yaml=given.yaml),
        # Where no HTTP verb is opted in there is nothing to do, and so no gate.
        *((body.LegacyGate(given.policy),) if given.policy.legacy_acts else ()),
        body.ParametersGate(),
        given.action,
        authority.AuthorityGate("scopes and assurance of the action", behind_body=True),
        # Always there: no host lets a PURCHASE through without it.
        given.merchant or MerchantGate(given.states, MerchantManifests()),
        *((given.sessions,) if given.sessions is not None else ()),
        *given.bounds,
        endpoint.SchemaGate(given.offload),
        # The input is as the handler will see it, and no key is taken for what may not run.
        *((ApprovalGate(given.approvals),) if given.approvals is not None else ()),
        IdempotencyGate(given.ledger),
        StoreGate(given.ledger) if given.is_fresh is None else LeasedStoreGate(given.ledger, given.is_fresh),
    )


def _verbs(policy: MethodPolicy, method: str) -> frozenset[str]:
    """Return the verbs on the wire that may stand for a method."""
    aliases = {name for name, target in policy.aliases.items() if target == method}
    redirected = {redirect.from_method for redirect in policy.redirects if redirect.to_method == method}
    return frozenset({method} | aliases | redirected)


def _documents(policy: MethodPolicy, table: EndpointTable) -> identity.Documents:
    """
    Return the test for requests that are FETCH of a document about agents; an operator's own endpoint there has
    priority.
    """
    verbs, places = _verbs(policy, identity.FETCH), (None, "", "status")

    def documents(verb: str, rest: str | None) -> bool:
        if verb not in verbs or rest not in places:
            return False
        match = None if rest is None else table.match(identity.FETCH, f"/{rest}")
        return match is None or match.binding.tier == body.BUILT_IN

    return documents
